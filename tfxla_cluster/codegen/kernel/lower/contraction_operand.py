"""Operands of a contraction: how an index of batch, free and depth dims reaches an element.

An operand in a buffer has a stride for every dim, and dims that form one run of memory become one. An
operand that is computed (a fused prologue) is asked for each element by its own index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import F32, DType
from ....ir.node import Instr
from ....ir.polynomial import same
from ..builder import KernelBuilder
from ..contraction import Index
from ..contraction_ports import Ports
from ..ir import Var

Element = Callable[[Ports, Index], Var]
Store = Callable[[Ports, Var, Index], None]


@dataclass(frozen=True, slots=True)
class Operand:
    """Operand number `number` of the unit, an array of `dims`; or, with `element`, any computed array.

    `contiguous`: the axis along which neighbours lie side by side in memory.
    """

    number: int
    dims: tuple[Dim, ...]
    dtype: DType
    contiguous: int
    element: Element | None = None


def buffer_operands(instr: Instr) -> list[Operand]:
    """The operands of `instr` as buffers, each the unit's operand of that number."""
    return [buffer_operand(n, o) for n, o in enumerate(instr.operands)]


def buffer_operand(number: int, source: Instr) -> Operand:
    """An operand that lies in a buffer."""
    dims, dtype = source.shape.dims, source.shape.element_type
    contiguous = max((axis for axis, extent in enumerate(dims) if extent != 1), default=0)
    return Operand(number, dims, dtype, contiguous)


def lies_in_order(hero: Instr) -> bool:
    """Whether the result of a dot or convolution lies as the elements of its contraction: by batch, row and column."""
    if hero.opcode == "dot":
        return True
    groups = int(hero.attrs.get("feature_group_count", 1)) * int(hero.attrs.get("batch_group_count", 1))
    one_phase = all(w.base_dilation == 1 for w in hero.attrs.get("window", ()))
    return groups == 1 and one_phase and hero.attrs["dim_labels"].out_feature == hero.shape.rank - 1


def store_result(instr: Instr) -> Store:
    """Stores an element of the contraction's own result as result 0."""
    dtype, steps, own = instr.shape.element_type, strides(instr.shape.dims), lies_in_order(instr)

    def store(p: Ports, value: Var, index: Index) -> None:
        p.put(0, weighted(p.b, index, steps), convert(p.b, value, dtype), own)

    return store


def sum_dtype(instr: Instr) -> DType:
    """What a contraction adds up in: f32 for narrower floats, else the result's dtype."""
    dtype = instr.shape.dtype
    if dtype is None or dtype.kind == "pred":
        raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


@dataclass(frozen=True, slots=True)
class Axis:
    """A dim of a free or depth index: `step` elements of the operand a unit.

    `spatial`: the spatial dim of a convolution whose input index it moves and which may leave the image;
    `run`: units to one step of that input index.
    """

    extent: Dim
    step: Dim
    spatial: int | None = None
    run: Dim = 1


def merged(axes: Sequence[Axis], may_check: bool = False) -> list[Axis]:
    """Neighbours that are one run of memory become one axis; axes of extent 1 that nothing checks go.

    A checked axis joins only the innermost, contiguous one (`may_check`): the image's borders then are
    a range of the joint index.
    """
    kept = [a for a in axes if a.extent != 1 or a.spatial is not None] or [Axis(1, 1)]
    found = [kept[-1]]
    for axis in reversed(kept[:-1]):
        inner = found[0]
        linear = same(axis.step, dims_.make("mul", inner.step, inner.extent))
        if linear and inner.spatial is None and axis.spatial is None:
            found[0] = Axis(dims_.make("mul", axis.extent, inner.extent), inner.step)
        elif linear and inner.spatial is None and may_check and len(found) == 1 and inner.step == 1:
            found[0] = Axis(dims_.make("mul", axis.extent, inner.extent), 1, axis.spatial, inner.extent)
        else:
            found.insert(0, axis)
    return found


def strides(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    return tuple(dims_.product(dims[axis + 1 :]) for axis in range(len(dims)))


def weighted(b: KernelBuilder, index: Sequence[Var], weights: Sequence[Dim]) -> Var:
    """The sum of index times weight (a weight of 0 has no term)."""
    total = b.index(0)
    for value, weight in zip(index, weights):
        if weight != 0:
            total = b.add(total, b.mul(value, number(b, weight)))
    return total


def number(b: KernelBuilder, value: Dim) -> Var:
    """A number that may be negative."""
    return b.index(value) if isinstance(value, int) and value < 0 else b.size(value)


def convert(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)
