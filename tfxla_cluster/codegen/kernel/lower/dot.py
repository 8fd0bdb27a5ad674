"""`dot`: any dimension numbers, by the contraction kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import DType
from ....ir.node import Instr
from ....ir.polynomial import common_factor
from ....target import Target
from ..choice import Knobs
from ..contraction import Contraction, Index, Plain, Side
from ..contraction_ports import Ports
from ..ir import Buffer, Var
from ..unit import Unit
from .contraction_build import build
from .contraction_loops import build_loops, transposed
from .contraction_operand import (
    Axis,
    Operand,
    Store,
    buffer_operands,
    convert,
    merged,
    store_result,
    strides,
    sum_dtype,
    weighted,
)


def lower_dot(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a `dot` whose operands and result are buffers."""
    return lower_contraction(describe(instr), target, knobs)


def lower_contraction(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    """Choose the kernels: packed products for matrices of floats, loops for vectors and other dtypes."""
    if dims_.product(c.cols) == 1 and dims_.product(c.rows) != 1 and c.lhs.valid is None:
        c = transposed(c)
    vector = dims_.product(c.rows) == 1
    if vector or c.dtype.name not in ("f32", "f64"):
        return build_loops(c, target)
    return build(c, target, knobs)


def describe(instr: Instr, operands: Sequence[Operand] | None = None, store: Store | None = None) -> Contraction:
    """The contraction of a dot; `operands` and `store` stand for its buffers where it is fused."""
    left, right = operands or buffer_operands(instr)
    a = instr.attrs
    lhs_batch, rhs_batch = tuple(a.get("lhs_batch_dims", ())), tuple(a.get("rhs_batch_dims", ()))
    lhs_depth, rhs_depth = tuple(a.get("lhs_contracting_dims", ())), tuple(a.get("rhs_contracting_dims", ()))
    order = sorted(range(len(lhs_depth)), key=lhs_depth.__getitem__)
    lhs_depth, rhs_depth = (tuple(depth[i] for i in order) for depth in (lhs_depth, rhs_depth))
    lhs_free = [d for d in range(len(left.dims)) if d not in lhs_batch + lhs_depth]
    rhs_free = [d for d in range(len(right.dims)) if d not in rhs_batch + rhs_depth]
    dtype = sum_dtype(instr)
    put = store or store_result(instr)

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        put(p, value, (*g, *m, *n))

    def place(p: Ports, g: Index) -> tuple[Buffer, Var]:
        return p.write("result", 0, dtype), weighted(p.b, g, strides(instr.shape.dims))

    own = store is None and instr.shape.dtype == dtype
    return Contraction(
        instr.name,
        dtype,
        _pick(left, lhs_batch),
        _pick(left, lhs_free),
        _pick(right, rhs_free),
        _pick(left, lhs_depth),
        _side(left, dtype, lhs_batch, lhs_free, lhs_depth),
        _side(right, dtype, rhs_batch, rhs_free, rhs_depth),
        finish,
        place if own else None,
        precision(instr),
    )


def precision(instr: Instr) -> str:
    """What a dot or convolution says of its products: its algorithm, else the higher of its operands' precisions."""
    algorithm = str(instr.attrs.get("algorithm", ""))
    said = instr.attrs.get("operand_precision") or ("default",)
    return algorithm or max(said, key=("default", "high", "highest").index)


def _pick(o: Operand, axes: Sequence[int]) -> tuple[Dim, ...]:
    return tuple(o.dims[d] for d in axes)


def _side(o: Operand, dtype: DType, batch: Sequence[int], free: Sequence[int], depth: Sequence[int]) -> Side:
    """An operand by its batch, free and depth axes, each outermost first."""
    by_free = o.contiguous in free
    major = "free" if by_free else "depth"
    extents = [_pick(o, axes) or (1,) for axes in (free, depth)]
    if o.element is not None:
        return Side(extents[0], extents[1], major, _computed(o, dtype, batch, free, depth))
    step = strides(o.dims)
    free_axes, depth_axes = (merged([Axis(o.dims[d], step[d]) for d in axes]) for axes in (free, depth))
    group = [step[d] for d in batch]

    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        # An index of one element has no weight: its lanes then lie where the others do.
        weights = (*group, *(a.step if a.extent != 1 else 0 for a in (*free_axes, *depth_axes)))
        place = weighted(p.b, (*g, *f, *k), weights)
        return convert(p.b, p.b.load(p.read("operand", o.number, o.dtype), place), dtype)

    def plain(p: Ports, g: Index) -> Plain:
        outer, inner = (depth_axes[0], free_axes[0]) if by_free else (free_axes[0], depth_axes[0])
        stride = outer.step if outer.extent != 1 else inner.extent
        buffer, unit = p.read("operand", o.number, o.dtype), common_factor((stride, *group))
        return Plain(buffer, weighted(p.b, g, group), p.b.size(stride), unit)

    inner = (free_axes if by_free else depth_axes)[-1]
    matrix = len(free_axes) == 1 and len(depth_axes) == 1 and inner.step == 1
    return Side(
        tuple(a.extent for a in free_axes),
        tuple(a.extent for a in depth_axes),
        major,
        value,
        plain=plain if matrix and o.dtype == dtype else None,
        matrix=plain if matrix else None,
    )


def _computed(
    o: Operand, dtype: DType, batch: Sequence[int], free: Sequence[int], depth: Sequence[int]
) -> Callable[[Ports, Index, Index, Index], Var]:
    """Elements of a computed operand, asked for by the operand's own index."""
    assert o.element is not None
    element = o.element

    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        index = [p.b.index(0)] * len(o.dims)
        for axes, position in ((batch, g), (free, f), (depth, k)):
            for axis, at in zip(axes, position):
                index[axis] = at
        return convert(p.b, element(p, tuple(index)), dtype)

    return value
