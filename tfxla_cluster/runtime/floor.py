"""The least time that bytes and operations can take on a machine."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Floor:
    """What a machine does at best. `copies`: (bytes, milliseconds) of copies that read and write so many bytes in all,
    the smallest first; `operations`: scalar ones in a millisecond, None where that is not known."""

    copies: tuple[tuple[int, float], ...]
    operations: float | None = None

    def milliseconds(self, moved: int, operations: int | None) -> float:
        """The larger of a copy of `moved` bytes and `operations` at the best rate; of what is not known nothing."""
        computing = operations / self.operations if operations and self.operations else 0.0
        return max(self._moving(moved), computing)

    def _moving(self, moved: int) -> float:
        """In proportion to the smallest and the largest copy beyond them."""
        at = bisect_left(self.copies, (moved, 0.0))
        if at in (0, len(self.copies)):
            size, ms = self.copies[min(at, len(self.copies) - 1)]
            return ms * moved / size
        (small, short), (large, long) = self.copies[at - 1 : at + 1]
        return short + (long - short) * (moved - small) / (large - small)
