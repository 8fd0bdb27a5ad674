"""Times of phases that lie in one another, and how they add up."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

REST = "other"
"""The time of a phase that lies in none of the phases inside."""


@dataclass(slots=True)
class PhaseTimes:
    """`seconds` of a phase; `parts`: the phases inside by name, those of one name added up."""

    seconds: float = 0.0
    parts: dict[str, PhaseTimes] = field(default_factory=dict)

    def add(self, name: str, inner: PhaseTimes) -> None:
        """One more phase inside."""
        known = self.parts.setdefault(name, PhaseTimes())
        known.seconds += inner.seconds
        for part, times in inner.parts.items():
            known.add(part, times)

    def milliseconds(self, apart: Set[str] = frozenset(), opened: Set[str] = frozenset()) -> dict[str, float]:
        """Of the phases inside, and REST; their sum is this phase. Those that are called as one of `apart` stand by
        themselves wherever they lie, and are not in those around them; of one of `opened` the phases inside stand in
        its place."""
        found: dict[str, float] = {}
        rest = self.divide(found, apart, opened)
        return {**found, REST: rest}

    def divide(self, found: dict[str, float], apart: Set[str], opened: Set[str]) -> float:
        """Add the phases inside to `found`, as `milliseconds`; what is left of this one."""
        left = self.seconds * 1e3
        for name, part in self.parts.items():
            left -= part.seconds * 1e3
            inside: dict[str, float] = {}
            own = part.divide(inside, apart, opened)
            for inner, ms in inside.items():
                if name in opened or (inner in apart and name not in apart):
                    found[inner] = found.get(inner, 0.0) + ms
                else:
                    own += ms
            if name in opened:
                left += own
            else:
                found[name] = found.get(name, 0.0) + own
        return left
