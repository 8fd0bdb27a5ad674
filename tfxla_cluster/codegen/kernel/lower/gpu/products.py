"""Matrix products on a GPU: a program is a block of the result.

A program's tiles hold the rows and columns of its block, a `Dot` adds up over the depth, and each sum is finished as
the contraction says (a fused epilogue, converting, storing). Where the blocks are too few for the machine, several
programs share the depth of one; their partial sums are then added in order by a second kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .....fusion.hero import hero_of
from .....ir.dim import Dim, ceil_div, make, product, sample
from .....ir.dtype import S64, DType
from .....ir.node import Instr
from .....ir.polynomial import common_factor
from .....target import Target
from ... import ir
from ...builder import KernelBuilder
from ...choice import Knobs
from ...contraction import Contraction, Index, Side
from ...contraction_ports import Ports
from ...ir import Buffer, Op, Region, Var
from ...matrix_types import multiplies_as_matrix
from ...unit import Unit, UnitKernel
from .. import fused
from ..contraction_fusion import parts_of
from ..contraction_loops import inside
from ..dot import describe
from ..grid import minimum
from ..space import delinearize
from .product_blocks import Blocks, Factors, choose
from .shapes import MULTIPLE, lanes
from .vector_products import is_vector_product, lower_vector_product

_FINISH = (8, 128)  # rows and columns of a program that adds partial sums
_FINISH_WARPS = 4
# How f32 is multiplied, by what HLO says; where it says nothing of it TensorFlow's own switch lets tf32 pass.
PRECISIONS = {
    "default": "tf32",
    "dot_tf32_tf32_f32": "tf32",
    "dot_tf32_tf32_f32_x3": "tf32x3",
    "dot_bf16_bf16_f32_x3": "bf16x3",
    "dot_bf16_bf16_f32_x6": "bf16x6",
}
DESCRIPTOR_UNIT = 16  # bytes that rows of a matrix of blocks are apart by


def lower_dot(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a dot, or of a fusion around one."""
    comp = instr.attrs["calls"] if instr.opcode == "fusion" else fused.wrap(instr)
    dot = hero_of(comp)
    if dot is not None and is_vector_product(dot):
        return lower_vector_product(comp, dot, instr.name, knobs)
    return lower_product(contraction_of(instr), target, knobs)


def contraction_of(instr: Instr) -> Contraction:
    """The contraction that a dot, or a fusion around one, computes."""
    if instr.opcode != "fusion":
        return describe(instr)
    hero, operands, store = parts_of(instr)
    return describe(hero, operands, store)


def lower_product(c: Contraction, target: Target, knobs: Knobs) -> Unit:
    """The kernels of any contraction."""
    blocks = choose(c, how_multiplied(c), target, knobs)
    if blocks.splits == 1:
        return Unit((_Kernel(c, blocks, target).build(),))
    partial, total = _partial(c), _total(c, blocks.splits)
    held = product((blocks.splits, *c.batch, *c.rows, *c.cols, c.dtype.itemsize))
    return Unit((_Kernel(partial, blocks, target).build(), total), (held,))


@dataclass(frozen=True, slots=True)
class _Extents:
    """Of the flat indices of a contraction."""

    batch: Dim
    rows: Dim
    cols: Dim
    depth: Dim

    @staticmethod
    def of(c: Contraction) -> _Extents:
        return _Extents(product(c.batch), product(c.rows), product(c.cols), product(c.depth))


