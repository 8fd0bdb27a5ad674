"""The kernel of a matrix product: a program makes one block of the result, or in turn those that are `cores` apart.

A program's tiles hold the rows and columns of its block, a `Dot` adds up over the depth, and each sum is finished as
the contraction says.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....ir.dim import Dim, ceil_div, make, product
from .....ir.dtype import S32, S64
from .....ir.polynomial import common_factor
from .....ir.size_proofs import divides
from .....target import Target
from ...contraction import Contraction
from ...contraction_ports import Ports
from ...ir import Buffer, Var
from ...unit import UnitKernel
from ..contraction_operand import strides
from ..grid import minimum
from ..space import delinearize, digits
from .capability import shared_bytes
from .image_blocks import Cut
from .product_blocks import Blocks, on_their_way
from .product_factors import Multiplier, in_units
from .product_grid import Extents, Grid, tiles
from .shapes import MULTIPLE

_BARRIERS = 1024  # bytes at most, by which reads on their way are waited for


@dataclass(frozen=True, slots=True)
class Gate:
    """Programs do nothing unless temporary number `temp`, one s32, is `wanted` (0 or 1)."""

    temp: int
    wanted: int


class _Ports(Ports):
    """Results that lie as the blocks do are stored by blocks, which pass through `room` bytes of shared memory, one
    result after the other; none are without `blocks`."""

    def __init__(self, name: str, size: Extents, blocks: Blocks | None, boxes: Cut | None, room: int) -> None:
        super().__init__(name, MULTIPLE, wide=True)
        self.size, self.blocks, self.boxes, self.room = size, blocks, boxes, room
        self.batch = self.row = self.b.index(0)

    def begin(self, batch: Var, row: Var) -> None:
        """From now on elements of matrix number `batch` and block of rows number `row` are stored."""
        self.batch, self.row = batch, row

    def put(self, index: int, offset: Var, value: Var, own: bool) -> None:
        b, buffer = self.b, self.write("result", index, value.dtype)
        if not own or self.blocks is None or not self._fits(buffer):
            b.store(buffer, offset, value)
            return
        cols = self.blocks.cols // self.blocks.parts
        if self.boxes is None:
            b.store(buffer, offset, value, matrix=self._array(buffer, (self.size.rows,), (self.blocks.rows, cols)))
            return
        box = self.boxes.rows
        matrix = self._array(buffer, box.dims, (*box.widths, cols))
        place = box.begin(b, digits(b, self.row, box.counts))
        b.store(buffer, offset, value, matrix=matrix, place=place, rows=box.widths)

    def _array(self, buffer: Buffer, rows: tuple[Dim, ...], block: tuple[int, ...]) -> Var:
        """A result as an array of the rows' dims and the columns."""
        b, dims = self.b, (*rows, self.size.cols)
        first = b.mul(self.batch, b.size(make("mul", self.size.rows, self.size.cols)))
        steps = [b.size(step) for step in strides(dims)[:-1]]
        return b.descriptor(buffer, first, [b.size(dim) for dim in dims], steps, block)

    def _fits(self, buffer: Buffer) -> bool:
        """Whether a block of it has room, and its rows are whole units of memory."""
        assert self.blocks is not None
        size = self.blocks.rows * self.blocks.cols * buffer.dtype.itemsize
        return size <= self.room and in_units(common_factor((self.size.cols,)), buffer)


class ProductKernel:
    """Of a contraction whose operands are as they are multiplied; `bytes_read`: of an element of both. `boxes`: blocks
    are those of images. A gate needs persistent programs."""

    def __init__(
        self,
        c: Contraction,
        blocks: Blocks,
        target: Target,
        bytes_read: int,
        gate: Gate | None = None,
        boxes: Cut | None = None,
    ) -> None:
        self.c, self.blocks, self.size, self.gate = c, blocks, Extents.of(c), gate
        room = shared_bytes(target) // max(blocks.persistent, 1) - on_their_way(blocks, bytes_read) - _BARRIERS
        stored = blocks.descriptors > 1 and (self.size.batch == 1 or not blocks.persistent)
        stored &= boxes is None or boxes.rows.ascending
        self.p = _Ports(c.name, self.size, blocks if stored else None, boxes, room)
        self.multiplier = Multiplier(c, self.p, blocks, boxes)
        self.tiles = Grid(self.size.rows, self.size.cols, blocks)
        self.count = product((blocks.splits, self.size.batch, self.tiles.count))
        self.programs = make("min", self.count, blocks.persistent * target.cores) if blocks.persistent else self.count

    def build(self) -> UnitKernel:
        b, blocks = self.p.b, self.blocks
        if blocks.persistent:
            step = b.size(self.programs)
            rest = b.op("subtract", b.size(make("add", self.count, -1)), b.task)
            turns = self._gated(b.add(b.quotient(rest, step), b.index(1)))
            with b.loop(b.index(0), turns, overlap=True) as turn:
                self._block(b.add(b.mul(turn, step), b.task))
        else:
            self._block(b.task)
        cost = make("mul", blocks.rows * blocks.cols, ceil_div(self.size.depth, blocks.splits))
        return self.p.kernel(self.programs, cost, blocks.warps)

    def _gated(self, turns: Var) -> Var:
        """No turns where the gate is shut."""
        if self.gate is None:
            return turns
        b = self.p.b
        found = b.load(self.p.read("temp", self.gate.temp, S32), b.index(0))
        shut = b.op("abs", b.op("subtract", b.op("convert", found, dtype=S64), b.index(self.gate.wanted)))
        return b.mul(turns, b.op("subtract", b.index(1), shut))

    def _block(self, number: Var) -> None:
        """Block number `number`."""
        c, b, blocks = self.c, self.p.b, self.blocks
        split, batch, tile = delinearize(b, number, [blocks.splits, self.size.batch, self.tiles.count])
        place = self.tiles.place(b, tile)
        g = tuple(delinearize(b, batch, c.batch))
        matrices = self.multiplier.descriptors(g, place)
        self.p.begin(batch, place[0])
        with tiles(b, self.size, place, (blocks.rows, blocks.cols), blocks.parts) as (i, j):
            total = self.multiplier.sum(self._span(split), g, i, j, matrices)
            outer = (split,) if blocks.splits > 1 else ()
            c.finish(self.p, total, (*outer, *g), digits(b, i, c.rows), digits(b, j, c.cols))

    def _span(self, split: Var) -> tuple[Var, Var, bool]:
        """The part of the depth that a program takes."""
        b, blocks, depth = self.p.b, self.blocks, self.size.depth
        full = divides(blocks.depth * blocks.splits, depth)
        if blocks.splits == 1:
            return b.index(0), b.size(depth), full
        part = make("mul", ceil_div(ceil_div(depth, blocks.splits), blocks.depth), blocks.depth)
        start = b.mul(split, b.size(part))
        return start, minimum(b, b.add(start, b.size(part)), b.size(depth)), full
