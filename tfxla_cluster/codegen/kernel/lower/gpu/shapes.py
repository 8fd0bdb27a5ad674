"""How many lanes a program has in each direction, by sample sizes: rules on extents only.

Figures are from an H200: programs of one block beat persistent ones; a row in registers is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....fusion.program import Group, Program, extent_of
from .....ir.dim import Dim, product, sample
from .....ir.size_proofs import at_most
from ...choice import Knobs
from ..grid import extent

MULTIPLE = 16  # of which, or of a half or fourth, sizes are said to be multiples: accesses of 16 bytes follow from it
WIDE = 4  # elements of the widest access, of 4 bytes each
# Each default with the values that tuning tries besides.
BLOCK, BLOCKS = 512, (128, 256, 512, 1024, 2048)  # elements of a block of elementwise work
CROSSING = (128, 64)  # lanes of a block that is read along the first loop and written along the second
CROSSINGS = (32, 64, 128)
WARPS = (1, 2, 4, 8, 16)  # of a program
COMBINE_WARPS = 4  # at least, of the second kernel of a reduction: few programs run, each soon done
ROW_OF_A_WARP = 1024  # elements of a row that one warp holds
RESIDENT = 16 * 1024  # elements of a row held in registers
LOOPED, LOOPS = 4096, (1024, 2048, 8192)  # lanes of a row that is passed over in blocks
ROWS_BLOCK = 1024  # elements of a block of several short rows
ROWS_OF_SEVERAL = 2  # rows at least of such a block with several accumulators
MOST_PIECES, LEAST_PIECE = 7, 128  # of a row, and lanes of one
PIECED_OF_A_WARP = 384  # elements of such a row
ROWS = (1, 2, 4, 8)  # rows of such a block
COLUMNS, COLUMN_WIDTHS = 128, (16, 32, 64, 128, 256)  # of a block of a column reduction
COLUMN_ROWS, COLUMN_DEPTHS = 32, (16, 32, 64, 128)
NARROWEST = 8  # columns, where more programs are wanted: a sector of 32 bytes, if they have 4 each
NARROW_ROWS = 256  # rows at most of such a block
PROGRAMS, PROGRAM_COUNTS = 132 * 8, (132 * 4, 132 * 8, 132 * 16)  # that fill a GPU several times over
FEW = 132 * 2  # programs: fewer leave some of it idle
LEAST_BLOCK = 256  # elements, where more programs are wanted
OF_A_WARP, OF_A_WARP_SOONER = 256, 64  # elements of such a block; where there are few programs, to be sooner done
OF_COLUMNS_SOONER = (
    128  # elements of a warp of a block of whole columns where there are few programs, or of narrow ones
)
SEVERAL = 8  # warps at most of a reduction with several accumulators, whose combiner is long
BUSY = 2  # times as many elements of a block, or half of a column reduction's, where they are narrow
SMALL = 16  # times smaller than the largest array is one whose bytes do not count
SPLIT_WORK = 64 * 1024  # elements from which a reduction in two kernels pays


def power(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()


def lanes(dim: Dim, most: int) -> int:
    """Lanes for an extent: no more than it fills."""
    return min(power(sample(dim)), most)


def fits(dim: Dim, width: int) -> bool:
    """Whether a tile of `width` lanes holds all of an extent, whatever sizes it will have."""
    return at_most(dim, width)


def block_warps(elements: int, each: int) -> int:
    """Of a program whose block has so many elements, about `each` of them a warp."""
    return max(1, min(16, elements // each))


def filling(width: int, least: int, elements: int) -> int:
    """`width`, or less of it, down to `least`, where so few `elements` would fill FEW blocks of it."""
    while width > least and elements < FEW * width:
        width //= 2
    return width


@dataclass(frozen=True, slots=True)
class ReductionShape:
    """`kept` lanes of rows (1: a program a row, with no axis for it), `reduced` lanes along them.

    `minor_kept`: lanes of rows run over the innermost kept loop only, since it is the contiguous one.
    `resident`: one block holds whole rows, or `pieces` side by side do. `warps` of a program.
    """

    kept: int
    reduced: int
    minor_kept: bool
    resident: bool
    warps: int
    pieces: int = 1


def reduction_warps(kept: int, reduced: int, resident: bool) -> int:
    """A long row is spread out to be there sooner; of several rows no warp waits for another."""
    elements = 1024 if kept > 1 or reduced <= ROW_OF_A_WARP else 256 if resident else 512
    return max(1, min(16, kept * reduced // elements))


def reduction_shape(program: Program, kept: Sequence[Group], reduced: Sequence[Group], knobs: Knobs) -> ReductionShape:
    """Knobs: 'columns' and 'depth' of a block of a column reduction, 'rows' and 'pieces' of a block that holds rows,
    'block' of one that does not, 'warps'."""
    several = any(len(reduce.operands) > 2 for level in program.levels for reduce in level)
    found = _block(program, kept, reduced, several, knobs)
    few = found[2] and found[3] and sample(product(map(extent, kept))) < FEW * found[0]
    warps = reduction_warps(found[0], found[1], found[3])
    if few or (found[2] and narrow(program)):
        warps = block_warps(found[0] * found[1], OF_COLUMNS_SOONER)
    warps = min(warps, SEVERAL) if several else warps
    pieces = _pieces(extent_of(program.reduced)) if found[3] and not found[2] else 1
    if pieces > 1:
        pieces = knobs.take("pieces", pieces, (1,))
    if pieces > 1:
        warps = max(warps, min(sample(extent_of(program.reduced)) // PIECED_OF_A_WARP, WARPS[-1]))
        found = (found[0], sample(extent_of(program.reduced)) // pieces, *found[2:])
    return ReductionShape(*found, knobs.take("warps", warps, WARPS), pieces)


def _pieces(row: Dim) -> int:
    """Blocks of as many lanes, none of them idle, that make up a row; 1 where there would be many or small ones."""
    if not isinstance(row, int) or row <= 0:
        return 1
    count = row // (row & -row)
    return count if count <= MOST_PIECES and row // count >= LEAST_PIECE else 1


def narrow(program: Program) -> bool:
    """Whether what it reads, but for small arrays, has elements of at most 2 bytes."""
    arrays = {load.instr.shape for load in program.loads}
    least = max((sample(a.byte_size) for a in arrays), default=0) // SMALL
    return all(a.element_type.itemsize <= 2 for a in arrays if sample(a.byte_size) > least)


def _block(
    program: Program, kept: Sequence[Group], reduced: Sequence[Group], several: bool, knobs: Knobs
) -> tuple[int, int, bool, bool]:
    """ReductionShape's fields but for the warps. `several`: accumulators."""
    row, rows = extent_of(program.reduced), product(map(extent, kept))
    last = program.groups_of(program.space)[-1:]
    if kept and last and last[0] is kept[-1]:
        is_narrow = narrow(program)
        least = NARROWEST * (BUSY if is_narrow else 1)
        default = filling(COLUMNS, least, sample(rows)) if sample(row) <= NARROW_ROWS else COLUMNS
        widest = knobs.take("columns", default, COLUMN_WIDTHS)
        size = COLUMN_ROWS * COLUMNS // (BUSY if is_narrow else 1)
        deepest = knobs.take("depth", size // default, COLUMN_DEPTHS)
        columns = lanes(extent(kept[-1]), widest)
        depth = lanes(row, max(deepest, deepest * widest // columns))
        return columns, depth, True, fits(row, depth)
    width = lanes(row, RESIDENT)
    if not fits(row, width):
        return 1, lanes(row, knobs.take("block", LOOPED, LOOPS)), False, False
    default = filling(max(ROWS_BLOCK // width, ROWS_OF_SEVERAL if several else 1), 1, sample(rows))
    return lanes(rows, knobs.take("rows", default, ROWS)), width, False, True