class _BlockPorts(Ports):
    """Results that lie as the blocks do are stored by blocks; none are without `blocks`."""

    def __init__(self, name: str, size: _Extents, blocks: Blocks | None) -> None:
        super().__init__(name, MULTIPLE)
        self.size, self.blocks = size, blocks
        self.batch = self.b.index(0)

    def begin(self, batch: Var) -> None:
        """From now on elements of matrix number `batch` are stored."""
        self.batch = batch

    def put(self, index: int, offset: Var, value: Var, own: bool) -> None:
        b, size, buffer = self.b, self.size, self.write("result", index, value.dtype)
        matrix = None
        if own and self.blocks is not None and _in_units(common_factor((size.cols,)), buffer):
            first = b.mul(self.batch, b.size(make("mul", size.rows, size.cols)))
            block = (self.blocks.rows, self.blocks.cols // self.blocks.parts)
            matrix = b.descriptor(buffer, first, (b.size(size.rows), b.size(size.cols)), b.size(size.cols), block)
        b.store(buffer, offset, value, matrix=matrix)


def _in_units(elements: int, buffer: Buffer) -> bool:
    """Whether so many elements are whole units of memory; predicates are stored one by one."""
    return buffer.dtype.kind != "pred" and elements * buffer.dtype.itemsize % DESCRIPTOR_UNIT == 0


_Matrices = tuple[ir.Blocks | None, ir.Blocks | None]


class _Kernel:
    """The kernel that multiplies: a program makes one block, or in turn those that are `cores` apart."""

    def __init__(self, c: Contraction, blocks: Blocks, target: Target) -> None:
        self.c, self.blocks, self.size = c, blocks, _Extents.of(c)
        # Made anew for each block of one program they would have to wait for each other.
        self.described = bool(blocks.descriptors and (self.size.batch == 1 or not blocks.persistent))
        self.p = _BlockPorts(c.name, self.size, blocks if self.described and blocks.descriptors > 1 else None)
        self.tiles = _Grid(self.size.rows, self.size.cols, blocks)
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
        row, col = self.tiles.place(b, tile)
        g = tuple(delinearize(b, batch, c.batch))
        matrices = self._descriptors(g)
        self.p.begin(batch)
        with _tiles(b, self.size, (row, col), (blocks.rows, blocks.cols), blocks.parts) as (i, j):
            total = self._sum(split, g, i, j, matrices)
            outer = (split,) if blocks.splits > 1 else ()
            c.finish(self.p, total, (*outer, *g), tuple(delinearize(b, i, c.rows)), tuple(delinearize(b, j, c.cols)))

    def _sum(self, split: Var, g: Index, i: Var, j: Var, matrices: _Matrices) -> Var:
        c, b, blocks, depth = self.c, self.p.b, self.blocks, self.size.depth
        start, stop = b.index(0), b.size(depth)
        if blocks.splits > 1:
            part = make("mul", ceil_div(ceil_div(depth, blocks.splits), blocks.depth), blocks.depth)
            start = b.mul(split, b.size(part))
            stop = minimum(b, b.add(start, b.size(part)), stop)
        full = isinstance(depth, int) and depth % (blocks.depth * blocks.splits) == 0
        left, right = factors(self.p, c, g, i, j)
        how = {"depth": blocks.depth, "full": full, "stages": blocks.stages}
        precision = PRECISIONS.get(c.precision, "ieee")
        found = [_same(m, r) for m, r in zip(matrices, (left, right))]
        return b.dot(
            c.dtype, start, stop, left, right, a_blocks=found[0], b_blocks=found[1], precision=precision, **how
        )

    def _descriptors(self, g: Index) -> _Matrices:
        """The operands as matrices of blocks, those that are."""
        if not self.described:
            return None, None
        return (
            self._descriptor(self.c.lhs, g, self.size.rows, self.blocks.rows),
            self._descriptor(self.c.rhs, g, self.size.cols, self.blocks.cols),
        )

    def _descriptor(self, side: Side, g: Index, free: Dim, block: int) -> ir.Blocks | None:
        if side.matrix is None:
            return None
        b, plain = self.p.b, side.matrix(self.p, g)
        if not _in_units(plain.unit, plain.buffer):
            return None
        turned, extents, shape = side.major == "free", (free, self.size.depth), (block, self.blocks.depth)
        if turned:
            extents, shape = extents[::-1], shape[::-1]
        sizes = b.size(extents[0]), b.size(extents[1])
        return ir.Blocks(b.descriptor(plain.buffer, plain.offset, sizes, plain.stride, shape), turned)


def _same(blocks: ir.Blocks | None, factor: Region) -> ir.Blocks | None:
    """`blocks` where what they hold is the factor as it is multiplied."""
    return blocks if blocks and blocks.matrix.dtype == factor.results[0].dtype else None


class _Grid:
    """Blocks of the result, numbered so that those side by side in time read the same rows and columns."""

    def __init__(self, rows: Dim, cols: Dim, blocks: Blocks) -> None:
        self.rows, self.cols = ceil_div(rows, blocks.rows), ceil_div(cols, blocks.cols)
        self.group = blocks.group

    @property
    def count(self) -> Dim:
        return make("mul", self.rows, self.cols)

    def place(self, b: KernelBuilder, tile: Var) -> tuple[Var, Var]:
        """Block of rows and block of columns of tile number `tile`: down a group of rows, then the next column."""
        if self.rows == 1:
            return b.index(0), tile
        if self.cols == 1:
            return tile, b.index(0)
        whole = b.size(make("mul", self.cols, self.group))
        first = b.mul(b.quotient(tile, whole), b.index(self.group))
        rest = b.remainder(tile, whole)
        height = minimum(b, b.op("subtract", b.size(self.rows), first), b.index(self.group))
        return b.add(first, b.remainder(rest, height)), b.quotient(rest, height)


@contextmanager
def _tiles(
    b: KernelBuilder, size: _Extents, place: tuple[Var, Var], shape: tuple[int, int], parts: int = 1
) -> Iterator[tuple[Var, Var]]:
    """The tiles of rows and columns of block number `place`."""
    (row, col), (height, width) = place, shape
    with _tile(b, row, size.rows, height, 1) as i, _tile(b, col, size.cols, width, parts) as j:
        yield i, j


@contextmanager
def _tile(b: KernelBuilder, block: Var, extent: Dim, width: int, parts: int) -> Iterator[Var]:
    start = b.mul(block, b.index(width))
    full = isinstance(extent, int) and extent % width == 0
    with b.tile(start, minimum(b, b.add(start, b.index(width)), b.size(extent)), width, full, parts) as lane:
        yield lane


# --- factors ---
def factors(p: Ports, c: Contraction, g: Index, i: Var, j: Var) -> tuple[Region, Region]:
    """The regions of k of both factors, in the type they are multiplied in."""
    left = _region(p, c.lhs, g, tuple(delinearize(p.b, i, c.lhs.free)))
    right = _region(p, c.rhs, g, tuple(delinearize(p.b, j, c.rhs.free)))
    return _narrowed(left, right, c.dtype)


def _region(p: Ports, side: Side, g: Index, free: Index) -> Region:
    def fill(k: Var) -> Sequence[Var]:
        depth = tuple(delinearize(p.b, k, side.depth))
        test = inside(p, side, g, free, depth)
        if test is None:
            return (side.value(p, g, free, depth),)
        with p.b.only_where(test):
            value = side.value(p, g, free, depth)
        return (value if side.loaded else p.b.op("select", test, value, p.b.const(0, value.dtype), dtype=value.dtype),)

    return p.b.region([S64], fill)


def _narrowed(left: Region, right: Region, total: DType) -> tuple[Region, Region]:
    """Both factors before they are widened to the type of the sum: their products are exact there, too."""
    a, b = _unwidened(left, total), _unwidened(right, total)
    if a.results[0].dtype == b.results[0].dtype and multiplies_as_matrix(a.results[0].dtype, total):
        return a, b
    return left, right


def _unwidened(region: Region, total: DType) -> Region:
    (value,) = region.results
    source = next((s for s in region.body if isinstance(s, Op) and s.out is value), None)
    if source is None or source.opcode != "convert" or not multiplies_as_matrix(source.operands[0].dtype, total):
        return region
    body = tuple(s for s in region.body if s is not source)
    return _unwidened(replace(region, body=body, results=source.operands), total)


def how_multiplied(c: Contraction) -> Factors:
    """What there is to choose blocks by."""
    p = Ports(c.name)
    zero = p.b.index(0)
    g = (zero,) * len(c.batch)
    regions = factors(p, c, g, zero, zero)
    whole = [_is_matrix(p, side, g, region) for side, region in zip((c.lhs, c.rhs), regions)]
    return Factors(regions[0].results[0].dtype, all(whole) and product(c.batch) == 1)


def _is_matrix(p: Ports, side: Side, g: Index, factor: Region) -> bool:
    """Whether the factor lies in memory as a descriptor can read it."""
    if side.matrix is None:
        return False
    plain = side.matrix(p, g)
    return _in_units(plain.unit, plain.buffer) and plain.buffer.dtype == factor.results[0].dtype


# --- several programs for the depth of a block ---
def _partial(c: Contraction) -> Contraction:
    """Stores each sum of a part of the depth in the temporary [splits, batch, rows, cols]."""

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        dims = (*c.batch, *c.rows, *c.cols)
        place = g[0]
        for at, extent in zip((*g[1:], *m, *n), dims):
            place = p.b.add(p.b.mul(place, p.b.size(extent)), at)
        p.b.store(p.write("temp", 0, c.dtype), place, value)

    return replace(c, name=f"{c.name}.parts", finish=finish, place=None)


def _total(c: Contraction, splits: int) -> UnitKernel:
    """Adds the parts of each sum in order, and finishes it."""
    p, size = Ports(f"{c.name}.total", MULTIPLE), _Extents.of(c)
    b = p.b
    height, width = (lanes(e, most) for e, most in zip((size.rows, size.cols), _FINISH))
    counts = [ceil_div(size.rows, height), ceil_div(size.cols, width)]
    batch, row, col = delinearize(b, b.task, [size.batch, *counts])
    with _tiles(b, size, (row, col), (height, width)) as (i, j):
        place = b.add(b.mul(b.add(b.mul(batch, b.size(size.rows)), i), b.size(size.cols)), j)
        step = b.size(product((size.batch, size.rows, size.cols)))
        total = b.load(p.read("temp", 0, c.dtype), place)
        for split in range(1, splits):
            part = b.add(b.mul(step, b.index(split)), place)
            total = b.op("add", total, b.load(p.read("temp", 0, c.dtype), part))
        c.finish(
            p,
            total,
            tuple(delinearize(b, batch, c.batch)),
            tuple(delinearize(b, i, c.rows)),
            tuple(delinearize(b, j, c.cols)),
        )
    return p.kernel(product((size.batch, *counts)), sample(splits) * height * width, _FINISH_WARPS)
