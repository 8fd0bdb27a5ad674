"""Where the time of compilations went: phase by phase, of a module, of a function, of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .markup import Html, el, join, link, milliseconds, plural, table
from .phases import ORDER, colour, phase_bar

# Phase -> what it is.
_MEANINGS = {
    "trace": "Python run by TensorFlow to make the graph",
    "cluster": "finding clusters in the graph, each cluster's part of it",
    "lowering": "TensorFlow's graph to HLO",
    "generic": "one module for all sizes: lowering at others, and proofs",
    "cache": "looking for the executable on disk",
    "history": "what tells it from earlier ones, and why it is made",
    "rank": "waiting for another worker",
    "verify": "checking the module as lowered",
    "passes": "HLO passes",
    "fusion": "deciding which instructions share kernels",
    "lower": "kernels as loop nests",
    "tuning": "measuring forms of kernels",
    "codegen": "LLVM IR or Triton source",
    "assembler": "machine code, as far as there was to wait for it",
    "plan": "buffers and steps",
    "load": "code into the process",
    "dump": "writing this dump",
    "other": "between these",
}
_MOST_PASSES = 12
_MOST_FUNCTIONS = 40


@dataclass(frozen=True, slots=True)
class Compilation:
    """`function`: of the program, that it is for; `module`: its title, `page` its page; `passes` of the phase
    'passes'."""

    function: str
    module: str
    page: str
    phases: Mapping[str, float]
    passes: Mapping[str, float]


def phase_table(phases: Mapping[str, float], passes: Mapping[str, float]) -> Html:
    """Of one module or of many: each phase with its share, and the slowest passes."""
    whole = sum(phases.values()) or 1e-9
    rows = [
        (
            join((el("span", class_="key", style=colour(name)), name)),
            milliseconds(phases[name]),
            f"{100 * phases[name] / whole:.1f} %",
            _MEANINGS.get(name, ""),
        )
        for name in [*(n for n in ORDER if n in phases), *(n for n in phases if n not in ORDER)]
    ]
    rows.append((el("b", "all"), el("b", milliseconds(whole)), "", ""))
    return join([table(("Phase", "Time", "Share", ""), rows, (1, 2)), _slowest(passes)])


def _slowest(passes: Mapping[str, float]) -> Html | None:
    """The passes that took longest."""
    if not passes:
        return None
    ordered = sorted(passes.items(), key=lambda p: -p[1])
    rest = ordered[_MOST_PASSES:]
    rows = [(name, milliseconds(ms)) for name, ms in ordered[:_MOST_PASSES]]
    more = f"and {len(rest):,} more, {milliseconds(sum(ms for _, ms in rest))}" if rest else None
    shown = table(("Pass", "Time"), rows, (1,))
    return el("details", el("summary", "Slowest passes"), shown, el("p", more, class_="soft") if more else None)


def overview(compilations: Sequence[Compilation]) -> Html | None:
    """All compilations together, then by function of the program; None where no time is known."""
    known = [c for c in compilations if c.phases]
    if not known:
        return None
    phases, passes = (_sum(getattr(c, name) for c in known) for name in ("phases", "passes"))
    functions: dict[str, list[Compilation]] = {}
    for one in known:
        functions.setdefault(one.function, []).append(one)
    ordered = sorted(functions.items(), key=lambda item: -sum(sum(c.phases.values()) for c in item[1]))
    longest = sum(sum(c.phases.values()) for c in ordered[0][1])
    rows = []
    for function, made in ordered[:_MOST_FUNCTIONS]:
        spent = _sum(c.phases for c in made)
        first = made[0]
        what = link(f"{first.page}/summary", function or first.module)
        rows.append((what, f"{len(made):,}", milliseconds(sum(spent.values())), phase_bar(spent, longest)))
    by_function = table(("Function", "Modules", "Time", "Phases"), rows, (1, 2))
    head = f"{milliseconds(sum(phases.values()))} were waited for {plural(len(known), 'module')}."
    return join([el("p", head), phase_table(phases, passes), el("h3", "By function"), by_function])


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
