"""The functions of the program, what each was compiled for and why again, from the trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .model import FUNCTION_PREFIX, Dump, Record, amount, mapping, place, word
from .reading import rows

UNKNOWN_CAUSE = "not recorded"
LIMIT_CAUSE = "recompile limit"
_STRUCTURE = "program structure"
_CONSTANT, _DROPPED = "constant in the program", "limit of the cache"
# Kind of a guard that changed -> kind of cause. What has no entry is about the process.
CAUSES = {
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
# Causes with which the program is another one in any case.
_OTHER_PROGRAM = {CAUSES[kind] for kind in ("dtype", "rank", "constexpr")}
_NUMBERS = re.compile(r"(_\d+)+_?$")  # TensorFlow's, of a trace
_INPUTS = re.compile(r" of \d+$")


@dataclass(slots=True)
class Compilation:
    """function, number: that of its function and its place among those of it, both from 0. hits: times it was found
    afterwards. closest: the earlier one that it is held against."""

    record: Record
    function: int
    number: int
    hits: int = 0
    closest: Compilation | None = None

    @property
    def name(self) -> str:
        """As torch's compile ids: `2/1` is the second of the third function."""
        return f"{self.function}/{self.number}"

    @property
    def causes(self) -> list[str]:
        """Kinds of what it differs in from the closest earlier one; of the first none."""
        record = self.record
        if not isinstance(record.get("changed"), list):
            return [] if self.number == 0 else [UNKNOWN_CAUSE]
        found = [_cause(change) for change in rows(record["changed"])]
        apart = mapping(record, "apart")
        if not found:
            return [_STRUCTURE if self._is_other_program() else _CONSTANT] if apart else [_DROPPED]
        if word(apart, "instr") and self._is_other_program() and not _OTHER_PROGRAM & set(found):
            found.append(_STRUCTURE)
        elif set(found) == {CAUSES["equal"]} and "(constant)" in word(apart, "instr"):
            found.append(_CONSTANT)
        return list(dict.fromkeys(found))

    def _is_other_program(self) -> bool:
        """Has it other instructions than the closest? Where that is not recorded: is one named at which they part?"""
        own = word(self.record, "structure")
        other = word(self.closest.record, "structure") if self.closest is not None else ""
        return own != other if own and other else bool(word(mapping(self.record, "apart"), "instr"))


@dataclass(slots=True)
class Function:
    """A function of the program, or a cluster: all its traces together. number: in the order of first compilations.
    limits: records of --tfxla_recompile_limit."""

    title: str
    where: str = ""
    number: int = 0
    compilations: list[Compilation] = field(default_factory=list)
    hits: int = 0
    saved: float = 0.0
    unknown_hits: int = 0  # of executables whose compilation is not in the dump
    found_ms: float = 0.0  # what traces cost that found an executable
    traces: set[str] = field(default_factory=set)
    limits: list[Record] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """What compiling took."""
        return sum(amount(c.record, "ms") or 0 for c in self.compilations)

    @property
    def total(self) -> float:
        """Milliseconds of all that went into it: traces and lowerings too."""
        return self.found_ms + sum(cost(c.record) for c in self.compilations)

    @property
    def causes(self) -> Counter[str]:
        found = Counter(cause for c in self.compilations for cause in c.causes)
        return found + Counter({LIMIT_CAUSE: len(self.limits)})


def functions(dump: Dump) -> list[Function]:
    """From the records `compile`, in the order of time; those that took longest first."""
    found: dict[tuple[str, str], Function] = {}
    made: dict[tuple[str, str], Compilation] = {}
    for record in sorted(dump.of("compile"), key=lambda r: amount(r, "time") or 0):
        function = _function(found, record)
        function.traces.add(word(record, "cluster", "function", "module"))
        key = word(record, "pid"), word(record, "key")
        if not record.get("hit"):
            made[key] = _compilation(function, record)
            continue
        function.hits += 1
        function.found_ms += cost(record)
        if key[1] and key in made:
            made[key].hits += 1
            function.saved += amount(made[key].record, "ms") or 0
        else:
            function.unknown_hits += 1
    for record in dump.of("limit"):
        _function(found, record).limits.append(record)
    return sorted(found.values(), key=lambda f: (-f.milliseconds, f.title))


def _compilation(function: Function, record: Record) -> Compilation:
    wanted, pid = record.get("closest"), word(record, "pid")
    same = (c for c in function.compilations if (c.record.get("id"), word(c.record, "pid")) == (wanted, pid))
    closest = None if wanted is None else next(same, None)
    function.compilations.append(Compilation(record, function.number, len(function.compilations), closest=closest))
    return function.compilations[-1]


def _function(found: dict[tuple[str, str], Function], record: Record) -> Function:
    """A family is a function, or a cluster of one, at whatever trace; of another line of the program another."""
    title, where, family = _title(record), word(record, "where"), word(record, "family")
    if not family:  # an older trace's record of a hit
        known = next((f for f in found.values() if f.title == title), None)
        if known is not None:
            return known
    return found.setdefault((family or title, where), Function(title, where, len(found)))


def again(found: Sequence[Function]) -> list[Function]:
    """Those that were compiled more than once, or would have been."""
    return [f for f in found if len(f.compilations) > 1 or f.limits]


def cost(record: Record) -> float:
    """Milliseconds of trace, lowering, generalising and compiling, as far as they are known."""
    known = costs(record)
    return sum(known.values()) if known else amount(record, "ms") or 0


def costs(record: Record) -> dict[str, float]:
    """What they went into -> milliseconds."""
    found = mapping(record, "costs")
    return {name: value for name in found if (value := amount(found, name)) is not None}


def serves(record: Record) -> str:
    """Whether the executable is for all sizes, in words."""
    generic = record.get("generic")
    return "all sizes" if generic is True else "its own size" if generic is False else "unknown"


def reason(record: Record) -> str:
    """Why it was compiled, a sentence."""
    return word(record, "reason") or UNKNOWN_CAUSE


def begins(function: Function) -> str:
    """'train.py:9' of its first line, '' unknown."""
    file, _, line = function.where.rpartition(":")
    return place({"file": file, "line": line}) if file else ""


def _title(record: Record) -> str:
    """What all traces share: the family without the number of inputs, or the name without TensorFlow's numbers."""
    name = word(record, "cluster", "function", "module").removeprefix(FUNCTION_PREFIX)
    family = _INPUTS.sub("", word(record, "family"))
    title = (family or _NUMBERS.sub("", name)).removeprefix("__inference_") or "unknown"
    return f"cluster of {title}" if family and word(record, "what") == "cluster" else title


def _cause(change: Record) -> str:
    cause = CAUSES.get(word(change, "kind"), "environment")
    return "variable shape" if cause in ("size", "rank") and word(change, "of").startswith("variable ") else cause
