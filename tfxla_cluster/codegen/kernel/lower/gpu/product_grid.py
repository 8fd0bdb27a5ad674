"""The blocks of a matrix product's result: their numbers, and the tiles of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .....ir.dim import Dim, ceil_div, make, product
from .....ir.size_proofs import divides
from ...builder import KernelBuilder
from ...contraction import Contraction
from ...ir import Var
from ..grid import minimum
from .product_blocks import Blocks


@dataclass(frozen=True, slots=True)
class Extents:
    """Of the flat indices of a contraction."""

    batch: Dim
    rows: Dim
    cols: Dim
    depth: Dim

    @staticmethod
    def of(c: Contraction) -> Extents:
        return Extents(product(c.batch), product(c.rows), product(c.cols), product(c.depth))


class Grid:
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

    def number(self, b: KernelBuilder, row: Var, col: Var) -> Var:
        """The number of the tile at a block of rows and a block of columns."""
        if self.rows == 1 or self.cols == 1:
            return col if self.rows == 1 else row
        inside = b.remainder(row, b.index(self.group))
        first = b.op("subtract", row, inside)
        height = minimum(b, b.op("subtract", b.size(self.rows), first), b.index(self.group))
        return b.add(b.add(b.mul(first, b.size(self.cols)), b.mul(col, height)), inside)


@contextmanager
def tiles(
    b: KernelBuilder, size: Extents, place: tuple[Var, Var], shape: tuple[int, int], parts: int = 1
) -> Iterator[tuple[Var, Var]]:
    """The tiles of rows and columns of block number `place`."""
    (row, col), (height, width) = place, shape
    with _tile(b, row, size.rows, height, 1) as i, _tile(b, col, size.cols, width, parts) as j:
        yield i, j


@contextmanager
def _tile(b: KernelBuilder, block: Var, extent: Dim, width: int, parts: int) -> Iterator[Var]:
    start = b.mul(block, b.index(width))
    full = divides(width, extent)
    with b.tile(start, minimum(b, b.add(start, b.index(width)), b.size(extent)), width, full, parts) as lane:
        yield lane
