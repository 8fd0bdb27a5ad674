"""Products of f32 as products of bf16: each operand is first split in three, whose sum it is.

The matrix units multiply bf16 so much faster than anything multiplies f32 that six of the nine products of thirds, all
that f32 has bits for, take less time. Of numbers near the least one the thirds lose bits: where there are such, which
the kernels that split find out, the product is made in f32. Both products are launched, and the programs of one of them
end at once: the host need not wait.
"""

from __future__ import annotations

from dataclasses import replace

from .....ir.dim import Dim, product
from .....ir.dtype import BF16, F32, S32, U32
from .....ir.polynomial import common_factor
from .....target import Target
from ...builder import KernelBuilder
from ...contraction import Contraction, Index, Plain, Side
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import Unit, UnitKernel
from ..space import linearize
from .packed_operands import SIDES, copier, row_place, row_stride
from .product_blocks import Blocks, Factors, in_f32
from .product_grid import Extents
from .product_kernel import Gate, ProductKernel

_LEAST = 2.0**-103  # from which on all three thirds are 0 or have whole bits above the least normal bf16, 2**-126
_LEADING = 0xFFFF0000  # bits of f32 that bf16 has
_FLAG = 2  # number of the temporary that is 1 where the product is made in f32, after those of the operands


def lower_in_thirds(c: Contraction, blocks: Blocks, factors: Factors, target: Target) -> Unit:
    """The kernels of an exact product of f32 of one matrix with one."""
    size, blocks = Extents.of(c), replace(blocks, persistent=1)
    f32 = replace(in_f32(c, factors, target), splits=1, persistent=1)
    split, steps, temps = c, [_clear(c)], []
    for temp, (name, free) in enumerate(zip(SIDES, (size.rows, size.cols))):
        matrix = replace(size, rows=free, cols=size.depth)
        steps.append(_splitter(c, name, matrix, temp))
        side = _side(getattr(c, name).depth, matrix, temp)
        split = replace(split, lhs=side) if name == "lhs" else replace(split, rhs=side)
        temps.append(product((3, free, row_stride(size.depth, BF16), BF16.itemsize)))
    in_thirds = ProductKernel(split, blocks, target, factors.bytes_read(blocks), Gate(_FLAG, 0))
    exact = ProductKernel(replace(c, name=f"{c.name}.f32"), f32, target, F32.itemsize, Gate(_FLAG, 1))
    return Unit((*steps, in_thirds.build(), exact.build()), (*temps, S32.itemsize))


def _clear(c: Contraction) -> UnitKernel:
    """Says that the thirds hold all bits."""
    p = Ports(f"{c.name}.clear")
    p.b.store(p.write("temp", _FLAG, S32), p.b.index(0), p.b.const(0, S32))
    return p.kernel(1, 1, 1)


def _splitter(c: Contraction, name: str, size: Extents, temp: int) -> UnitKernel:
    """Writes the thirds of an operand to the temporary [3, free, depth], of which rows begin at whole units of memory,
    and says so where they lose bits."""

    def keep(p: Ports, batch: Var, free: Var, depth: Var, value: Var) -> None:
        b = p.b
        for number, third in enumerate(_thirds(b, value)):
            b.store(p.write("temp", temp, BF16), _place(b, size, number, free, depth), third)
        lost = b.compare(b.op("abs", value), b.const(_LEAST, F32), "LT")
        lost = b.op("and", lost, b.compare(value, b.const(0.0, F32), "NE"))
        # By many lanes at once, all of which store the same.
        b.store(p.write("temp", _FLAG, S32), b.index(0), b.const(1, S32), mask=lost)

    return copier(c, name, size, row_stride(size.cols, BF16), keep)


def _thirds(b: KernelBuilder, value: Var) -> tuple[Var, Var, Var]:
    """f32 as three bf16, each the leading bits of what is left; infinities and NaN are the first alone."""
    first = _leading(b, value)
    finite = b.compare(b.op("abs", value), b.const(float("inf"), F32), "LT")
    rest = b.op("select", finite, b.op("subtract", value, first), b.const(0.0, F32), dtype=F32)
    second = _leading(b, rest)
    whole = b.op("select", b.compare(value, value, "EQ"), first, value, dtype=F32)  # not a NaN cut to an infinity
    parts = (whole, second, b.op("subtract", rest, second))
    one, two, three = (b.op("convert", part, dtype=BF16) for part in parts)
    return one, two, three


def _leading(b: KernelBuilder, value: Var) -> Var:
    bits = b.op("bitcast-convert", value, dtype=U32)
    return b.op("bitcast-convert", b.op("and", bits, b.const(_LEADING, U32)), dtype=F32)


def _place(b: KernelBuilder, size: Extents, number: int, free: Var, depth: Var) -> Var:
    row = b.add(b.mul(b.index(number), b.size(size.rows)), free)
    return row_place(b, row, size.cols, depth, BF16)


def _side(dims: tuple[Dim, ...], size: Extents, temp: int) -> Side:
    """The thirds as an operand, whose depth is taken apart as it was."""

    def value(p: Ports, g: Index, free: Index, depth: Index) -> Var:
        b, buffer, k = p.b, p.read("temp", temp, BF16), linearize(p.b, depth, dims)
        places = [_place(b, size, number, free[0], k) for number in range(3)]
        first, second, third = (b.op("convert", b.load(buffer, place), dtype=F32) for place in places)
        return b.op("add", b.op("add", third, second), first)

    def matrix(p: Ports, g: Index) -> Plain:
        stride = row_stride(size.cols, BF16)
        buffer, unit = p.read("temp", temp, BF16), common_factor((stride,))
        return Plain(buffer, p.b.index(0), p.b.size(stride), unit, p.b.size(size.rows))

    return Side((size.rows,), dims, "depth", value, matrix=matrix)
