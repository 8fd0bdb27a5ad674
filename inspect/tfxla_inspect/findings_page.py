"""Findings for people: the first of them on the start page, all of them on a page of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .findings import KINDS, Finding
from .markup import Html, el, join, link, milliseconds, plural
from .site import Page

PAGE = "findings"
_MOST, _MOST_OF_KIND = 8, 3  # on the start page


def build(page: Page, found: Sequence[Finding]) -> None:
    """A table of all findings, and what each kind means."""
    columns = [
        ("Kind", "", 3),
        ("What", "", 4),
        ("Saves ms", "n", 1),
        ("Evidence", "", 7),
        ("What to do", "", 5),
        ("User line", "", 3),
        ("Show", "", 1),
    ]
    page.table(
        "list",
        "All findings",
        columns,
        (
            (
                KINDS[f.kind].title,
                f.what,
                "" if f.saved is None else round(f.saved, 3),
                f.evidence,
                _remedy(f),
                f.where,
                {"t": "show", "h": f.route} if f.route else "",
            )
            for f in found
        ),
    )
    counted = Counter(f.kind for f in found)
    columns = [("Kind", "", 3), ("Findings", "n", 1), ("Saves ms", "n", 1), ("What is estimated", "", 6)]
    page.table(
        "kinds",
        "Kinds",
        columns,
        (
            (kind.title, counted[name], round(sum(f.saved or 0 for f in found if f.kind == name), 3), kind.saves)
            for name, kind in KINDS.items()
        ),
    )


def overview(found: Sequence[Finding], measured: bool) -> Html:
    """The first findings, for the start page. `measured`: whether the dump has times of executions."""
    if not found:
        return el("p", "Nothing found that would save time.", class_="soft")
    seen: Counter[str] = Counter()
    shown: list[Finding] = []
    for finding in found:
        seen[finding.kind] += 1
        if finding.is_open and seen[finding.kind] <= _MOST_OF_KIND and len(shown) < _MOST:
            shown.append(finding)
    more = len(found) - len(shown)
    rest = (
        el("p", link(PAGE, f"All {plural(len(found), 'finding')}"), " as a table to sort and filter.") if more else None
    )
    note = None
    if not measured:
        note = el("p", "The dump has no times of executions: what kernels would save is unknown.", class_="soft")
    return join([el("ol", *map(_item, shown), class_="findings"), rest, note])


def _item(finding: Finding) -> Html:
    kind = KINDS[finding.kind]
    saved = "saving unknown" if finding.saved is None else f"up to {milliseconds(finding.saved)}"
    title = link(finding.route, f"{kind.title}: {finding.what}") if finding.route else f"{kind.title}: {finding.what}"
    return el(
        "li",
        el("div", el("b", title), el("span", saved, class_="saved"), class_="head"),
        el("div", finding.evidence, "." if finding.saved is None else f". Estimated: {kind.saves}."),
        el("div", f"→ {_remedy(finding)}", class_="good"),
        el("div", el("code", finding.where), class_="soft") if finding.where else None,
    )


def _remedy(finding: Finding) -> str:
    return (finding.remedy or KINDS[finding.kind].remedy) if finding.is_open else "Nothing: no kernel holds both"
