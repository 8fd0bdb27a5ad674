"""Matrix products whose work is the same for every program, whatever the number of blocks ('stream-K').

The depths of all blocks of the result, one after the other, are cut into as many equal runs of depth blocks as the
machine has multiprocessors. A run ends one block of the result and begins the next; what it adds to each is a partial
sum of its own in a temporary [programs, runs, rows, cols of a block]. A second kernel adds those of each block in the
order of programs, so that the result does not depend on which ran first.
"""

from __future__ import annotations

from .....ir.dim import Dim, ceil_div, make, product
from .....target import Target
from ...builder import KernelBuilder
from ...contraction import Contraction
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import Unit, UnitKernel
from ..contraction_walk import maximum
from ..grid import minimum
from ..space import delinearize
from .product_blocks import Blocks
from .product_factors import Multiplier
from .product_grid import Extents, Grid, tiles
from .shapes import MULTIPLE

_FINISH = (8, 128)  # rows and columns, at most, of a program that adds partial sums
_FINISH_WARPS = 4


def lower(c: Contraction, blocks: Blocks, target: Target) -> Unit:
    """The two kernels of a contraction without batch dims."""
    runs = _Runs(c, blocks, target.cores)
    held = product((runs.programs, runs.segments, blocks.rows, blocks.cols, c.dtype.itemsize))
    return Unit((_parts(c, blocks, runs), _total(c, blocks, runs)), (held,))


class _Runs:
    """How the depth blocks of all `tiles` are dealt out: run p has [begin(p), begin(p + 1)).

    `segments`: blocks of the result, at most, that a run has to do with; `shares`: runs, at most, that a block has.
    """

    def __init__(self, c: Contraction, blocks: Blocks, programs: int) -> None:
        self.size, self.blocks, self.programs = Extents.of(c), blocks, programs
        self.tiles = Grid(self.size.rows, self.size.cols, blocks)
        self.deep = ceil_div(self.size.depth, blocks.depth)
        self.work = make("mul", self.tiles.count, self.deep)
        self.segments: Dim = make("add", ceil_div(self.tiles.count, programs), 1)
        self.shares: Dim = make("add", ceil_div(programs, make("max", self.tiles.count, 1)), 1)

    def begin(self, b: KernelBuilder, run: Var) -> Var:
        return b.quotient(b.mul(run, b.size(self.work)), b.index(self.programs))

    def slot(self, b: KernelBuilder, run: Var, segment: Var) -> Var:
        """Where the sums of a segment begin in the temporary."""
        number = b.add(b.mul(run, b.size(self.segments)), segment)
        return b.mul(number, b.index(self.blocks.rows * self.blocks.cols))


def _place(b: KernelBuilder, blocks: Blocks, i: Var, j: Var) -> Var:
    """The number of an element within its block."""
    row, col = b.remainder(i, b.index(blocks.rows)), b.remainder(j, b.index(blocks.cols))
    return b.add(b.mul(row, b.index(blocks.cols)), col)


def _parts(c: Contraction, blocks: Blocks, runs: _Runs) -> UnitKernel:
    """A program is a run."""
    p = Ports(f"{c.name}.parts", MULTIPLE)
    b, size = p.b, runs.size
    multiplier = Multiplier(c, p, blocks)
    zero, deep, depth = b.index(0), b.size(runs.deep), b.size(size.depth)
    g = tuple(zero for _ in c.batch)
    begin, end = runs.begin(b, b.task), runs.begin(b, b.add(b.task, b.index(1)))
    first = b.quotient(begin, deep)
    with b.loop(zero, b.size(runs.segments), overlap=True) as segment:
        tile = minimum(b, b.add(first, segment), b.size(make("add", runs.tiles.count, -1)))
        # Past the last block of the result a run has nothing to do, and start is not below stop.
        behind = b.mul(b.add(first, segment), deep)
        start = maximum(b, b.op("subtract", begin, behind), zero)
        stop = minimum(b, b.op("subtract", end, behind), deep)
        span = b.mul(start, b.index(blocks.depth)), minimum(b, b.mul(stop, b.index(blocks.depth)), depth), False
        with tiles(b, size, runs.tiles.place(b, tile), (blocks.rows, blocks.cols), blocks.parts) as (i, j):
            total = multiplier.sum(span, g, i, j, multiplier.descriptors(g))
            place = b.add(runs.slot(b, b.task, segment), _place(b, blocks, i, j))
            b.store(p.write("temp", 0, c.dtype), place, total)
    cost = make("mul", blocks.rows * blocks.cols * blocks.depth, ceil_div(runs.work, runs.programs))
    return p.kernel(make("min", runs.programs, make("mul", runs.work, runs.programs)), cost, blocks.warps)


def _total(c: Contraction, blocks: Blocks, runs: _Runs) -> UnitKernel:
    """A program is a part of one block of the result: adds the shares of each sum in order, and finishes it."""
    p = Ports(f"{c.name}.total", MULTIPLE)
    b, size = p.b, runs.size
    height, width = min(_FINISH[0], blocks.rows), min(_FINISH[1], blocks.cols)
    counts = [ceil_div(size.rows, height), ceil_div(size.cols, width)]
    row, col = delinearize(b, b.task, counts)
    zero, one, deep, work = b.index(0), b.index(1), b.size(runs.deep), b.size(runs.work)
    parts_down, parts_along = b.index(blocks.rows // height), b.index(blocks.cols // width)
    tile = runs.tiles.number(b, b.quotient(row, parts_down), b.quotient(col, parts_along))
    begin, end = b.mul(tile, deep), b.mul(b.add(tile, one), deep)
    # The last run that begins at `begin` or before it.
    reached = b.op("subtract", b.mul(b.add(begin, one), b.index(runs.programs)), one)
    first = b.quotient(reached, work)
    temp = p.read("temp", 0, c.dtype)
    with tiles(b, size, (row, col), (height, width)) as (i, j):
        place = _place(b, blocks, i, j)

        def add(share: Var, so_far: Var) -> tuple[Var, ...]:
            run = b.add(first, share)
            from_here = runs.begin(b, run)
            has = b.op("and", b.compare(run, b.index(runs.programs), "LT"), b.compare(from_here, end, "LT"))
            segment = b.op("subtract", tile, b.quotient(from_here, deep))
            part = b.load(temp, b.add(runs.slot(b, run, segment), place), has)
            return (b.op("add", so_far, part),)

        (result,) = b.fold(zero, b.size(runs.shares), (b.const(0, c.dtype),), add)
        g = tuple(zero for _ in c.batch)
        c.finish(p, result, g, tuple(delinearize(b, i, c.rows)), tuple(delinearize(b, j, c.cols)))
    return p.kernel(product(counts), make("mul", runs.shares, height * width), _FINISH_WARPS)
