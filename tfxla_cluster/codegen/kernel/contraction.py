"""Sizes of blocks and register tiles of a contraction: one table, read by lowering and by the emitters."""
from __future__ import annotations

from dataclasses import dataclass

from ...ir.dtype import DType
from ...target import Target


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
_REGISTERS = {
    128: ((6, 4, 2, 1), 2),
    256: ((6, 4, 2, 1), 2),
    512: ((12, 8, 4, 2, 1), 2),
}


def tile(dtype: DType, target: Target) -> Tile:
    """The register tile for products in `dtype` (f32 or f64)."""
    rows, vectors = _REGISTERS[target.vector_bits]
    return Tile(rows, vectors, target.vector_bits // (8 * dtype.itemsize))
