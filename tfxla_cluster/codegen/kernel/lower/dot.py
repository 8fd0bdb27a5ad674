"""`dot`: any dimension numbers, by the contraction kernels."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import F32, DType
from ....ir.node import Instr
from ....ir.shape import Shape
from ....target import Target
from ..builder import KernelBuilder
from ..contraction import Contraction, Index, Plain, Side
from ..contraction_ports import Ports
from ..ir import Buffer, Var
from ..unit import Unit
from .contraction_build import build
from .contraction_loops import build_loops, transposed


@dataclass(frozen=True, slots=True)
class Group:
    """Axes of a contraction that are one index: `extents`, and the strides each operand takes them at."""

    extents: tuple[Dim, ...]
    lhs: tuple[Dim, ...] = ()
    rhs: tuple[Dim, ...] = ()


def lower_dot(instr: Instr, target: Target) -> Unit:
    """Kernels of a `dot` whose operands and result are buffers."""
    return lower_contraction(describe(instr), target)


def lower_contraction(c: Contraction, target: Target) -> Unit:
    """Choose the kernels: packed products for matrices of floats, loops for vectors and other dtypes."""
    if dims_.product(c.cols) == 1 and dims_.product(c.rows) != 1 and c.lhs.valid is None:
        c = transposed(c)
    vector = dims_.product(c.rows) == 1
    if vector or c.dtype.name not in ("f32", "f64"):
        return build_loops(c, target)
    return build(c, target)


def sum_dtype(instr: Instr) -> DType:
    """What a contraction adds up in: f32 for narrower floats, else the result's dtype."""
    dtype = instr.shape.dtype
    assert dtype is not None
    if dtype.kind == "pred" or any(o.shape.dtype is None for o in instr.operands):
        raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


def strides(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    return tuple(dims_.product(dims[axis + 1:]) for axis in range(len(dims)))


def describe(instr: Instr) -> Contraction:
    """The contraction of a dot."""
    lhs, rhs = (o.shape for o in instr.operands)
    a = instr.attrs
    lhs_batch, rhs_batch = tuple(a.get("lhs_batch_dims", ())), tuple(a.get("rhs_batch_dims", ()))
    lhs_depth, rhs_depth = tuple(a.get("lhs_contracting_dims", ())), tuple(a.get("rhs_contracting_dims", ()))
    order = sorted(range(len(lhs_depth)), key=lhs_depth.__getitem__)
    batch = _group(lhs, lhs_batch, rhs, rhs_batch)
    depth = _group(lhs, [lhs_depth[i] for i in order], rhs, [rhs_depth[i] for i in order])
    rows = _group(lhs, [d for d in range(lhs.rank) if d not in lhs_batch + lhs_depth], None, ())
    cols = _group(None, (), rhs, [d for d in range(rhs.rank) if d not in rhs_batch + rhs_depth])
    dtype = sum_dtype(instr)
    left = _side(0, lhs, dtype, batch.lhs, (rows.extents, rows.lhs), (depth.extents, depth.lhs))
    right = _side(1, rhs, dtype, batch.rhs, (cols.extents, cols.rhs), (depth.extents, depth.rhs))
    out = instr.shape.dtype
    assert out is not None
    totals = [dims_.product(group.extents) for group in (batch, rows, cols)]
    result = strides(totals)

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        b = p.b
        parts = [flat(b, index, group.extents) for index, group in ((g, batch), (m, rows), (n, cols))]
        b.store(p.write("result", 0, out), weighted(b, parts, result), convert(b, value, out))

    def place(p: Ports, g: Index) -> tuple[Buffer, Var]:
        b = p.b
        return p.write("result", 0, out), b.mul(flat(b, g, batch.extents), b.size(result[0]))

    return Contraction(
        instr.name, dtype, batch.extents, rows.extents, cols.extents, depth.extents, left, right, finish,
        place if out == dtype else None)


def _group(
    lhs: Shape | None, lhs_axes: Sequence[int], rhs: Shape | None, rhs_axes: Sequence[int]
) -> Group:
    """One index over the given axes (outermost first); neighbours in every operand become one dim."""
    present = [(s, axes) for s, axes in ((lhs, lhs_axes), (rhs, rhs_axes)) if s is not None]
    tables = [strides(s.dims) for s, _ in present]
    extents: list[Dim] = []
    taken: list[tuple[Dim, ...]] = []
    for position in range(len(present[0][1])):
        axes = [a[position] for _, a in present]
        extent = present[0][0].dims[axes[0]]
        stride = tuple(table[axis] for table, axis in zip(tables, axes))
        if extent == 1:
            continue
        before = [a[position - 1] for _, a in present] if position else []
        if taken and before and all(x + 1 == y for x, y in zip(before, axes)):
            extents[-1], taken[-1] = dims_.make("mul", extents[-1], extent), stride
            continue
        extents.append(extent)
        taken.append(stride)
    if not extents:
        extents, taken = [1], [(0,) * len(present)]
    columns = [tuple(t[i] for t in taken) for i in range(len(present))]
    left = columns.pop(0) if lhs is not None else ()
    return Group(tuple(extents), left, columns[0] if rhs is not None else ())


def _side(
    operand: int, shape: Shape, dtype: DType, batch: Sequence[Dim],
    free_dims: tuple[Sequence[Dim], Sequence[Dim]], depth_dims: tuple[Sequence[Dim], Sequence[Dim]],
) -> Side:
    """An operand that is a buffer: strides of its batch dims, (extents, strides) of free and depth dims."""
    (free_extents, free), (depth_extents, depth) = free_dims, depth_dims
    source = shape.dtype
    assert source is not None
    major = "free" if free[-1] == 1 and depth[-1] != 1 else "depth"

    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        b = p.b
        place = weighted(b, (*g, *f, *k), (*batch, *free, *depth))
        return convert(b, b.load(p.read("operand", operand, source), place), dtype)

    def plain(p: Ports, g: Index) -> Plain:
        b = p.b
        stride = free[0] if major == "depth" else depth[0]
        return Plain(p.read("operand", operand, source), weighted(b, g, batch), b.size(stride))

    matrix = len(free) == 1 and len(depth) == 1 and source == dtype
    unit = (depth if major == "depth" else free)[-1] == 1
    return Side(
        tuple(free_extents), tuple(depth_extents), major, value, plain=plain if matrix and unit else None)


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


def flat(b: KernelBuilder, index: Sequence[Var], extents: Sequence[Dim]) -> Var:
    return weighted(b, index, strides(extents))


def convert(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)
