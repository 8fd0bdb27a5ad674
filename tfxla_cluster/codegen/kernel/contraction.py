"""Contractions, target-neutral: what one computes, and the sizes of its blocks and register tiles.

A contraction is out[g, m, n] = finish(sum over k of lhs[g, m, k] * rhs[g, k, n]); g, m, n and k are
each an index of several dims. `dot` and `convolution` differ only in how an index reaches an element.
Each operand may cut the same flat index into dims of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.dim import Dim
from ...ir.dtype import DType
from ...target import Target
from .builder import KernelBuilder
from .contraction_ports import Ports
from .ir import Buffer, Var

Index = tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """An operand that a product may read in place: with one free dim and one depth dim, element
    (free, depth) lies at offset + free * stride + depth (major 'depth') or offset + depth * stride + free. `unit`:
    elements that offset and stride are multiples of (1: not known). `thirds`: the element is the sum of three bf16, as
    `ir.Blocks` has it."""

    buffer: Buffer
    offset: Var
    stride: Var
    unit: int = 1
    thirds: Var | None = None

    def at(self, b: KernelBuilder, outer: Var, inner: Var) -> Var:
        """The element offset at an index of the strided and one of the contiguous dim."""
        return b.add(self.offset, b.add(b.mul(outer, self.stride), inner))


@dataclass(frozen=True, slots=True)
class ImageAxis:
    """A dim of an array in memory, `extent` elements that are `step` apart. The index that an element has along it is
    `start` plus `free_scale` times a digit of the free index plus `depth_scale` times one of the depth index, those of
    the numbers `free` and `depth` (None: there is none). Outside the extent elements are zero."""

    extent: Dim
    step: Dim
    free: int | None = None
    depth: int | None = None
    free_scale: int = 1
    depth_scale: int = 1
    start: Dim = 0

    def at(self, b: KernelBuilder, free: Index, depth: Index) -> Var:
        """The index along this dim of an element."""
        place = b.number(self.start)
        for digit, index, scale in ((self.free, free, self.free_scale), (self.depth, depth, self.depth_scale)):
            if digit is not None:
                place = b.add(place, b.mul(index[digit], b.index(scale)))
        return place


@dataclass(frozen=True, slots=True)
class Image:
    """An operand as an array in memory: operand number `number` of the unit (another buffer where `kind` says so), of
    `dtype`. `axes`: outermost first; the elements of the last lie side by side."""

    number: int
    dtype: DType
    axes: tuple[ImageAxis, ...]
    kind: str = "operand"


@dataclass(frozen=True, slots=True)
class Side:
    """One operand seen as a matrix of free (rows of lhs, columns of rhs) and depth indices.

    `major`: whose innermost dim is contiguous in memory: 'depth' or 'free'. `value(ports, g, free,
    depth)` is the element in the contraction's dtype. `valid`, where given, is the range of that
    innermost dim's index (its entry in free or depth is ignored) in which there are elements; outside
    the element is zero. `plain(ports, g)`: where it can be read in place, in the contraction's dtype; `matrix`: in
    whichever dtype it has. `free` and `depth`: the dims
    that those indices have for this operand; their products are the contraction's rows or columns and depth.
    `loaded`: an element is one load and perhaps a conversion, so that it is zero where the load is left out.
    `inside(ports, free, depth)`: `valid` as conditions, each on as few indices as can be. `image`: where the operand is
    an array of which both indices are digits of the index.
    """

    free: tuple[Dim, ...]
    depth: tuple[Dim, ...]
    major: str
    value: Callable[[Ports, Index, Index, Index], Var]
    valid: Callable[[Ports, Index, Index, Index], tuple[Var, Var]] | None = None
    plain: Callable[[Ports, Index], Plain] | None = None
    matrix: Callable[[Ports, Index], Plain] | None = None
    loaded: bool = False
    inside: Callable[[Ports, Index, Index], list[Var]] | None = None
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class Contraction:
    """`dtype` is that of the sum. `finish(ports, sum, g, m, n)` stores one element of the result.

    `precision`: of products of f32, as HLO's operand_precision or algorithm says it ('default' lets a target multiply
    fewer bits).

    `place(ports, g)`, where given, says that finish only stores the sum, at offset + m * N + n of a
    buffer of `dtype`, m and n flat; the product then writes there itself.
    """

    name: str
    dtype: DType
    batch: tuple[Dim, ...]
    rows: tuple[Dim, ...]
    cols: tuple[Dim, ...]
    depth: tuple[Dim, ...]
    lhs: Side
    rhs: Side
    finish: Callable[[Ports, Var, Index, Index, Index], None]
    place: Callable[[Ports, Index], tuple[Buffer, Var]] | None = None
    precision: str = "highest"


@dataclass(frozen=True, slots=True)
class Tile:
    """The register tiles of a product: up to `rows[0]` x `vectors` registers of `lanes` elements.

    `rows`: the heights there is code for, highest first, down to 1.
    """

    rows: tuple[int, ...]
    vectors: int
    lanes: int

    @property
    def panel(self) -> int:
        """Columns of a full tile: the width of a packed panel of the right operand."""
        return self.vectors * self.lanes


# Register tile by vector width: accumulators, one row of b and a broadcast fit the register file
# (16 registers up to 256 bits, 32 at 512). Any even height from 4 on is a sum of the two highest.
_REGISTERS = {128: ((6, 4, 2, 1), 2), 256: ((6, 4, 2, 1), 2), 512: ((12, 8, 4, 2, 1), 2)}


def tile(dtype: DType, target: Target) -> Tile:
    """The register tile for products in `dtype` (f32 or f64)."""
    rows, vectors = _REGISTERS[target.vector_bits]
    return Tile(rows, vectors, target.vector_bits // (8 * dtype.itemsize))


PANEL_DEPTH = 256  # the most depth of one product that reads its right operand in place
_L2_SHARE = 7 / 8  # the rest is for the operands that pass by
_MOST_ROWS, _ROW_UNIT = 144, 24  # more rows gain nothing; multiples of every height of a register tile


@dataclass(frozen=True, slots=True)
class Blocks:
    """Largest block of rows, columns and depth that one task works on at a time."""

    rows: int
    cols: int
    depth: int


def blocks(dtype: DType, target: Target) -> Blocks:
    """Blocks whose packed left operand and result stay in L2, and a panel of the right one in L1. Depth, and with it
    the order of sums, depends on no cache."""
    cols = 1024 // dtype.itemsize
    fitting = int(_L2_SHARE * target.l2_bytes) // (dtype.itemsize * (PANEL_DEPTH + cols))
    rows = min(_MOST_ROWS, max(fitting // _ROW_UNIT, 1) * _ROW_UNIT)
    return Blocks(rows, cols, PANEL_DEPTH)
