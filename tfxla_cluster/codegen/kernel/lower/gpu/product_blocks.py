"""Blocks of matrix products on a GPU: what can be chosen, the candidates, and the default, by rules on sample sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .....errors import UnsupportedError
from .....ir.dim import product, sample
from .....ir.dtype import BF16, DType
from .....target import Target
from ...choice import Knobs
from ...contraction import Contraction
from ...matrix_types import multiplies_as_matrix
from .capability import shared_bytes
from .shapes import power


@dataclass(frozen=True, slots=True)
class Blocks:
    """Of a product's program: `rows` x `cols` sums, `depth` k at a time, `stages` of them on their way, by `warps`.

    `group`: so many blocks of rows are gone through before the next column, so that what is read stays in the cache.
    `splits`: programs that share the depth of one block. `parts`: in which the sums are finished and stored.
    `persistent` (0, 1 or 2): so many programs of each multiprocessor make several blocks, one after the other; 0: a
    program makes one. `descriptors`: operands that lie as
    a matrix in memory are read in blocks (1), such results are stored so too (2), or neither is (0). `thirds`
    (1 or 0): f32 is multiplied as three bf16 (module `thirds`). `packs`: operands that are first copied so that k is
    contiguous (1: the left one, 2: the right one, 3: both).
    """

    rows: int
    cols: int
    depth: int
    warps: int
    stages: int = 3
    group: int = 8
    splits: int = 1
    parts: int = 1
    persistent: int = 0
    descriptors: int = 0
    thirds: int = 0
    packs: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.rows, self.cols, self.depth


# Falling in size. A larger block reads less for each product, so the machine's units are busier.
_NARROW = (
    Blocks(128, 256, 64, 8, parts=2),
    Blocks(128, 128, 64, 4, 4),
    Blocks(128, 128, 64, 8),
    Blocks(64, 128, 128, 4),
    Blocks(64, 64, 128, 4),
    Blocks(64, 32, 128, 4, 4),
    Blocks(32, 32, 128, 4, 4),
    Blocks(16, 64, 128, 4, 4),
    Blocks(16, 16, 128, 2, 4),
)
_BYTE = tuple(replace(b, depth=128) for b in _NARROW)
_F32 = (
    Blocks(128, 128, 32, 8),
    Blocks(128, 64, 32, 4),
    Blocks(64, 64, 32, 4),
    Blocks(32, 32, 32, 4),
    Blocks(16, 16, 32, 2),
)
_THIRDS = (Blocks(128, 128, 32, 8, 3, parts=2, persistent=1, descriptors=2, thirds=1),)
_F64 = (Blocks(64, 64, 16, 4), Blocks(32, 32, 16, 4), Blocks(16, 16, 16, 2))
_OTHER = (Blocks(32, 32, 8, 4, 1), Blocks(16, 16, 8, 4, 1))
_BY_WIDTH = {8: _BYTE, 16: _NARROW, 32: _F32, 64: _F64}
_MOST_SPLITS = 64
_MOST_PARTS, _FINISHED_BYTES = 8, 512  # of a thread, of what it finishes at a time
_SPLIT_DEPTH = 512  # k that a program has at least
_LEAST = 16  # lanes
_SKINNY = 32  # rows or columns, at most, of a product with few of them
_SKINNY_SIDE = 64  # lanes of its blocks
_SKINNY_PROGRAMS = 2  # of a multiprocessor at once


@dataclass(frozen=True, slots=True)
class Factors:
    """How a product is multiplied: factors of `dtype`; `lying`: operands that are matrices as descriptors read them;
    `thirds`: they may be split in thirds, as f32 whose every bit counts; `packs`: operands that may be packed. 1 is
    the left operand, 2 the right one, 3 both. `images`: they are read in boxes of images. `finished`: bytes that
    finishing a sum reads and writes, `operations`: of floats, that it takes."""

    dtype: DType
    lying: int
    thirds: bool
    packs: int
    images: bool = False
    finished: int = 0
    operations: int = 0

    def described(self, packs: int) -> bool:
        """Whether both are read in blocks where those of `packs` are copied."""
        return self.lying | packs == 3

    def bytes_read(self, blocks: Blocks) -> int:
        """Of one factor as it is multiplied in `blocks`."""
        return 3 * BF16.itemsize if blocks.thirds else self.dtype.itemsize


def choose(c: Contraction, factors: Factors, target: Target, knobs: Knobs, promising: Sequence[Blocks] = ()) -> Blocks:
    """The blocks of a product: what `knobs` say, else what the model of costs likes best for the sample sizes, or the
    first of those that are `promising`.

    UnsupportedError where the blocks on their way do not fit in shared memory.
    """
    ranked = promising or _ranked(c, factors, target)
    best = _in_parts(ranked[0], factors.finished)
    taken = {name: knobs.take(name, getattr(best, name), _offered(ranked, name, factors)) for name in _KNOBS}
    blocks = replace(best, **taken)
    if blocks.thirds and blocks.splits > 1:
        raise UnsupportedError(f"{c.name}: there are no thirds of products whose depth is shared")
    size = on_their_way(blocks, factors.bytes_read(blocks))
    if size > shared_bytes(target):
        raise UnsupportedError(f"{c.name}: blocks of {blocks} take {size} bytes of shared memory")
    return blocks


def _in_parts(blocks: Blocks, finished: int) -> Blocks:
    """The sums are finished in so many parts that what a thread has of one stays in registers; partial sums are only
    stored."""
    parts, threads = blocks.parts, 32 * blocks.warps
    while blocks.splits == 1 and blocks.cols // parts > _LEAST and parts < _MOST_PARTS:
        if blocks.rows * blocks.cols // parts // threads * finished <= _FINISHED_BYTES:
            break
        parts *= 2
    return replace(blocks, parts=parts)


def in_f32(c: Contraction, factors: Factors, target: Target) -> Blocks:
    """The blocks of an exact product of f32 in f32 itself."""
    return _ranked(c, replace(factors, thirds=False), target)[0]


def on_their_way(blocks: Blocks, bytes_read: int) -> int:
    """Bytes of shared memory of the blocks that are being read, of so many bytes a factor."""
    return (blocks.rows + blocks.cols) * blocks.depth * blocks.stages * bytes_read


def _offered(ranked: Sequence[Blocks], name: str, factors: Factors) -> list[int]:
    """Values that a tuner may try: those of the model's candidates, deeper blocks, more or fewer on their way."""
    found = {getattr(b, name) for b in ranked} | set(_FURTHER.get(name, ()))
    if name == "depth":
        found |= {2 * max(found)}
    if name == "thirds" and factors.thirds:
        found |= {0, 1}
    if name == "packs":
        found |= {0, factors.packs}
    if name in _OF_MATRICES and (factors.described(factors.packs) or factors.thirds):
        found |= set(_OF_MATRICES[name])
    return sorted(found)


