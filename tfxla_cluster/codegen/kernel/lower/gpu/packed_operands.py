"""Operands of a matrix product that are copied first, as the matrix units take them: the depth contiguous, rows at
whole units of memory.

Rounded to tf32: f32 in another order goes through registers, at a fifth of the speed. As f16 or bf16: what is computed
(a conversion), or does not lie as a matrix, cannot be read in blocks by the unit that copies them, and is computed
again for each block of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from .....ir.dim import Dim, ceil_div, make, product
from .....ir.dtype import F32, DType
from .....ir.polynomial import common_factor
from ...builder import KernelBuilder
from ...contraction import Contraction, Index, Plain, Side
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import UnitKernel
from ..contraction_operand import convert
from ..space import delinearize, linearize
from .capability import DESCRIPTOR_UNIT
from .product_grid import Extents, tiles
from .shapes import MULTIPLE

_BLOCK = (64, 64)  # free indices and depths of a program that copies
_WARPS = 8
SIDES = ("lhs", "rhs")


def packable(c: Contraction) -> int:
    """The operands that a copy would put in order: 1 the left one, 2 the right one, 3 both."""
    wanted = [side.major == "free" and side.valid is None for side in (c.lhs, c.rhs)]
    return wanted[0] + 2 * wanted[1]


def packed(
    c: Contraction, packs: int, dtype: DType, held: tuple[Dim, ...] = ()
) -> tuple[Contraction, tuple[UnitKernel, ...], tuple[Dim, ...]]:
    """The contraction of the operands copied as factors of `dtype`, the kernels that copy them, and the bytes of the
    temporaries, those that are `held` already before them."""
    steps: list[UnitKernel] = []
    temps: list[Dim] = [*held]
    size = Extents.of(c)
    for bit, name, free in zip((1, 2), SIDES, (size.rows, size.cols)):
        if packs & bit:
            matrix = replace(size, rows=free, cols=size.depth)
            steps.append(_copy(c, name, matrix, len(temps), dtype))
            side = _side(c, getattr(c, name).depth, matrix, len(temps), dtype)
            c = replace(c, lhs=side) if name == "lhs" else replace(c, rhs=side)
            temps.append(product((matrix.batch, matrix.rows, row_stride(matrix.cols, dtype), dtype.itemsize)))
    return c, tuple(steps), tuple(temps)


def _copy(c: Contraction, name: str, size: Extents, temp: int, dtype: DType) -> UnitKernel:
    """Copies an operand to the temporary [batch, free, depth] of `dtype`."""

    def keep(p: Ports, batch: Var, free: Var, depth: Var, value: Var) -> None:
        if dtype == F32:  # to nearest: the matrix units would drop bits, so that all products were a little too small
            value = p.b.op("reduce-precision", value, exponent_bits=8, mantissa_bits=10)
        row = p.b.add(p.b.mul(batch, p.b.size(size.rows)), free)
        place = row_place(p.b, row, size.cols, depth, dtype)
        p.b.store(p.write("temp", temp, dtype), place, convert(p.b, value, dtype))

    return copier(c, name, size, row_stride(size.cols, dtype), keep)


def row_stride(depth: Dim, dtype: DType) -> Dim:
    """Elements from one row of a copy to the next: whole units of memory, and multiples of which kernels are told."""
    unit = max(DESCRIPTOR_UNIT // dtype.itemsize, MULTIPLE)
    return make("mul", ceil_div(depth, unit), unit)


def row_place(b: KernelBuilder, row: Var, extent: Dim, depth: Var, dtype: DType) -> Var:
    """The place of element `depth`, of `extent`, of a row of a copy."""
    return b.add(b.mul(row, b.size(row_stride(extent, dtype))), depth)


def copier(
    c: Contraction, name: str, size: Extents, width: Dim, keep: Callable[[Ports, Var, Var, Var, Var], None]
) -> UnitKernel:
    """A kernel that goes over an operand, 'lhs' or 'rhs'; `size`: its rows are the free indices, its columns the
    depth. `keep(ports, batch, free, depth, value)` stores one element of a row of `width`: past the depth there is
    nothing to be read, but it is stored so that stores are whole accesses."""
    p = Ports(f"{c.name}.{name}", MULTIPLE)
    b, side = p.b, c.lhs if name == "lhs" else c.rhs
    counts = [ceil_div(size.rows, _BLOCK[0]), ceil_div(width, _BLOCK[1])]
    batch, row, col = delinearize(b, b.task, [size.batch, *counts])
    g = tuple(delinearize(b, batch, c.batch))
    with tiles(b, replace(size, cols=width), (row, col), _BLOCK) as (i, k):
        inside = b.only_where(b.compare(k, b.size(size.cols), "LT")) if width != size.cols else nullcontext()
        with inside:
            value = side.value(p, g, tuple(delinearize(b, i, side.free)), tuple(delinearize(b, k, side.depth)))
        keep(p, batch, i, k, value)
    return p.kernel(product((size.batch, *counts)), _BLOCK[0] * _BLOCK[1], _WARPS)


def _side(c: Contraction, dims: tuple[Dim, ...], size: Extents, temp: int, dtype: DType) -> Side:
    """The copy as an operand, whose depth is taken apart as it was."""

    def batch(p: Ports, g: Index) -> Var:
        total = p.b.index(0)
        for at, extent in zip(g, c.batch):
            total = p.b.add(p.b.mul(total, p.b.size(extent)), at)
        return total

    def value(p: Ports, g: Index, free: Index, depth: Index) -> Var:
        row = p.b.add(p.b.mul(batch(p, g), p.b.size(size.rows)), free[0])
        place = row_place(p.b, row, size.cols, linearize(p.b, depth, dims), dtype)
        return convert(p.b, p.b.load(p.read("temp", temp, dtype), place), c.dtype)

    def matrix(p: Ports, g: Index) -> Plain:
        stride = row_stride(size.cols, dtype)
        first = p.b.mul(batch(p, g), p.b.size(make("mul", size.rows, stride)))
        return Plain(p.read("temp", temp, dtype), first, p.b.size(stride), common_factor((stride,)))

    return Side((size.rows,), dims, "depth", value, matrix=matrix)
