"""What is scanned on a GPU: lines of elements, and the totals of their blocks as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .....ir.dim import Dim
from .....ir.dtype import DType
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import UnitRef

Place = tuple[Var, Var, Var]  # outer index, position along the line, inner index


class Body(Protocol):
    """The elements of lines, in one kernel. `mask`: where there is an element (None: everywhere)."""

    def load(self, place: Place, mask: Var | None) -> Sequence[Var]: ...

    def store(self, place: Place, values: Sequence[Var], mask: Var | None) -> None: ...

    def first(self) -> Sequence[Var] | None:
        """What stands before each line, if anything does."""


class Lines(Protocol):
    """What is scanned: `outer * inner` lines of `length` elements, `inner` apart; each has a value of every dtype."""

    @property
    def outer(self) -> Dim: ...

    @property
    def length(self) -> Dim: ...

    @property
    def inner(self) -> Dim: ...

    @property
    def dtypes(self) -> tuple[DType, ...]: ...

    @property
    def inputs(self) -> tuple[UnitRef, ...]: ...

    @property
    def outputs(self) -> tuple[UnitRef, ...]: ...

    @property
    def neutral(self) -> tuple[Any, ...] | None:
        """What changes nothing when combined, where values may be combined in any order."""

    def open(self, b: KernelBuilder, writes: bool) -> Body:
        """Declares the inputs as buffers, and where it `writes` the outputs."""

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        """The values of a stretch from those of its two parts."""


def total_place(b: KernelBuilder, lines: Lines, parts: Dim, place: Place) -> Var:
    """Where the total of a block stands: totals are lines as the elements are."""
    outer, number, inner = place
    return b.add(b.mul(b.add(b.mul(outer, b.size(parts)), number), b.size(lines.inner)), inner)


def after(b: KernelBuilder, lines: Lines, before: Sequence[Var] | None, values: Sequence[Var]) -> Sequence[Var]:
    return values if before is None else lines.combine(b, before, values)


def select(b: KernelBuilder, test: Var, yes: Sequence[Var], no: Sequence[Var]) -> list[Var]:
    return [b.op("select", test, one, other, dtype=one.dtype) for one, other in zip(yes, no)]


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of `lines` as lines, scanned from one temporary into another."""

    of: Lines
    length: Dim
    inputs: tuple[UnitRef, ...]
    outputs: tuple[UnitRef, ...]

    @property
    def outer(self) -> Dim:
        return self.of.outer

    @property
    def inner(self) -> Dim:
        return self.of.inner

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.of.dtypes

    @property
    def neutral(self) -> tuple[Any, ...] | None:
        return self.of.neutral

    def open(self, b: KernelBuilder, writes: bool) -> Body:
        return _TotalsBody(b, self)

    def combine(self, b: KernelBuilder, left: Sequence[Var], right: Sequence[Var]) -> Sequence[Var]:
        return self.of.combine(b, left, right)


class _TotalsBody:
    def __init__(self, b: KernelBuilder, totals: Totals) -> None:
        self.b, self.totals = b, totals
        self.sources, self.results = [b.input(d) for d in totals.dtypes], [b.output(d) for d in totals.dtypes]

    def load(self, place: Place, mask: Var | None) -> Sequence[Var]:
        at = total_place(self.b, self.totals.of, self.totals.length, place)
        return [self.b.load(source, at, mask) for source in self.sources]

    def store(self, place: Place, values: Sequence[Var], mask: Var | None) -> None:
        at = total_place(self.b, self.totals.of, self.totals.length, place)
        for result, value in zip(self.results, values):
            self.b.store(result, at, value, mask)

    def first(self) -> None:
        return None