_FURTHER = {"rows": (64, 128), "cols": (64, 128), "stages": (2, 3, 4), "parts": (1, 2)}
_OF_MATRICES = {"persistent": (0, 1, 2), "descriptors": (0, 1, 2)}
_KNOBS = ("rows", "cols", "depth", "warps", "stages", "splits", "parts", "persistent", "descriptors", "thirds", "packs")


def _ranked(c: Contraction, factors: Factors, target: Target) -> list[Blocks]:
    """Blocks for the sample sizes, by falling promise."""
    factor = factors.dtype
    table = _BY_WIDTH[factor.bits] if multiplies_as_matrix(factor, c.dtype) else _OTHER
    batch, rows, cols, depth = (sample(product(dims)) for dims in (c.batch, c.rows, c.cols, c.depth))
    room = shared_bytes(target)
    sizes = _Sizes(batch, rows, cols, depth, run_of(c))
    if sizes.skinny and factor.bits == _NARROW_BITS and not sizes.run:
        return _ranked_by_reading(sizes, factor.itemsize, room, target.cores)
    fitting = [b for b in dict.fromkeys(_fit(b, sizes) for b in table) if on_their_way(b, factor.itemsize) <= room]
    tried = [s for b in fitting for s in _splits(b, sizes, target.cores)]
    thirds = factors.thirds and 3 * BF16.itemsize * (rows + cols) * depth <= _MOST_THIRDS
    tried += [_fit(b, sizes) for b in _THIRDS if thirds]
    ranked = sorted(tried, key=lambda b: _time(b, sizes, target.cores))
    packs = factors.packs & ((sizes.cols >= _PACK_READS) | 2 * (sizes.rows >= _PACK_READS))
    if factor.bits > _NARROW_BITS:
        ranked = [replace(b, packs=packs) for b in ranked]
        stored = factors.described(packs) and sizes.depth <= _SHALLOW
        return [_described(b, sizes, target.cores) for b in ranked] if stored else ranked
    if not factors.described(packs):
        return ranked
    stored_in_blocks = [_described(replace(b, packs=packs), sizes, target.cores) for b in ranked]
    return [*_in_pairs(stored_in_blocks[0], sizes, factors), *stored_in_blocks]


