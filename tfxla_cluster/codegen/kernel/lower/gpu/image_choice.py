"""Blocks of products whose left operand is an image: what can be chosen, and the default, by a model of their costs.

The model is from an H200: 3x3 convolutions of 56x56x64 to 7x7x512 and their gradients. The left operand passes through
registers, so that each of its rows costs as much as so many more columns.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from .....ir.dim import product, sample
from .....target import Target
from ...contraction import Contraction
from .capability import shared_bytes
from .image_blocks import cut
from .product_blocks import Blocks, Factors, on_their_way

# The first of equal ones is taken.
_NARROW = (
    Blocks(128, 256, 64, 8, 3, parts=2),
    Blocks(256, 128, 64, 8, 3, parts=2),
    Blocks(256, 64, 64, 8, 4),
    Blocks(128, 128, 64, 8, 4),
    Blocks(128, 128, 128, 8, 3),
    Blocks(128, 64, 64, 4, 3),
    Blocks(64, 64, 128, 4, 3),
    Blocks(64, 64, 64, 4, 3),
    Blocks(256, 64, 32, 8, 4),
    Blocks(128, 128, 32, 8, 4),
    Blocks(128, 64, 32, 4, 4),
)
_WIDE = (Blocks(256, 64, 32, 8, 4), Blocks(128, 128, 32, 8, 4), Blocks(128, 64, 32, 4, 3), Blocks(64, 64, 32, 4, 3))
_NARROW_BITS = 16  # of elements
_LEAST, _PARTED = 16, 128  # lanes of a block; columns from which a block may be finished in parts
_ROW = 140  # columns that cost as much as a row
_START = 2e6  # of a program, in products, but where it goes on with another block at once
_FEW_WARPS, _TOGETHER = 4, 2  # of programs with so few warps a multiprocessor has several at once
_SHARED = 2.4  # times as long as alone each then takes
_PARTIAL = 800  # products that take as long as a partial sum there and back
_MOST_SPLITS, _SPLIT_DEPTH = 64, 512  # programs that share a depth, and what each has at least
_TURNS = 2.5  # blocks of a program from which it pays that it goes on with the next
_PERSISTENT_BLOCK = 128 * 128
_PACK_READS = 512  # times that each number of an operand is read, from which a copy is worth its time


def boxes(c: Contraction, bits: int) -> list[Blocks]:
    """The blocks that are boxes of a contraction's images, whose elements have so many bits: smaller ones where none of
    the table is."""
    table = _NARROW if bits <= _NARROW_BITS else _WIDE
    whole = [b for b in table if cut(c, b.shape) is not None]
    return whole or list(dict.fromkeys(b for b in (_fitted(c, b) for b in table) if b is not None))


def _fitted(c: Contraction, blocks: Blocks) -> Blocks | None:
    """With fewer rows, columns or depths where there are no such boxes; None where there are none at all."""
    for rows, cols, depth in itertools.product(*map(_halves, blocks.shape)):
        if cut(c, (rows, cols, depth)) is not None:
            return replace(blocks, rows=rows, cols=cols, depth=depth, parts=blocks.parts if cols >= _PARTED else 1)
    return None


def _halves(size: int) -> list[int]:
    return [size >> n for n in range(size.bit_length()) if size >> n >= _LEAST]


def promising(c: Contraction, factors: Factors, target: Target) -> list[Blocks]:
    """Blocks that are boxes, for the sample sizes, by falling promise; none where the images have no boxes."""
    room = shared_bytes(target)
    found = [b for b in boxes(c, factors.dtype.bits) if on_their_way(b, factors.dtype.itemsize) <= room]
    model = _Model(c, target.cores)
    tried = [replace(b, splits=s) for b in found for s in model.splits(b)]
    packs = factors.packs & 2 * (model.rows >= _PACK_READS)
    return [replace(model.finished(b), packs=packs) for b in sorted(tried, key=model.time)]


class _Model:
    """Of the costs of a contraction on `cores` multiprocessors, in products of one of them."""

    def __init__(self, c: Contraction, cores: int) -> None:
        self.rows, self.cols, self.depth = (sample(product(dims)) for dims in (c.rows, c.cols, c.depth))
        self.cores = cores

    def programs(self, blocks: Blocks) -> int:
        return -(-self.rows // blocks.rows) * -(-self.cols // blocks.cols) * blocks.splits

    def places(self, blocks: Blocks) -> int:
        """Programs that run at once."""
        return self.cores * (_TOGETHER if blocks.warps <= _FEW_WARPS else 1)

    def goes_on(self, blocks: Blocks) -> bool:
        """Whether programs make several blocks, the reads for the next one on their way while one is stored."""
        return blocks.rows * blocks.cols >= _PERSISTENT_BLOCK and self.programs(blocks) > _TURNS * self.cores

    def splits(self, blocks: Blocks) -> list[int]:
        """The depth whole, and shared by as many programs as are just under one, two or three waves."""
        most, places = min(self.depth // _SPLIT_DEPTH, _MOST_SPLITS), self.places(blocks)
        found = {1, *(min(waves * places // max(self.programs(blocks), 1), most) for waves in (1, 2, 3))}
        return sorted(s for s in found if s >= 1)

    def time(self, blocks: Blocks) -> float:
        """Waves of programs, each as long as its depth, and partial sums, written and read again."""
        depth, places = -(-self.depth // blocks.splits), self.places(blocks)
        one = blocks.rows * (blocks.cols + _ROW) * depth * (_SHARED if places > self.cores else 1)
        sums = self.rows * self.cols * blocks.splits if blocks.splits > 1 else 0
        start = 0 if self.goes_on(blocks) else _START
        return -(-self.programs(blocks) // places) * (one + start) + sums * _PARTIAL / self.cores

    def finished(self, blocks: Blocks) -> Blocks:
        """With how operands are read and results stored: in parts, and by descriptors, in turns alone."""
        if blocks.splits == 1 and self.goes_on(blocks):
            return replace(blocks, persistent=1, descriptors=2)
        return replace(blocks, parts=1, descriptors=1)
