"""The page of recompilations: the functions of the program, what each was compiled for and why not once for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from . import guard_sets, similar, stacks
from .markup import Html, el, join, link, milliseconds, number, plural, table
from .model import Dump, Record, amount, mapping, word, words
from .reading import rows
from .recompiles import CAUSES, Compilation, Function, again, begins, cost, costs, reason, serves
from .site import Page

PAGE = "recompiles"
_MOST_FUNCTIONS = 100
_MOST_COMPILATIONS = 50  # of a function
_MOST_GROUPS = 100
_COLUMNS = ("Id", "At", "Took", "Executable", "Inputs", "Why again: expected | actual", "Why not one with it")
_LONGEST = 200  # characters of a value
_COSTS = {"generic": "all sizes"}  # in other words than the record's
_OF_PROCESS = frozenset({"flag", "python", "constexpr"})  # what they are about says all


def build(page: Page, dump: Dump, found: Sequence[Function]) -> None:
    """The page's tabs: the functions, what could have been one, from where it was called, and all compilations."""
    page.html("functions", "Functions", _functions(dump, found))
    page.html("similar", "Could be one", _similar(similar.groups(found)))
    called = [(stacks.frames(c.record, "called"), _leaf(f, c)) for f in found for c in f.compilations]
    if any(frames for frames, _ in called):
        page.html("stacks", "Called from", stacks.tree(called))
    else:
        page.missing("stacks", "Called from", "The trace holds no call stacks.")
    columns = [
        ("Function", "", 3),
        ("Id", "", 1),
        ("ms", "n", 1),
        ("Sizes", "", 1),
        ("Cause", "", 2),
        ("Reason", "", 6),
    ]
    page.table(
        "compilations",
        "All compilations",
        columns,
        (
            (f.title, c.name, round(cost(c.record), 3) or "", serves(c.record), ", ".join(c.causes), reason(c.record))
            for f in found
            for c in f.compilations
        ),
    )


def overview(found: Sequence[Function]) -> Html | None:
    """For the start page: a line a function that was compiled again; None where there is none."""
    shown = [
        (f.title, number(len(f.compilations)), milliseconds(f.total), _causes(f.causes), _last(f))
        for f in again(found)[:_MOST_FUNCTIONS]
    ]
    if not shown:
        return None
    head = ("Function or cluster", "Compilations", "Time", "Causes", "The last time")
    return join([table(head, shown, (1, 2)), el("p", link(PAGE, "All recompilations"))])


def _last(function: Function) -> str:
    return reason((function.limits or [c.record for c in function.compilations])[-1])


def _functions(dump: Dump, found: Sequence[Function]) -> Html:
    several = again(found)
    compilations = sum(len(f.compilations) for f in found)
    if not several:
        said = f"{plural(compilations, 'compilation')} of {plural(len(found), 'function')}: " if found else ""
        return el("p", f"{said}Nothing was compiled more than once.", class_="verdict")
    spent = sum(cost(c.record) for f in several for c in f.compilations[1:])
    text = f"{len(several):,} of {plural(len(found), 'function')} compiled more than once"
    head = el("p", f"{text}: {milliseconds(spent)} went into compiling again.", class_="verdict")
    pages = {m.files.id: m.page for m in dump.modules}
    start = min((t for r in dump.everything() if (t := amount(r, "time"))), default=0)
    parts = [_function(f, pages, start) for f in several[:_MOST_FUNCTIONS]]
    more = len(several) - _MOST_FUNCTIONS
    left = el("p", f"and {more:,} more, in 'All compilations'") if more > 0 else None
    return join([head, *parts, left])


def _function(function: Function, pages: dict[int, str], start: float) -> Html:
    """A part that opens and closes, with the totals as its heading."""
    shown = [_row(c, pages, start) for c in function.compilations[:_MOST_COMPILATIONS]]
    more = len(function.compilations) - _MOST_COMPILATIONS
    at = begins(function)
    return el(
        "details",
        el("summary", el("b", function.title), f" ({at})" if at else None, f": {_totals(function)}"),
        _limit(function),
        table(_COLUMNS, shown, (1, 2)),
        el("p", f"and {more:,} more, in 'All compilations'") if more > 0 else None,
        class_="retraces",
        open="",
    )


def _limit(function: Function) -> Html | None:
    """That it is compiled no more."""
    if not function.limits:
        return None
    last = function.limits[-1]
    said = f"Compiled no more since {plural(len(function.limits), 'size or value')} beyond --tfxla_recompile_limit: "
    remedy = el("div", f"→ {word(last, 'remedy')}", class_="good") if word(last, "remedy") else None
    return el("div", el("p", said, word(last, "reason")), remedy, class_="verdict bad")


def _totals(function: Function) -> str:
    parts = [f"{plural(len(function.compilations), 'compilation')}, {milliseconds(function.total)}"]
    if len(function.traces) > 1:
        parts[0] = f"{plural(len(function.traces), 'trace')}, {parts[0]}"
    if function.hits:
        hits = f"found compiled {plural(function.hits, 'time')}"
        if known := function.hits - function.unknown_hits:
            hits += f" ({milliseconds(function.saved)} saved"
            hits += f" by {known} of them)" if function.unknown_hits else ")"
        parts.append(hits)
    return "; ".join([*parts, _causes(function.causes)])