def _in_pairs(best: Blocks, sizes: _Sizes, factors: Factors) -> list[Blocks]:
    """Two programs of a multiprocessor where finishing a sum takes long: one multiplies while the other finishes.

    On an H200 products of bf16 with gelu behind them took 0.95-0.97 of their time, with its gradient 0.99. Two programs
    of 64x256, of 8 warps, or with fewer blocks on their way took longer than these.
    """
    long = factors.operations >= _LONG_END and factors.finished <= _MOST_FINISHED
    if not long or not best.persistent or best.splits > 1 or sizes.batch > 1:
        return []
    return [replace(best, rows=128, cols=128, warps=4, stages=3, parts=2, persistent=2)]


def _ranked_by_reading(sizes: _Sizes, itemsize: int, room: int, cores: int) -> list[Blocks]:
    """Blocks of a product whose larger factor need only be read once, by how long that takes."""
    short, long = sorted((sizes.rows, sizes.cols))
    height = max(power(short), _LEAST)
    found: dict[Blocks, float] = {}
    for width in _READ_WIDTHS:
        for depth in _READ_DEPTHS if short > 1 else _READ_DEPTHS[-1:]:  # less deep ones of a row took twice as long
            side = (height, width) if sizes.rows <= sizes.cols else (width, height)
            one = Blocks(*side, min(depth, max(power(sizes.depth), 2 * _LEAST)), 4, 4)
            if width <= max(power(long), _LEAST) and on_their_way(one, itemsize) <= room:
                for blocks in _splits(one, sizes, cores) if sizes.programs(one) < cores else (one,):
                    found[blocks] = _reading(blocks, sizes, itemsize, room, cores)
    return sorted(found, key=found.__getitem__)


