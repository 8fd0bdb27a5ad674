"""Convolutions whose operands are read in blocks of the arrays that they lie in.

A block of rows, of columns or of the depth is a box: some neighbours along each digit of the index. The flat indices
are renumbered, one box after the other, so that a block of them is one; in memory it is a block too, with zeros where
it leaves the array, as a convolution wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from .....ir.dim import Dim, ceil_div, product, sample
from .....ir.dtype import S64, U32, DType
from .....ir.polynomial import common_factor
from ... import ir
from ...builder import KernelBuilder
from ...contraction import Contraction, Image, Index, Side
from ...contraction_ports import Ports
from ...ir import Var
from ..space import digits
from .capability import DESCRIPTOR_UNIT

_NEAR = 8  # neighbours along a dim that are taken before those along the next one
_LINE = 64  # of those that lie side by side
_MOST = 256  # that a descriptor takes
_SHORT = 1 << 31  # depths whose numbers have 32 bits
_RANKS = range(2, 6)  # of arrays that have descriptors


@dataclass(frozen=True, slots=True)
class Box:
    """Of an index: `dims` are the extents of its digits, `widths` the neighbours along each that a box holds, `order`
    the digits as they come inside a box, outermost first."""

    dims: tuple[Dim, ...]
    widths: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def counts(self) -> tuple[Dim, ...]:
        """Boxes along each digit."""
        return tuple(ceil_div(dim, width) for dim, width in zip(self.dims, self.widths))

    @property
    def in_order(self) -> bool:
        """Whether the elements come as they do without boxes."""
        return all(width == 1 for width in self.widths[:-1])

    @property
    def ascending(self) -> bool:
        """Whether those of a box come by rising digits."""
        wide = [n for n in self.order if self.widths[n] > 1]
        return wide == sorted(wide)

    @property
    def renumbered(self) -> tuple[Dim, ...]:
        """The digits of the index by boxes: which box, then which element of it."""
        return self.dims if self.in_order else (*self.counts, *(self.widths[n] for n in self.order))

    def joined(self, b: KernelBuilder, index: Index) -> Index:
        """The digits of an element from those by boxes."""
        if self.in_order:
            return index
        inner = index[len(self.dims) :]
        whole = self.begin(b, index[: len(self.dims)])
        return tuple(b.add(at, inner[self.order.index(n)]) for n, at in enumerate(whole))

    def begin(self, b: KernelBuilder, index: Sequence[Var]) -> Index:
        """The digits of the first element of a box."""
        return tuple(b.mul(at, b.index(width)) for at, width in zip(index, self.widths))


@dataclass(frozen=True, slots=True)
class Cut:
    """A contraction's rows, columns and depth in boxes."""

    rows: Box
    cols: Box
    depth: Box


def cut(c: Contraction, size: tuple[int, int, int]) -> Cut | None:
    """Of a left operand that is an image and a right one that is an image or a matrix: boxes as large as blocks of so
    many rows, columns and depths. None where the extents have none, or what a box holds is no block in memory."""
    left, right = c.lhs.image, c.rhs.image
    if left is None:
        return None
    rows = _box(c.rows, size[0], left, "free")
    depth = _box(c.depth, size[2], left, "depth", *([] if right is None else [right]))
    cols = _in_order(c.cols, size[1]) if right is None else _box(c.cols, size[1], right, "free")
    if rows is None or cols is None or depth is None or _turned(left, rows, depth) is None:
        return None
    whole = depth.in_order if right is None else _turned(right, cols, depth) is not None
    return Cut(rows, cols, depth) if whole else None


def _in_order(dims: tuple[Dim, ...], size: int) -> Box:
    """Elements of a matrix, which may leave it, as they come."""
    return Box(dims, (*(1 for _ in dims[1:]), size), tuple(range(len(dims))))


