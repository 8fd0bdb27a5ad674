"""The page of recompilations: the functions of the program, what each was compiled for and why not once for all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .markup import Html, el, join, link, milliseconds, number, plural, table
from .model import FUNCTION_PREFIX, Dump, Record, amount, mapping, word, words
from .reading import rows
from .site import Page

PAGE = "recompiles"
_MOST_FUNCTIONS = 100
_MOST_COMPILATIONS = 50  # of a function
_COLUMNS = ("#", "At", "Took", "Executable", "Inputs", "Why again: expected | actual", "Why not one with it")
UNKNOWN_CAUSE = "not recorded"
_CONSTANT, _LIMIT = "constant in the program", "limit of the cache"
_LONGEST = 200  # characters of a value
# Kind of a guard that changed -> kind of cause. What has no entry is about the process.
_CAUSES = {
    "dtype": "dtype",
    "rank": "rank",
    "value": "constant value",
    "equal": "size",
    "range": "size",
    "divisible": "size",
    "residue": "size",
    "same": "size",
    "flag": "flags",
    "python": "Python value",
    "constexpr": "constexpr of a kernel",
}
_OF_PROCESS = frozenset({"flag", "python", "constexpr"})  # what they are about says all
_NUMBERS = re.compile(r"(_\d+)+_?$")  # TensorFlow's, of a trace
_INPUTS = re.compile(r" of \d+$")


@dataclass(slots=True)
class Compilation:
    """number: its place among those of its function. hits: times it was found afterwards."""

    record: Record
    number: int
    hits: int = 0

    @property
    def causes(self) -> list[str]:
        """Kinds of what it differs in from the closest earlier one; of the first none."""
        record = self.record
        if not isinstance(record.get("changed"), list):
            return [] if self.number == 1 else [UNKNOWN_CAUSE]
        found = [_cause(change) for change in rows(record["changed"])]
        apart = mapping(record, "apart")
        if not found:
            return (["program structure"] if word(apart, "instr") else [_CONSTANT]) if apart else [_LIMIT]
        if word(apart, "instr") and not {"dtype", "rank"} & set(found):
            found.append("program structure")
        return list(dict.fromkeys(found))


@dataclass(slots=True)
class Function:
    """A function of the program, or a cluster: all its traces together."""

    title: str
    compilations: list[Compilation] = field(default_factory=list)
    hits: int = 0
    saved: float = 0.0
    unknown_hits: int = 0  # of executables whose compilation is not in the dump

    @property
    def milliseconds(self) -> float:
        return sum(amount(c.record, "ms") or 0 for c in self.compilations)

    @property
    def causes(self) -> Counter[str]:
        return Counter(cause for c in self.compilations for cause in c.causes)


def functions(dump: Dump) -> list[Function]:
    """From the records `compile`, in the order of time; those that took longest first."""
    found: dict[str, Function] = {}
    made: dict[tuple[str, str], Compilation] = {}
    for record in sorted(dump.of("compile"), key=lambda r: amount(r, "time") or 0):
        title = _title(record)
        function = found.setdefault(title, Function(title))
        key = word(record, "pid"), word(record, "key")
        if not record.get("hit"):
            function.compilations.append(Compilation(record, len(function.compilations) + 1))
            made[key] = function.compilations[-1]
            continue
        function.hits += 1
        if key[1] and key in made:
            made[key].hits += 1
            function.saved += amount(made[key].record, "ms") or 0
        else:
            function.unknown_hits += 1
    return sorted(found.values(), key=lambda f: (-f.milliseconds, f.title))


def again(found: Sequence[Function]) -> list[Function]:
    """Those that were compiled more than once."""
    return [f for f in found if len(f.compilations) > 1]


def _title(record: Record) -> str:
    """What all traces share: the family without the number of inputs, or the name without TensorFlow's numbers."""
    name = word(record, "cluster", "function", "module").removeprefix(FUNCTION_PREFIX)
    family = _INPUTS.sub("", word(record, "family"))
    if word(record, "what") == "cluster":
        caller = family.rpartition("/")[0].removeprefix("__inference_")
        return f"{name} in {caller}" if caller else name
    return (family or _NUMBERS.sub("", name)).removeprefix("__inference_") or "unknown"


def build(page: Page, dump: Dump, found: Sequence[Function]) -> None:
    """The page's tabs: the functions, and all compilations as one table."""
    page.html("functions", "Functions", _functions(dump, found))
    columns = [
        ("Function", "", 3),
        ("#", "n", 1),
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
            (f.title, c.number, amount(c.record, "ms") or "", _serves(c.record), ", ".join(c.causes), _reason(c.record))
            for f in found
            for c in f.compilations
        ),
    )


def overview(found: Sequence[Function]) -> Html | None:
    """For the start page: a line a function that was compiled again; None where there is none."""
    shown = [
        (
            f.title,
            number(len(f.compilations)),
            milliseconds(f.milliseconds),
            _causes(f.causes),
            _reason(f.compilations[-1].record),
        )
        for f in again(found)[:_MOST_FUNCTIONS]
    ]
    if not shown:
        return None
    head = ("Function or cluster", "Compilations", "Compile time", "Causes", "The last time")
    return join([table(head, shown, (1, 2)), el("p", link(PAGE, "All recompilations"))])