def _reading(blocks: Blocks, sizes: _Sizes, itemsize: int, room: int, cores: int) -> float:
    """How long such a product takes, in bytes of memory: those of the factors, more where too few are on their way at
    once, where programs read the smaller factor more often, or where the last of them run alone."""
    short, long = sorted((sizes.rows, sizes.cols))
    height, width = (blocks.rows, blocks.cols) if sizes.rows <= sizes.cols else (blocks.cols, blocks.rows)
    programs, held = sizes.programs(blocks), on_their_way(blocks, itemsize)
    resident = max(room // held, 1)
    each = -(-programs // cores)
    under_way = min(programs, resident * cores) * held / cores
    slow = 1 + _TOO_FEW * max(_UNDER_WAY / under_way - 1, 0)
    uneven = 1 + _UNEVEN * (each * cores / programs - 1)
    rounds = 1 + _ROUNDS * (-(-each // resident) * resident / each - 1 if each > resident else 0)
    moved = sizes.batch * long * sizes.depth * itemsize * (1 + _AGAIN * height / width)
    if blocks.splits > 1:
        moved += _TOTAL + 8 * blocks.splits * sizes.batch * short * long
    return moved * slow * uneven * rounds


# As 16 rows of bf16 by 4096 x 4096, 4096 x 11008 and 768 x 3072 took on an H200 in 18 forms.
_READ_WIDTHS, _READ_DEPTHS = (16, 32, 64, 128), (64, 128, 256)
_UNDER_WAY, _TOO_FEW = 96 * 1024, 0.27  # bytes a multiprocessor should wait for; what a lack of them costs
_AGAIN = 0.5  # of a byte: reading one that the cache has
_UNEVEN, _ROUNDS = 0.25, 0.2
_TOTAL = 8e6  # bytes that take as long as the kernel that adds partial sums


def _described(blocks: Blocks, sizes: _Sizes, cores: int) -> Blocks:
    """Descriptors where they pay: a program makes them first, which takes as long as many products.

    Persistent programs begin to read for their next block while they store the last one, which blocks of the result
    let them do sooner.
    """
    if sizes.programs(blocks) > cores and blocks.rows * blocks.cols >= _PERSISTENT_BLOCK:
        return replace(blocks, persistent=1, descriptors=2)
    return replace(blocks, descriptors=int(sizes.depth // blocks.splits >= _DESCRIBED_DEPTH))


_PACK_READS = 512  # times that each number of an operand is read, from which a copy is worth its time
_NARROW_BITS = 16  # of factors that descriptors help
_PERSISTENT_BLOCK = 128 * 128
_LONG_END, _MOST_FINISHED = 8, 8  # operations of floats (gelu has 10, its gradient 21), and bytes, of what was measured
_DESCRIBED_DEPTH = 2048
_SHALLOW = 256  # depth up to which storing is most of a product of f32, which descriptors then are for too


def run_of(c: Contraction) -> int:
    """How many neighbours k both operands take apart alike but for the last dim: blocks of k that stay within such a
    run have one place along the others. 0 where there is no such number."""
    last = c.lhs.depth[-1]
    return last if len(c.lhs.depth) > 1 and c.lhs.depth == c.rhs.depth and isinstance(last, int) else 0


@dataclass(frozen=True, slots=True)
class _Sizes:
    batch: int
    rows: int
    cols: int
    depth: int
    run: int = 0

    @property
    def skinny(self) -> bool:
        """Whether reading the larger factor is all there is to do: it takes many small programs."""
        return min(self.rows, self.cols) <= _SKINNY

    def programs(self, blocks: Blocks) -> int:
        return self.batch * -(-self.rows // blocks.rows) * -(-self.cols // blocks.cols) * blocks.splits


def _fit(blocks: Blocks, sizes: _Sizes) -> Blocks:
    """No more lanes than the extents fill."""
    if sizes.skinny:
        side = min(blocks.rows, _SKINNY_SIDE), min(blocks.cols, _SKINNY_SIDE)
        blocks = replace(blocks, rows=side[0], cols=side[1], warps=min(blocks.warps, 4), stages=4, parts=1)
    cols = min(blocks.cols, max(power(sizes.cols), _LEAST))
    part = sizes.run & -sizes.run  # the power of two in it
    return replace(
        blocks,
        rows=min(blocks.rows, max(power(sizes.rows), _LEAST)),
        cols=cols,
        depth=min(blocks.depth, part if part >= _LEAST else max(power(sizes.depth), 2 * _LEAST)),
        parts=blocks.parts if cols == blocks.cols else 1,
    )


def _splits(blocks: Blocks, sizes: _Sizes, cores: int) -> list[Blocks]:
    """The depth whole, and shared by so many programs that together they are just under one, two or three waves."""
    most = min(sizes.depth // _SPLIT_DEPTH, _MOST_SPLITS)
    programs = max(sizes.programs(blocks), 1)
    found = {1, *(min(waves * cores // programs, most) for waves in (1, 2, 3))}
    return [replace(blocks, splits=s) for s in sorted(found) if s >= 1]


def _time(blocks: Blocks, sizes: _Sizes, cores: int) -> float:
    """Of the whole product, in products of one multiprocessor: waves of programs, each as long as its depth.

    A block of r x c sums reads r + c numbers for r * c products, so that a fourth of the time of a square block of
    128 goes into reading. Each partial sum is written and read again, as long as some products.
    """
    depth = -(-sizes.depth // blocks.splits)
    reading = 1 + _READING * (1 / blocks.rows + 1 / blocks.cols)
    if blocks.thirds:
        split = sizes.batch * (sizes.rows + sizes.cols) * sizes.depth * _SPLIT / cores
        waves = -(-sizes.programs(blocks) // cores)
        return waves * (blocks.rows * blocks.cols * sizes.depth / _THIRDS_GAIN + _START) + split + _THIRDS_START
    waves = -(-sizes.programs(blocks) // (cores * (_SKINNY_PROGRAMS if sizes.skinny else 1)))
    sums = sizes.batch * sizes.rows * sizes.cols * blocks.splits if blocks.splits > 1 else 0
    return waves * (blocks.rows * blocks.cols * depth * reading + _START) + sums * _PARTIAL / cores


_READING = 24  # products that take as long as reading one number
_MOST_THIRDS = 4 << 30  # bytes of them: more memory than that is not taken unasked
_THIRDS_GAIN = 1.6  # products in thirds for one in f32
_SPLIT = 82  # products that take as long as splitting a number and writing its thirds
_THIRDS_START = 4e6  # products that take as long as the further kernels
_START = 2e6  # of a program, in products
_PARTIAL = 400  # products that take as long as a partial sum there and back
