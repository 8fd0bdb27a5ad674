"""The reduces of one level as one fold over blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .....fusion.program import Group
from .....ir.dtype import PRED, DType
from .....ir.node import Instr
from ...ir import Var
from ..emit import Emitter
from ..grid import bind_rows
from ..monoid import starts
from ..rows import combine_level, level_sources


def level_starts(reduces: Sequence[Instr]) -> tuple[Any, ...]:
    """What partial results of each accumulator may start from; all None where that is unknown for one."""
    found = [start for reduce in reduces for start in starts(reduce)]
    return tuple(found) if None not in found else (None,) * len(found)


class Level:
    """Elements, initial values and combiner of `reduces`.

    Idle lanes give neutral elements. Where the combiner has none that is known, a flag goes with the
    accumulators: whether they hold a value yet.
    """

    def __init__(self, e: Emitter, reduces: Sequence[Instr]) -> None:
        self.e, self.reduces = e, reduces
        self.elements, self.initial = level_sources(e, reduces)
        self.identity = level_starts(reduces)
        self.flagged = None in self.identity
        if self.flagged:
            self.identity = (False, *(_zero(x.instr.shape.element_type) for x in self.elements))

    def first(self) -> list[Var]:
        return self._flag([self.e.value(x) for x in self.initial])

    def neutral(self) -> list[Var]:
        """Partial results start from these."""
        dtypes = [PRED] * self.flagged + [x.instr.shape.element_type for x in self.elements]
        return [self.e.b.const(v, d) for v, d in zip(self.identity, dtypes)]

    def once(self) -> tuple[Var, ...]:
        """The results where a row is one element."""
        return self._results(self.combine(*self.first(), *self._values()))

    def across(self, lane: Var, pieces: Iterable[None]) -> tuple[Var, ...]:
        """The results over the lanes of a tile that holds the row: in each of its pieces, as each binds the loops."""
        found: tuple[Var, ...] = ()
        for _ in pieces:
            values = self._values()
            found = self.combine(*found, *values) if found else tuple(values)
        return self._results(self.e.b.across(lane, found, self.first(), self.identity, self.combine))

    def over(
        self, start: Var, stop: Var, reduced: Sequence[Group], width: int, first: Sequence[Var] | None = None
    ) -> tuple[Var, ...]:
        """The results over elements [start, stop) of the row, in blocks of `width`."""

        def element(i: Var) -> Sequence[Var]:
            bind_rows(self.e, reduced, i)
            return self._values()

        begin = self.first() if first is None else first
        found = self.e.b.reduce(start, stop, begin, self.identity, element, self.combine, "vector", width)
        return self._results(found)

    def combine(self, *args: Var) -> tuple[Var, ...]:
        count = len(self.identity)
        now, new = args[:count], args[count:]
        if not self.flagged:
            return combine_level(self.e.b, self.reduces, now, new)
        b = self.e.b
        both = b.op("and", now[0], new[0])
        merged = combine_level(b, self.reduces, now[1:], new[1:])
        chosen = []
        for one, two, three in zip(merged, now[1:], new[1:]):
            single = b.op("select", now[0], two, three, dtype=two.dtype)
            chosen.append(b.op("select", both, one, single, dtype=one.dtype))
        return (b.op("or", now[0], new[0]), *chosen)

    def _values(self) -> list[Var]:
        return self._flag([self.e.value(x) for x in self.elements])

    def _flag(self, values: list[Var]) -> list[Var]:
        return [self.e.b.const(True, PRED), *values] if self.flagged else values

    def _results(self, found: Sequence[Var]) -> tuple[Var, ...]:
        return tuple(found[self.flagged :])


def _zero(dtype: DType) -> Any:
    return False if dtype.kind == "pred" else 0