def _functions(dump: Dump, found: Sequence[Function]) -> Html:
    several = again(found)
    compilations = sum(len(f.compilations) for f in found)
    if not several:
        said = f"{plural(compilations, 'compilation')} of {plural(len(found), 'function')}: " if found else ""
        return el("p", f"{said}Nothing was compiled more than once.", class_="verdict")
    spent = sum(amount(c.record, "ms") or 0 for f in several for c in f.compilations[1:])
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
    shown = [_row(c, function, pages, start) for c in function.compilations[:_MOST_COMPILATIONS]]
    more = len(function.compilations) - _MOST_COMPILATIONS
    return el(
        "details",
        el("summary", el("b", function.title), f": {_totals(function)}"),
        table(_COLUMNS, shown, (0, 1, 2)),
        el("p", f"and {more:,} more, in 'All compilations'") if more > 0 else None,
        class_="retraces",
        open="",
    )


def _totals(function: Function) -> str:
    parts = [f"{plural(len(function.compilations), 'compilation')}, {milliseconds(function.milliseconds)}"]
    if function.hits:
        hits = f"found compiled {plural(function.hits, 'time')}"
        if known := function.hits - function.unknown_hits:
            hits += f" ({milliseconds(function.saved)} saved"
            hits += f" by {known} of them)" if function.unknown_hits else ")"
        parts.append(hits)
    return "; ".join([*parts, _causes(function.causes)])


def _causes(causes: Counter[str]) -> str:
    return ", ".join(cause if n == 1 else f"{cause} ({n} times)" for cause, n in causes.most_common())


def _row(made: Compilation, function: Function, pages: dict[int, str], start: float) -> tuple[object, ...]:
    record, at = made.record, amount(made.record, "time")
    return (
        number(made.number),
        f"{at - start:.2f} s" if at is not None else "",
        milliseconds(record.get("ms")),
        _executable(made, pages),
        _lines(_guards(record)),
        _why(made, function),
        _apart(record),
    )


def _executable(made: Compilation, pages: dict[int, str]) -> Html:
    identity = made.record.get("id")
    page = pages.get(identity) if isinstance(identity, int) else None
    hits = f"found {plural(made.hits, 'time')} later" if made.hits else None
    return _lines([_serves(made.record), hits, link(f"{page}/summary", f"module {identity}") if page else None])


def _serves(record: Record) -> str:
    generic = record.get("generic")
    return "all sizes" if generic is True else "its own size" if generic is False else "unknown"


def _guards(record: Record) -> list[str]:
    return words(record, "guards") or [f"{name}: {value}" for name, value in mapping(record, "guards").items()]


def _why(made: Compilation, function: Function) -> Html:
    """The cause, the earlier one that it is held against, and the guards of that which do not hold."""
    record = made.record
    parts: list[object] = [el("b", ", ".join(made.causes))] if made.causes else []
    changed = rows(record["changed"]) if isinstance(record.get("changed"), list) else []
    if not changed:
        alike = "the inputs are alike, the program is not"
        return _lines([*parts, alike if mapping(record, "apart") else _reason(record)])
    if closest := _closest(made, function):
        parts.append(f"against {closest.number}:")
    shown = [(_guard(change), _short(word(change, "was")), "|", _short(word(change, "now"))) for change in changed]
    return join([_lines(parts), el("table", *(el("tr", *(el("td", cell) for cell in row)) for row in shown))])


def _closest(made: Compilation, function: Function) -> Compilation | None:
    wanted = made.record.get("closest"), word(made.record, "pid")
    earlier = function.compilations[: made.number - 1]
    return next((c for c in earlier if (c.record.get("id"), word(c.record, "pid")) == wanted), None)


def _cause(change: Record) -> str:
    cause = _CAUSES.get(word(change, "kind"), "environment")
    return "variable shape" if cause in ("size", "rank") and word(change, "of").startswith("variable ") else cause


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _guard(change: Record) -> str:
    axis, kind = amount(change, "axis"), word(change, "kind")
    if kind not in _CAUSES or kind in _OF_PROCESS:
        return word(change, "of")
    return f"{word(change, 'of')} {kind if axis is None or axis < 0 else f'dim {axis}'}"


def _apart(record: Record) -> Html:
    """Where the modules part, and what would have made one of both."""
    apart = mapping(record, "apart")
    values = words(apart, "values")
    return _lines(
        [
            el("b", word(apart, "where")) if word(apart, "where") else None,
            ": ".join(filter(None, (word(apart, "instr"), word(apart, "what")))) or None,
            *(el("code", value) for value in values),
            *(el("span", f"→ {remedy}", class_="good") for remedy in words(record, "remedies")),
        ]
    )


def _reason(record: Record) -> str:
    return word(record, "reason") or UNKNOWN_CAUSE


def _lines(parts: Sequence[object]) -> Html:
    """One below the other; None left out."""
    return join(el("div", part) for part in parts if part is not None)
