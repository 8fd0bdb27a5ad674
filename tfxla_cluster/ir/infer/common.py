"""What all inference rules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import dim as dims_
from .. import polynomial, size_proofs
from ..dim import Dim
from ..dtype import DType
from ..node import Computation
from ..rules import broken
from ..shape import Shape


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction as inference sees it."""

    opcode: str
    operands: tuple[Shape, ...]
    attrs: Mapping[str, Any]
    result: Shape | None

    def array(self, i: int) -> Shape:
        """Operand `i`, which must be an array (rule A4)."""
        if i >= len(self.operands) or not self.operands[i].is_array:
            broken("A4", f"operand {i} of {self.opcode} must be an array")
        return self.operands[i]

    def dtype(self, i: int) -> DType:
        """Element type of array operand `i`."""
        return self.array(i).element_type

    def claimed(self) -> Shape:
        """The shape the instruction says it has, an array."""
        if self.result is None or not self.result.is_array:
            broken("A4", f"{self.opcode} must give an array and say its shape")
        return self.result


Rule = Callable[[Case], Shape]


def same(a: Dim, b: Dim) -> bool:
    """Proven equal at all sizes; a size that only its bound is known of counts as that bound, as to XLA."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return polynomial.same(dims_.from_bounds(a), dims_.from_bounds(b))


def fits_in(part: Dim, whole: Dim) -> bool:
    """Proven 0 <= part <= whole at all sizes. Of a size that an instruction produces, memory has its bound."""
    if isinstance(part, int) and isinstance(whole, int):
        return 0 <= part <= whole
    part, whole = dims_.from_bounds(part), dims_.capacity(whole)
    return size_proofs.at_most(0, part) and size_proofs.at_most(part, whole)


def is_multiple(dim: Dim, divisor: int) -> bool:
    """Proven a multiple of a positive number at all sizes."""
    return size_proofs.divides(divisor, dims_.from_bounds(dim))


def same_dims(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return a == b or (len(a) == len(b) and all(map(same, a, b)))


def same_shape(a: Shape, b: Shape) -> bool:
    """Equal but for layout and the way sizes are written."""
    if a is b:
        return True
    return (a.kind, a.dtype, len(a.elements)) == (b.kind, b.dtype, len(b.elements)) and (
        same_dims(a.dims, b.dims) and all(map(same_shape, a.elements, b.elements))
    )


def distinct(numbers: Sequence[int], rank: int) -> bool:
    """Each number is a dimension below `rank` and none comes twice."""
    return len(set(numbers)) == len(numbers) and all(0 <= n < rank for n in numbers)


def check_signature(case: Case, comp: Computation, params: Sequence[Shape], result: Shape | None, rule: str) -> None:
    """`comp` takes `params` and returns `result` (None: anything)."""
    have = [p.shape for p in comp.params]
    fits = len(have) == len(params) and all(map(same_shape, have, params))
    if not fits:
        broken(
            rule, f"{case.opcode} calls {comp.name}({', '.join(map(str, have))}) with ({', '.join(map(str, params))})"
        )
    if result is not None and not same_shape(comp.root.shape, result):
        broken(rule, f"{comp.name} returns {comp.root.shape}, {case.opcode} wants {result}")
