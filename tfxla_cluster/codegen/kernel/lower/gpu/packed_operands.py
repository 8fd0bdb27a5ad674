"""Operands of a matrix product that are copied first, rounded to tf32, so that the depth is contiguous.

The matrix units take f32 (as tf32) in that order alone: read in another one it goes through registers, at a fifth of
the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .....ir.dim import Dim, ceil_div, make, product
from .....ir.polynomial import common_factor
from ...contraction import Contraction, Index, Plain, Side
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import UnitKernel
from ..space import delinearize, linearize
from .product_grid import Extents, tiles
from .shapes import MULTIPLE

_BLOCK = (64, 64)  # free indices and depths of a program that copies
_WARPS = 8
SIDES = ("lhs", "rhs")


def packable(c: Contraction) -> int:
    """The operands that a copy would put in order: 1 the left one, 2 the right one, 3 both."""
    wanted = [side.major == "free" and side.valid is None for side in (c.lhs, c.rhs)]
    return wanted[0] + 2 * wanted[1]


def packed(c: Contraction, packs: int) -> tuple[Contraction, tuple[UnitKernel, ...], tuple[Dim, ...]]:
    """The contraction of the operands copied, the kernels that copy them, and the bytes of the temporaries."""
    steps: list[UnitKernel] = []
    temps: list[Dim] = []
    size = Extents.of(c)
    for bit, name, free in zip((1, 2), SIDES, (size.rows, size.cols)):
        if packs & bit:
            matrix = replace(size, rows=free, cols=size.depth)
            steps.append(_copy(c, name, matrix, len(temps)))
            side = _side(c, getattr(c, name).depth, matrix, len(temps))
            c = replace(c, lhs=side) if name == "lhs" else replace(c, rhs=side)
            temps.append(product((matrix.batch, matrix.rows, matrix.cols, c.dtype.itemsize)))
    return c, tuple(steps), tuple(temps)


def _copy(c: Contraction, name: str, size: Extents, temp: int) -> UnitKernel:
    """Copies an operand of f32 to the temporary [batch, free, depth]."""

    def keep(p: Ports, batch: Var, free: Var, depth: Var, value: Var) -> None:
        # To nearest: the matrix units would drop bits, so that all products were a little too small.
        value = p.b.op("reduce-precision", value, exponent_bits=8, mantissa_bits=10)
        p.b.store(p.write("temp", temp, c.dtype), _place(p, size, batch, free, depth), value)

    return copier(c, name, size, keep)


def copier(c: Contraction, name: str, size: Extents, keep: Callable[[Ports, Var, Var, Var, Var], None]) -> UnitKernel:
    """A kernel that goes over an operand, 'lhs' or 'rhs'; `size`: its rows are the free indices, its columns the
    depth. `keep(ports, batch, free, depth, value)` stores one element."""
    p = Ports(f"{c.name}.{name}", MULTIPLE)
    b, side = p.b, c.lhs if name == "lhs" else c.rhs
    counts = [ceil_div(size.rows, _BLOCK[0]), ceil_div(size.cols, _BLOCK[1])]
    batch, row, col = delinearize(b, b.task, [size.batch, *counts])
    g = tuple(delinearize(b, batch, c.batch))
    with tiles(b, size, (row, col), _BLOCK) as (i, k):
        value = side.value(p, g, tuple(delinearize(b, i, side.free)), tuple(delinearize(b, k, side.depth)))
        keep(p, batch, i, k, value)
    return p.kernel(product((size.batch, *counts)), _BLOCK[0] * _BLOCK[1], _WARPS)


def _place(p: Ports, size: Extents, batch: Var, free: Var, depth: Var) -> Var:
    b = p.b
    return b.add(b.mul(b.add(b.mul(batch, b.size(size.rows)), free), b.size(size.cols)), depth)


def _side(c: Contraction, dims: tuple[Dim, ...], size: Extents, temp: int) -> Side:
    """The copy as an operand, whose depth is taken apart as it was."""

    def batch(p: Ports, g: Index) -> Var:
        total = p.b.index(0)
        for at, extent in zip(g, c.batch):
            total = p.b.add(p.b.mul(total, p.b.size(extent)), at)
        return total

    def value(p: Ports, g: Index, free: Index, depth: Index) -> Var:
        return p.b.load(
            p.read("temp", temp, c.dtype), _place(p, size, batch(p, g), free[0], linearize(p.b, depth, dims))
        )

    def matrix(p: Ports, g: Index) -> Plain:
        first = p.b.mul(batch(p, g), p.b.size(make("mul", size.rows, size.cols)))
        buffer, unit = p.read("temp", temp, c.dtype), common_factor((size.cols,))
        return Plain(buffer, first, p.b.size(size.cols), unit)

    return Side((size.rows,), dims, "depth", value, matrix=matrix)
