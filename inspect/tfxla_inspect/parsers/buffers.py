"""Buffer assignment text: allocations and their values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ALLOCATION = re.compile(r"allocation (\d+): size (\d+), (.*):\s*$")
_VALUE = re.compile(r"\s+value: <(\d+) (.*) @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")
_KIND = re.compile(r"parameter|output|maybe-live-out|preallocated-temp|constant|thread-local")
_SAME = {"maybe-live-out": "output"}


@dataclass(slots=True)
class Allocation:
    """`kind` is 'parameter', 'output', 'preallocated-temp', 'constant', 'thread-local' or 'other';
    `values`: (instruction, bytes, offset, shape)."""

    number: int
    bytes: int
    what: str
    kind: str
    values: list[tuple[str, int, int, str]] = field(default_factory=list)


def parse(text: str) -> list[Allocation]:
    """The allocations; what follows them in newer files (live ranges) is not read."""
    found: list[Allocation] = []
    for line in text.split("\n"):
        if match := _ALLOCATION.match(line):
            kind = _KIND.search(match[3])
            found.append(
                Allocation(int(match[1]), int(match[2]), match[3], _SAME.get(kind[0], kind[0]) if kind else "other")
            )
        elif found and (match := _VALUE.match(line)):
            found[-1].values.append((match[2], int(match[3]), int(match[4]), match[5]))
    return found