def _causes(causes: Counter[str]) -> str:
    return ", ".join(cause if n == 1 else f"{cause} ({n} times)" for cause, n in causes.most_common())


def _row(made: Compilation, pages: dict[int, str], start: float) -> tuple[object, ...]:
    record, at = made.record, amount(made.record, "time")
    called = stacks.shown("called from", stacks.frames(record, "called"))
    return (
        made.name,
        f"{at - start:.2f} s" if at is not None else "",
        _lines([milliseconds(cost(record)) if costs(record) else milliseconds(record.get("ms")), *_parts(record)]),
        _executable(made, pages),
        join([_lines(_guards(record)), called]),
        _why(made),
        _apart(record),
    )


def _parts(record: Record) -> list[Html]:
    """What it went into."""
    return [el("small", f"{_COSTS.get(name, name)} {milliseconds(value)}") for name, value in costs(record).items()]


def _executable(made: Compilation, pages: dict[int, str]) -> Html:
    identity = made.record.get("id")
    page = pages.get(identity) if isinstance(identity, int) else None
    hits = f"found {plural(made.hits, 'time')} later" if made.hits else None
    return _lines([serves(made.record), hits, link(f"{page}/summary", f"module {identity}") if page else None])


def _guards(record: Record) -> list[str]:
    """What it was compiled for, and what it holds for where that is more."""
    asked = words(record, "guards") or [f"{name}: {value}" for name, value in mapping(record, "guards").items()]
    return [*asked, *(f"serves {line}" for line in guard_sets.lines(record) if record.get("generic") is True)]


def _why(made: Compilation) -> Html:
    """The cause, the earlier one that it is held against, and the guards of that which do not hold."""
    record = made.record
    parts: list[object] = [el("b", ", ".join(made.causes))] if made.causes else []
    changed = rows(record["changed"]) if isinstance(record.get("changed"), list) else []
    told = record.get("told")
    of_others = [el("div", _told(one)) for one in rows(told)] if isinstance(told, list) else []
    if not changed:
        alike = "the inputs are alike, the program is not"
        return _lines([*parts, alike if mapping(record, "apart") else reason(record)])
    if made.closest is not None:
        parts.append(f"against {made.closest.name}:")
    shown = [(_guard(change), _short(word(change, "was")), "|", _short(word(change, "now"))) for change in changed]
    return join(
        [_lines(parts), el("table", *(el("tr", *(el("td", cell) for cell in row)) for row in shown)), *of_others]
    )


def _told(one: Record) -> str:
    """What another worker of the strategy saw."""
    return f"{word(one, 'task')} saw {word(one, 'of')} dim {word(one, 'axis')} {word(one, 'size')}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _guard(change: Record) -> str:
    axis, kind = amount(change, "axis"), word(change, "kind")
    if kind not in CAUSES or kind in _OF_PROCESS:
        return word(change, "of")
    return f"{word(change, 'of')} {kind if axis is None or axis < 0 else f'dim {axis}'}"


def _apart(record: Record) -> Html:
    """Where the modules part, and what would have made one of both."""
    apart = mapping(record, "apart")
    lines = _lines(
        [
            el("b", word(apart, "where")) if word(apart, "where") else None,
            ": ".join(filter(None, (word(apart, "instr"), word(apart, "what")))) or None,
            *(el("code", value) for value in words(apart, "values")),
            *(el("span", f"→ {remedy}", class_="good") for remedy in words(record, "remedies")),
        ]
    )
    return join([lines, stacks.shown("made by", stacks.frames(apart, "stack"))])


def _leaf(function: Function, made: Compilation) -> Html:
    """Of the tree of stacks: a compilation."""
    causes = ", ".join(made.causes)
    head = f"[{made.name}] {function.title}: {milliseconds(cost(made.record))}"
    return el("span", f"{head}, again for {causes}" if causes else head, class_="bad" if causes else "good")


def _similar(groups: Sequence[similar.Group]) -> Html:
    if not groups:
        return el("p", "No two executables have modules that are equal up to sizes.", class_="verdict")
    spent = sum(group.saved for group in groups)
    head = f"{plural(len(groups), 'group')} of modules that are equal up to sizes and constants: "
    shown = [
        (
            _lines([f"[{m.made.name}] {m.function.title}: {_shapes(m.made.record)}" for m in group.members]),
            _lines([el("span", f"→ {remedy}", class_="good") for remedy in group.remedies] or [group.why]),
            milliseconds(group.saved),
        )
        for group in groups[:_MOST_GROUPS]
    ]
    more = len(groups) - _MOST_GROUPS
    return join(
        [
            el("p", f"{head}{milliseconds(spent)} went into more than one of each.", class_="verdict"),
            table(("Executables", "What would have merged them", "Cost"), shown, (2,)),
            el("p", f"and {more:,} more") if more > 0 else None,
        ]
    )


def _shapes(record: Record) -> str:
    """And the values that are compiled in."""
    found = []
    for entry in guard_sets.inputs(record):
        value = f" = {_short(word(entry, 'value'))}" if word(entry, "value") else ""
        found.append(f"{word(entry, 'of')} {guard_sets.shape(entry)}{value}")
    return ", ".join(found)


def _lines(parts: Sequence[object]) -> Html:
    """One below the other; None left out."""
    return join(el("div", part) for part in parts if part is not None)
