"""Contractions with one row of columns a group (depthwise convolutions) on a GPU: lanes run over groups.

With few depths (the taps of a window) a program is a block of results, the taps written out one by one. With many (the
gradient of the window) it is a block of groups that adds up over a part of the depth; the parts are then added in
order by a second kernel.
"""

from __future__ import annotations

from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import S64, U32
from .....ir.size_proofs import divides
from .....target import Target
from ...builder import KernelBuilder
from ...contraction import Contraction, Index
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import Unit, UnitKernel
from ..grid import minimum
from ..space import delinearize, digits
from .product_factors import tested_element
from .shapes import MULTIPLE, lanes
from .split_products import partial, total

_SHORT = 1 << 31  # results whose numbers, with those of idle lanes, have 32 bits
_TAPS = 49  # up to so many depths are written out
_BLOCK, _BLOCK_WARPS = 512, 4  # results of a program
_GROUPS, _RUN, _SUM_WARPS = 64, 32, 4  # groups of a program that sums, depths at a time
_LEAST_DEPTH = 1024  # of a program that sums
_WAVES = 4  # programs a multiprocessor


def lower_channels(c: Contraction, target: Target) -> Unit:
    """The kernels of a contraction that `contraction_channels.fits`."""
    taps = product(c.depth)
    if isinstance(taps, int) and taps <= _TAPS:
        return Unit((_written_out(c, taps),))
    splits = _splits(c, target)
    if splits == 1:
        return Unit((_summed(c, 1),))
    held = product((splits, *c.batch, *c.rows, *c.cols, c.dtype.itemsize))
    return Unit((_summed(partial(c, 0), splits), total(c, splits, 0)), (held,))


def _written_out(c: Contraction, taps: int) -> UnitKernel:
    p = Ports(c.name, MULTIPLE, wide=True)
    b, space = p.b, (*c.rows, *c.batch)
    count = product(space)
    start = b.mul(b.task, b.index(_BLOCK))
    full = divides(_BLOCK, count)
    with b.tile(start, minimum(b, b.add(start, b.index(_BLOCK)), b.size(count)), _BLOCK, full) as at:
        *m, group = _digits(b, at, space)
        result = b.const(0, c.dtype)
        for tap in range(taps):
            result = b.op("add", result, _term(p, c, (group,), tuple(m), digits(b, b.index(tap), c.lhs.depth)))
        c.finish(p, result, (group,), tuple(m), (b.index(0),) * len(c.cols))
    return p.kernel(ceil_div(count, _BLOCK), 3 * taps * _BLOCK, _BLOCK_WARPS)


def _digits(b: KernelBuilder, at: Var, space: tuple[Dim, ...]) -> tuple[Var, ...]:
    """As `digits`, in 32 bits where the numbers have no more: each lane takes its own apart."""
    size = product(space)
    if not isinstance(size, int) or size >= _SHORT:
        return digits(b, at, space)
    return tuple(b.op("convert", d, dtype=S64) for d in digits(b, b.op("convert", at, dtype=U32), space))


def _term(p: Ports, c: Contraction, g: Index, m: Index, k: Index) -> Var:
    left = tested_element(p, c.lhs, g, m, k)
    return p.b.op("multiply", left, tested_element(p, c.rhs, g, (p.b.index(0),) * len(c.cols), k))


def _splits(c: Contraction, target: Target) -> int:
    """Programs for the depth of a block of groups, by the sample sizes."""
    blocks = sample(product((*c.rows, ceil_div(c.batch[0], _GROUPS))))
    most = sample(product(c.depth)) // _LEAST_DEPTH
    return max(1, min(most, _WAVES * target.cores // max(blocks, 1)))


def _summed(c: Contraction, splits: int) -> UnitKernel:
    """A program sums its part of the depth, of one row, for a block of groups."""
    p = Ports(c.name, MULTIPLE, wide=True)
    b, groups, depth = p.b, c.batch[0], product(c.depth)
    width = lanes(groups, _GROUPS)
    counts = [splits, product(c.rows), ceil_div(groups, width)]
    split, row, block = delinearize(b, b.task, counts)
    m, n = digits(b, row, c.rows), (b.index(0),) * len(c.cols)
    part = ceil_div(depth, splits)
    begin = b.mul(split, b.size(part)) if splits > 1 else b.index(0)
    end = minimum(b, b.add(begin, b.size(part)), b.size(depth))
    start = b.mul(block, b.index(width))
    full = divides(width, groups)
    with b.tile(start, minimum(b, b.add(start, b.index(width)), b.size(groups)), width, full) as group:
        zero = b.const(0, c.dtype)
        (result,) = b.reduce(
            begin,
            end,
            [zero],
            [0],
            lambda k: (_term(p, c, (group,), m, digits(b, k, c.lhs.depth)),),
            lambda x, y: (b.op("add", x, y),),
            width=_RUN,
        )
        c.finish(p, result, (split, group) if splits > 1 else (group,), m, n)
    return p.kernel(product(counts), make("mul", width * 3, part), _SUM_WARPS)
