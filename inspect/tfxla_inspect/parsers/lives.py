"""When each value of a module is in memory: our buffers.json, and XLA's HloLiveRange beside its buffer assignment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .buffers import Allocation

_SEQUENCE = re.compile(r"    (\d+):(.*)$")
_RANGE = re.compile(r"    (.*?):(\d+)-(\d+)$")
_KINDS = {"parameter": "input", "output": "output", "constant": "const", "preallocated-temp": "temp"}
_MOST = 2**62  # no machine has so many bytes: numbers of a damaged file


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes at an offset of an allocation of `kind` ('input', 'output', 'const', 'temp') and number `index`, there in
    the half-open ranges of ticks `live`."""

    name: str
    bytes: int
    kind: str
    index: int
    offset: int
    live: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Lives:
    """`steps`: (tick, instruction) in order; a step at tick t reads at t and writes at t + 1. `arena`: bytes that hold
    all values of kind 'temp'. `shared`: numbers of the outputs that lie where an input does."""

    steps: Sequence[tuple[int, str]]
    values: Sequence[Value]
    arena: int
    shared: frozenset[int] = field(default=frozenset())


def of_json(record: dict[str, Any]) -> Lives | None:
    """From buffers.json; what is odd in it is left out, None where no value is left."""
    steps = [(pair[0], str(pair[1])) for pair in _pairs(record.get("steps")) if _whole(pair[0])]
    values = [value for row in _list(record.get("buffers")) if (value := _value(row)) is not None]
    shared = frozenset(pair[0] for pair in _pairs(record.get("aliases")) if _whole(pair[0]))
    arena: Any = record.get("arena_bytes")
    return Lives(sorted(steps), values, arena if _whole(arena) else 0, shared) if steps and values else None


def _value(row: Any) -> Value | None:
    if not isinstance(row, dict):
        return None
    numbers: list[Any] = [row.get(key) for key in ("bytes", "index", "offset")]
    if not all(map(_whole, numbers)) or row.get("kind") not in _KINDS.values():
        return None
    live = tuple((a, b) for a, b in _pairs(row.get("live")) if _whole(a) and _whole(b) and a < b)
    return Value(str(row.get("name")), numbers[0], row["kind"], numbers[1], numbers[2], live)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pairs(value: Any) -> list[list[Any]]:
    return [pair for pair in _list(value) if isinstance(pair, list) and len(pair) == 2]


def of_text(text: str, allocations: Iterable[Allocation]) -> Lives | None:
    """From XLA's HloLiveRange, whose ranges include their last step; None where it has none, or no allocation has a
    value of it."""
    steps: list[tuple[int, str]] = []
    ranges: dict[str, tuple[int, int]] = {}
    for line in text.split("\n"):
        if match := _RANGE.match(line):
            ranges[match[1].removesuffix("{}")] = 2 * int(match[2]) + 1, 2 * int(match[3]) + 2
        elif match := _SEQUENCE.match(line):
            steps.append((2 * int(match[1]), match[2]))
    values, arena = [], 0
    for allocation in allocations:
        kind = _KINDS.get(allocation.kind)
        if kind is None:
            continue
        arena += allocation.bytes if kind == "temp" else 0
        for name, count, offset, _ in allocation.values:
            if found := ranges.get(name.removesuffix("{}")):
                values.append(Value(name, count, kind, allocation.number, offset, (found,)))
    return Lives(steps, values, arena) if steps and values else None
