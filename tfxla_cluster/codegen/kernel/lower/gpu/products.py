"""Matrix products on a GPU: a program is a block of the result.

A program's tiles hold the rows and columns of its block, a `Dot` adds up over the depth, and each sum is finished as
the contraction says (a fused epilogue, converting, storing). Where the blocks are too few for the machine, several
programs share the depth of one; their partial sums are then added in order by a second kernel.
"""

from __future__ import annotations

from .....fusion.hero import hero_of
from .....ir.dim import ceil_div, make, product
from .....ir.node import Instr
from .....ir.polynomial import common_factor
from .....target import Target
from ...choice import Knobs
from ...contraction import Contraction
from ...contraction_ports import Ports
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel
from .. import fused
from ..contraction_fusion import parts_of
from ..dot import describe
from ..grid import minimum
from ..space import delinearize, digits
from . import split_products
from .capability import shared_bytes
from .packed_operands import packed
from .product_blocks import Blocks, choose, on_their_way
from .product_factors import Multiplier, how_multiplied, in_units
from .product_grid import Extents, Grid, tiles
from .shapes import MULTIPLE
from .vector_products import is_vector_product, lower_vector_product

_BARRIERS = 1024  # bytes at most, by which reads on their way are waited for


def lower_dot(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a dot, or of a fusion around one. No machine multiplies blocks of complex numbers."""
    comp = instr.attrs["calls"] if instr.opcode == "fusion" else fused.wrap(instr)
    dot = hero_of(comp)
    if dot is not None and (is_vector_product(dot) or dot.shape.element_type.kind == "complex"):
        return lower_vector_product(comp, dot, instr.name, knobs)
    return lower_product(contraction_of(instr), target, knobs)


def contraction_of(instr: Instr) -> Contraction:
    """The contraction that a dot, or a fusion around one, computes."""
    if instr.opcode != "fusion":
        return describe(instr)
    hero, operands, store = parts_of(instr)
    return describe(hero, operands, store)


def lower_product(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    """The kernels of any contraction: copies of operands, the product, the total of its parts."""
    factors = how_multiplied(c, target)
    blocks = choose(c, factors, target, knobs)
    room = shared_bytes(target) - on_their_way(blocks, factors.dtype) - _BARRIERS
    c, steps, temps = packed(c, blocks.packs)
    if blocks.splits == 1:
        return Unit((*steps, _Kernel(c, blocks, target, room).build()), temps)
    parts = _Kernel(split_products.partial(c, len(temps)), blocks, target, room).build()
    held = product((blocks.splits, *c.batch, *c.rows, *c.cols, c.dtype.itemsize))
    return Unit((*steps, parts, split_products.total(c, blocks.splits, len(temps))), (*temps, held))


class _Ports(Ports):
    """Results that lie as the blocks do are stored by blocks, which pass through `room` bytes of shared memory, one
    result after the other; none are without `blocks`."""

    def __init__(self, name: str, size: Extents, blocks: Blocks | None, room: int) -> None:
        super().__init__(name, MULTIPLE)
        self.size, self.blocks, self.room = size, blocks, room
        self.batch = self.b.index(0)

    def begin(self, batch: Var) -> None:
        """From now on elements of matrix number `batch` are stored."""
        self.batch = batch

    def put(self, index: int, offset: Var, value: Var, own: bool) -> None:
        b, size, buffer = self.b, self.size, self.write("result", index, value.dtype)
        matrix = None
        if own and self.blocks is not None and self._fits(buffer) and in_units(common_factor((size.cols,)), buffer):
            first = b.mul(self.batch, b.size(make("mul", size.rows, size.cols)))
            block = (self.blocks.rows, self.blocks.cols // self.blocks.parts)
            matrix = b.descriptor(buffer, first, (b.size(size.rows), b.size(size.cols)), b.size(size.cols), block)
        b.store(buffer, offset, value, matrix=matrix)

    def _fits(self, buffer: Buffer) -> bool:
        assert self.blocks is not None
        return self.blocks.rows * self.blocks.cols * buffer.dtype.itemsize <= self.room


class _Kernel:
    """The kernel that multiplies: a program makes one block, or in turn those that are `cores` apart."""

    def __init__(self, c: Contraction, blocks: Blocks, target: Target, room: int) -> None:
        self.c, self.blocks, self.size = c, blocks, Extents.of(c)
        stored = blocks.descriptors > 1 and (self.size.batch == 1 or not blocks.persistent)
        self.p = _Ports(c.name, self.size, blocks if stored else None, room)
        self.multiplier = Multiplier(c, self.p, blocks)
        self.tiles = Grid(self.size.rows, self.size.cols, blocks)
        self.count = product((blocks.splits, self.size.batch, self.tiles.count))
        self.programs = make("min", self.count, target.cores) if blocks.persistent else self.count

    def build(self) -> UnitKernel:
        b, blocks = self.p.b, self.blocks
        if blocks.persistent:
            step = b.size(self.programs)
            rest = b.op("subtract", b.size(make("add", self.count, -1)), b.task)
            with b.loop(b.index(0), b.add(b.quotient(rest, step), b.index(1)), overlap=True) as turn:
                self._block(b.add(b.mul(turn, step), b.task))
        else:
            self._block(b.task)
        cost = make("mul", blocks.rows * blocks.cols, ceil_div(self.size.depth, blocks.splits))
        return self.p.kernel(self.programs, cost, blocks.warps)

    def _block(self, number: Var) -> None:
        """Block number `number`."""
        c, b, blocks = self.c, self.p.b, self.blocks
        split, batch, tile = delinearize(b, number, [blocks.splits, self.size.batch, self.tiles.count])
        place = self.tiles.place(b, tile)
        g = tuple(delinearize(b, batch, c.batch))
        matrices = self.multiplier.descriptors(g)
        self.p.begin(batch)
        with tiles(b, self.size, place, (blocks.rows, blocks.cols), blocks.parts) as (i, j):
            total = self.multiplier.sum(self._span(split), g, i, j, matrices)
            outer = (split,) if blocks.splits > 1 else ()
            c.finish(self.p, total, (*outer, *g), digits(b, i, c.rows), digits(b, j, c.cols))

    def _span(self, split: Var) -> tuple[Var, Var, bool]:
        """The part of the depth that a program takes."""
        b, blocks, depth = self.p.b, self.blocks, self.size.depth
        full = isinstance(depth, int) and depth % (blocks.depth * blocks.splits) == 0
        if blocks.splits == 1:
            return b.index(0), b.size(depth), full
        part = make("mul", ceil_div(ceil_div(depth, blocks.splits), blocks.depth), blocks.depth)
        start = b.mul(split, b.size(part))
        return start, minimum(b, b.add(start, b.size(part)), b.size(depth)), full
