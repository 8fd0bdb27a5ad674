"""The factors of a matrix product: their elements, and how they are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....ir.dim import Dim, make, product
from .....ir.dtype import F32, S64, DType
from .....target import Target
from ... import ir
from ...builder import KernelBuilder
from ...contraction import Contraction, Index, Side
from ...contraction_ports import Ports
from ...ir import Buffer, Op, Region, Var
from ...matrix_types import lies_in_memory, multiplies_as_matrix, unit_type
from ...walk import walk
from ..space import all_of, digits
from .capability import DESCRIPTOR_UNIT, has_descriptors
from .image_blocks import Cut, blocks_of, is_image
from .packed_operands import packable
from .product_blocks import Blocks, Factors, run_of
from .product_grid import Extents

# How f32 is multiplied, by what HLO says; where it says nothing of it TensorFlow's own switch lets tf32 pass.
PRECISIONS = {
    "default": "tf32",
    "dot_tf32_tf32_f32": "tf32",
    "dot_tf32_tf32_f32_x3": "tf32x3",
    "dot_bf16_bf16_f32_x3": "bf16x3",
    "dot_bf16_bf16_f32_x6": "bf16x6",
}
_HALF_BITS = 16  # of types of which copies are worth while
_BITS = 62  # of a number that is not negative


def in_units(elements: int, buffer: Buffer) -> bool:
    """Whether so many elements are whole units of memory, and their values what lies there."""
    return lies_in_memory(buffer.dtype) and elements * buffer.dtype.itemsize % DESCRIPTOR_UNIT == 0


Matrices = tuple[ir.Blocks | None, ir.Blocks | None]


class Multiplier:
    """Sums of products of `c` in the kernel of `ports`, in `blocks`, which may be `boxes` of images."""

    def __init__(self, c: Contraction, ports: Ports, blocks: Blocks, boxes: Cut | None) -> None:
        self.c, self.p, self.blocks, self.boxes, self.size = c, ports, blocks, boxes, Extents.of(c)
        # Made anew for each block of one program they would have to wait for each other.
        described = blocks.descriptors or blocks.thirds
        self.described = bool(described and (self.size.batch == 1 or not blocks.persistent))

    def sum(self, span: tuple[Var, Var, bool], g: Index, i: Var, j: Var, matrices: Matrices) -> Var:
        """Over the k of `span`: the first, one past the last, whether that is whole blocks."""
        c, blocks = self.c, self.blocks
        start, stop, full = span
        run = 0 if all(matrices) else run_of(c)
        run = run if run % blocks.depth == 0 else 0
        left, right = factors(self.p, c, g, i, j, run)
        a, b = (_same(m, r) for m, r in zip(matrices, (left, right)))
        return self.p.b.dot(
            c.dtype,
            start,
            stop,
            left,
            right,
            depth=blocks.depth,
            full=full,
            precision="bf16x6" if blocks.thirds else PRECISIONS.get(c.precision, "ieee"),
            stages=blocks.stages,
            a_blocks=a,
            b_blocks=b,
            run=run,
        )

    def descriptors(self, g: Index, place: tuple[Var, Var]) -> Matrices:
        """The operands as matrices of blocks, those that are, for the block of rows and of columns at `place`."""
        if not self.described:
            return None, None
        left: ir.Blocks | None
        if self.boxes is not None:
            left = blocks_of(self.p, self.c.lhs, (self.boxes.rows, self.boxes.depth), place[0])
            if self.c.rhs.image is not None:
                return left, blocks_of(self.p, self.c.rhs, (self.boxes.cols, self.boxes.depth), place[1])
        else:
            left = self._descriptor(self.c.lhs, g, self.size.rows, self.blocks.rows)
        return left, self._descriptor(self.c.rhs, g, self.size.cols, self.blocks.cols)

    def _descriptor(self, side: Side, g: Index, free: Dim, block: int) -> ir.Blocks | None:
        if side.matrix is None:
            return None
        b, plain = self.p.b, side.matrix(self.p, g)
        if not in_units(plain.unit, plain.buffer):
            return None
        turned, shape = side.major == "free", (block, self.blocks.depth)
        extents: tuple[Dim, Dim] = (make("mul", free, 3) if plain.thirds else free, self.size.depth)
        if turned:
            extents, shape = extents[::-1], shape[::-1]
        sizes = b.size(extents[0]), b.size(extents[1])
        matrix = b.descriptor(plain.buffer, plain.offset, sizes, (plain.stride,), shape)
        return ir.Blocks(matrix, turned, plain.thirds)


def _same(blocks: ir.Blocks | None, factor: Region) -> ir.Blocks | None:
    """`blocks` where what they hold is the factor as it is multiplied."""
    return blocks if blocks and (blocks.thirds or blocks.matrix.dtype == factor.results[0].dtype) else None


def factors(p: Ports, c: Contraction, g: Index, i: Var, j: Var, run: int = 0) -> tuple[Region, Region]:
    """The regions of k (of its two parts where blocks of it lie in a `run`) of both factors, in the type they are
    multiplied in."""
    left = _region(p, c.lhs, g, digits(p.b, i, c.lhs.free), run)
    right = _region(p, c.rhs, g, digits(p.b, j, c.rhs.free), run)
    return _narrowed(left, right, c.dtype)


def _region(p: Ports, side: Side, g: Index, free: Index, run: int) -> Region:
    dims = side.depth[:-1] if run else side.depth
    known = _known_tests(p, side, free, dims) if run else None

    def fill(*k: Var) -> Sequence[Var]:
        depth = (*digits(p.b, k[0], dims), *k[1:])
        test = _bit(p.b, known, k[0]) if known is not None else _test(p, side, free, depth)
        return (element(p, side, test, g, free, depth),)

    return p.b.region([S64, S64] if run else [S64], fill)


def element(p: Ports, side: Side, test: Var | None, g: Index, free: Index, depth: Index) -> Var:
    """An element, zero where `test` says that there is none."""
    if test is None:
        return side.value(p, g, free, depth)
    with p.b.only_where(test):
        value = side.value(p, g, free, depth)
    return value if side.loaded else p.b.op("select", test, value, p.b.const(0, value.dtype), dtype=value.dtype)


def _test(p: Ports, side: Side, free: Index, depth: Index) -> Var | None:
    """Whether there is an element; None where there always is."""
    return all_of(p.b, side.inside(p, free, depth)) if side.inside is not None else None


def tested_element(p: Ports, side: Side, g: Index, free: Index, depth: Index) -> Var:
    """An element, zero where there is none."""
    return element(p, side, _test(p, side, free, depth), g, free, depth)


def _known_tests(p: Ports, side: Side, free: Index, dims: tuple[Dim, ...]) -> Var | None:
    """Whether there is an element, for each place along all dims of the depth but the last: bit n is of place n. None
    where there always is one, or a number has too few bits. Looking a bit up costs less than the test each time."""
    places = product(dims)
    if side.inside is None or not isinstance(places, int) or places > _BITS:
        return None
    b, found = p.b, p.b.index(0)
    for place in range(places):
        test = _test(p, side, free, (*digits(b, b.index(place), dims), b.index(0)))
        assert test is not None
        found = b.op("or", found, b.op("select", test, b.index(1 << place), b.index(0), dtype=S64))
    return found


def _bit(b: KernelBuilder, bits: Var, place: Var) -> Var:
    shifted = b.op("shift-right-logical", bits, place)
    return b.compare(b.op("and", shifted, b.index(1)), b.index(0), "NE")


def _narrowed(left: Region, right: Region, total: DType) -> tuple[Region, Region]:
    """Both factors before they are widened to the type of the sum: their products are exact there, too."""
    a, b = _unwidened(left, total), _unwidened(right, total)
    taken = [unit_type(region.results[0].dtype) for region in (a, b)]
    if taken[0] == taken[1] and multiplies_as_matrix(taken[0], total):
        return a, b
    return left, right


def _unwidened(region: Region, total: DType) -> Region:
    """The region without conversions to wider types at its end."""
    (value,) = region.results
    source = next((s for s in region.body if isinstance(s, Op) and s.out is value), None)
    if source is None or source.opcode != "convert" or source.operands[0].dtype.bits >= value.dtype.bits:
        return region
    if not multiplies_as_matrix(source.operands[0].dtype, total):
        return region
    body = tuple(s for s in region.body if s is not source)
    return _unwidened(replace(region, body=body, results=source.operands), total)


def how_multiplied(c: Contraction, target: Target) -> Factors:
    """What there is to choose blocks by on `target`."""
    p = Ports(c.name)
    zero = p.b.index(0)
    g = (zero,) * len(c.batch)
    regions = factors(p, c, g, zero, zero)
    pairs = list(zip((c.lhs, c.rhs), regions))
    whole = [_is_matrix(p, side, g, region) for side, region in pairs]
    left, right = (is_image(side, region.results[0].dtype) for side, region in pairs)
    images = left and (right or whole[1])
    once = [side.inside is None and side.valid is None for side in (c.lhs, c.rhs)]  # each element stands at one place
    dtype = unit_type(regions[0].results[0].dtype)
    exact = dtype == F32 and c.precision not in PRECISIONS
    described = product(c.batch) == 1 and has_descriptors(target)
    packs = packable(c) if dtype == F32 and not exact else 0
    images &= described and (dtype.bits == _HALF_BITS or (dtype == F32 and not exact and not packs & 1))
    lying = 3 if images else whole[0] + 2 * whole[1] if described else 0
    if described and dtype.bits == _HALF_BITS:
        packs = (once[0] + 2 * once[1]) & ~lying
    thirds = exact and described and all(once)
    return Factors(dtype, lying, thirds, packs, images, *_finishing(c))


def _finishing(c: Contraction) -> tuple[int, int]:
    """Bytes that finishing one sum reads and writes, of all that it touches, and operations of floats that it takes."""
    p = Ports(c.name, wide=True)
    g, m, n = ((p.b.index(0),) * len(dims) for dims in (c.batch, c.rows, c.cols))
    c.finish(p, p.b.const(0, c.dtype), g, m, n)
    finished = sum(buffer.dtype.itemsize for buffer in p.buffers)
    steps = walk(p.kernel(1, 1).kernel.body)
    return finished, sum(isinstance(s, Op) and s.out.dtype.is_float and s.opcode != "convert" for s in steps)


def _is_matrix(p: Ports, side: Side, g: Index, factor: Region) -> bool:
    """Whether the factor lies in memory as a descriptor can read it."""
    if side.matrix is None:
        return False
    plain = side.matrix(p, g)
    return in_units(plain.unit, plain.buffer) and plain.buffer.dtype == factor.results[0].dtype