def _box(dims: tuple[Dim, ...], size: int, held: Image, kind: str, *others: Image) -> Box | None:
    """A box of `size` elements along digits that move one by one in all of the images, those in whose direction
    elements lie side by side first."""
    axis_of = {getattr(axis, kind): place for place, axis in enumerate(held.axes)}
    order = sorted(range(len(dims)), key=lambda n: axis_of[n])
    widths, last = [1] * len(dims), len(held.axes) - 1
    for line, near in ((_LINE, _NEAR), (_MOST, _MOST)):
        for n in reversed(order):
            most = min(_room(dims[n]), line if axis_of[n] == last else near)
            more = min(max(most // widths[n], 1), size)
            if all(_moves_one_by_one(i, kind, n) for i in (held, *others)):
                widths[n], size = widths[n] * more, size // more
    return Box(dims, tuple(widths), tuple(order)) if size == 1 else None


def _room(dim: Dim) -> int:
    """The largest power of two that divides an extent."""
    factor = common_factor((dim,))
    return factor & -factor or 1


def _moves_one_by_one(image: Image, kind: str, digit: int) -> bool:
    return all(getattr(a, f"{kind}_scale") == 1 for a in image.axes if getattr(a, kind) == digit)


def _widths(image: Image, free: Box, depth: Box) -> list[tuple[int, int]]:
    """For each dim of an image how many elements of it a box of free and one of depth indices hold."""

    def width(box: Box, digit: int | None) -> int:
        return 1 if digit is None else box.widths[digit]

    return [(width(free, axis.free), width(depth, axis.depth)) for axis in image.axes]


def _turned(image: Image, free: Box, depth: Box) -> bool | None:
    """Whether in the block of memory that the boxes hold the depth comes first; None where it is none, or its elements
    come in another order than those of the boxes."""
    wide = [n for n, (f, d) in enumerate(_widths(image, free, depth)) if f > 1 or d > 1]
    kinds = ["free" if _widths(image, free, depth)[n][0] > 1 else "depth" for n in wide]
    if any(min(_widths(image, free, depth)[n]) > 1 for n in wide) or kinds not in (sorted(kinds), sorted(kinds)[::-1]):
        return None
    for kind, box in (("free", free), ("depth", depth)):
        found = [getattr(image.axes[n], kind) for n, k in zip(wide, kinds) if k == kind]
        if found != [n for n in box.order if box.widths[n] > 1]:
            return None
    return kinds[:1] == ["depth"]


def is_image(side: Side, dtype: DType) -> bool:
    """Whether an operand lies in memory, as `dtype`, so that descriptors can read it."""
    image = side.image
    if image is None or image.dtype != dtype or len(image.axes) not in _RANKS:
        return False
    return common_factor([axis.step for axis in image.axes[:-1]]) * dtype.itemsize % DESCRIPTOR_UNIT == 0


def renumbered(c: Contraction, boxes: Cut) -> Contraction:
    """The contraction with its indices taken box by box."""

    def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        c.finish(p, value, g, boxes.rows.joined(p.b, m), boxes.cols.joined(p.b, n))

    return replace(
        c,
        rows=boxes.rows.renumbered,
        cols=boxes.cols.renumbered,
        depth=boxes.depth.renumbered,
        lhs=_side(c.lhs, boxes.rows, boxes.depth),
        rhs=_side(c.rhs, boxes.cols, boxes.depth),
        finish=finish,
        place=None,
    )


def _side(side: Side, free: Box, depth: Box) -> Side:
    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        return side.value(p, g, free.joined(p.b, f), depth.joined(p.b, k))

    def inside(p: Ports, f: Index, k: Index) -> list[Var]:
        assert side.inside is not None
        return side.inside(p, free.joined(p.b, f), depth.joined(p.b, k))

    tested = inside if side.inside is not None else None
    return replace(side, free=free.renumbered, depth=depth.renumbered, value=value, inside=tested)


def blocks_of(p: Ports, side: Side, boxes: tuple[Box, Box], block: Var) -> ir.Blocks:
    """A factor of a product as blocks of memory: of the free indices in box number `block`, `boxes` being those of the
    free and of the depth index."""
    b, image, (free, depth) = p.b, side.image, boxes
    assert image is not None
    turned = _turned(image, free, depth)
    assert turned is not None
    shape = tuple(f * d for f, d in _widths(image, free, depth))
    buffer = p.read(image.kind, image.number, image.dtype)
    dims, steps = ([b.size(getattr(axis, what)) for axis in image.axes] for what in ("extent", "step"))
    matrix = b.descriptor(buffer, b.index(0), dims, steps[:-1], shape)
    outer = free.begin(b, digits(b, block, free.counts))
    short = all(isinstance(dim, int) for dim in depth.dims) and sample(product(depth.dims)) < _SHORT

    def place(k: Var) -> Sequence[Var]:
        number = b.op("convert", k, dtype=U32) if short else k  # every thread computes it, in each turn of the loop
        number = b.quotient(number, b.const(prod(depth.widths), number.dtype))
        found = [d if d.dtype == S64 else b.op("convert", d, dtype=S64) for d in digits(b, number, depth.counts)]
        inner = depth.begin(b, found)
        return [axis.at(b, outer, inner) for axis in image.axes]

    return ir.Blocks(matrix, turned, place=b.region([S64], place))
