"""How many lanes a program has in each direction, by sample sizes: rules on extents only.

Figures are from an H200: programs of one block beat persistent ones; a row in registers is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....fusion.program import Group, Program, extent_of
from .....ir.dim import Dim, product, sample
from ..grid import extent

MULTIPLE = 16  # of which fixed sizes are said to be multiples: accesses of 16 bytes follow from it
BLOCK = 1024  # elements of a block of elementwise work
CROSSING = (128, 64)  # lanes of a block that is read along the first loop and written along the second
CROSSING_WARPS = 16
COMBINE_WARPS = 4  # at least, of the second kernel of a reduction: few programs run, each soon done
RESIDENT = 16 * 1024  # elements of a row held in registers
LOOPED = 4096  # lanes of a row that is passed over in blocks
ROWS_BLOCK = 4096  # elements of a block of several short rows
COLUMNS, COLUMN_ROWS = 128, 32  # of a block of a column reduction
PROGRAMS = 132 * 8  # that fill a GPU several times over
SPLIT_WORK = 64 * 1024  # elements from which a reduction in two kernels pays


def power(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()


def lanes(dim: Dim, most: int) -> int:
    """Lanes for an extent: no more than it fills."""
    return min(power(sample(dim)), most)


def fits(dim: Dim, width: int) -> bool:
    """Whether a tile of `width` lanes holds all of an extent, whatever sizes it will have."""
    return isinstance(dim, int) and dim <= width


@dataclass(frozen=True, slots=True)
class ReductionShape:
    """`kept` lanes of rows (1: a program a row, with no axis for it), `reduced` lanes along them.

    `minor_kept`: lanes of rows run over the innermost kept loop only, since it is the contiguous one.
    `resident`: one block holds whole rows.
    """

    kept: int
    reduced: int
    minor_kept: bool
    resident: bool

    @property
    def warps(self) -> int:
        """Of a program: a long row is spread out to be there sooner; of several rows no warp waits for another."""
        elements = 1024 if self.kept > 1 else 256 if self.resident else 512
        return max(1, min(16, self.kept * self.reduced // elements))


def reduction_shape(program: Program, kept: Sequence[Group], reduced: Sequence[Group]) -> ReductionShape:
    row, rows = extent_of(program.reduced), product(map(extent, kept))
    last = program.groups_of(program.space)[-1:]
    if kept and last and last[0] is kept[-1]:
        columns = lanes(extent(kept[-1]), COLUMNS)
        depth = lanes(row, max(COLUMN_ROWS, COLUMN_ROWS * COLUMNS // columns))
        return ReductionShape(columns, depth, True, fits(row, depth))
    width = lanes(row, RESIDENT)
    if not fits(row, width):
        return ReductionShape(1, lanes(row, LOOPED), False, False)
    return ReductionShape(lanes(rows, max(ROWS_BLOCK // width, 1)), width, False, True)
