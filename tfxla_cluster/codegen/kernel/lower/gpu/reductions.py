"""Reductions on a GPU: a program is some rows, held in one block or passed over in blocks.

Rows that fit one block stay in registers from the first reduction to the last output. Longer ones are
passed over once a level. Where too few programs would fill the machine, one level of reductions runs in
two kernels: partial results of parts of the rows, then their combination and the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .....fusion.index import flatten
from .....fusion.program import Group, Program, extent_of
from .....ir.dim import make, product, sample
from ...choice import Knobs
from ...ir import Buffer
from ...unit import Unit
from ..emit import Emitter
from ..grid import bind_rows, extent
from ..loops import open_kernel, store_roots, work
from ..rows import bind_results, row_groups
from ..staged import can_split
from ..steps import single_step
from .level import Level
from .rows import program_rows, programs
from .shapes import BUSY, MULTIPLE, PROGRAM_COUNTS, PROGRAMS, SPLIT_WORK, ReductionShape, narrow, reduction_shape
from .staged import staged_unit


def lower_reduction(program: Program, name: str, knobs: Knobs) -> Unit:
    """One kernel, or two where that fills the machine. Knobs: those of `reduction_shape`, 'programs' of two kernels."""
    kept, reduced = row_groups(program)
    shape = reduction_shape(program, kept, reduced, knobs)
    if _splits(program, kept, shape):
        count = PROGRAMS // BUSY if shape.minor_kept and narrow(program) else PROGRAMS
        return staged_unit(program, name, shape, knobs.take("programs", count, PROGRAM_COUNTS))
    e, outputs = open_kernel(program, name, MULTIPLE)
    with program_rows(e, kept, shape, e.b.task):
        if shape.resident and reduced:
            _resident(e, shape, reduced, outputs)
        else:
            _in_blocks(e, shape, reduced, outputs)
    cost = make("mul", extent_of(program.reduced), shape.kept * work(program))
    return Unit((single_step(program, e.b.finish(programs(kept, shape), cost, shape.warps)),))


def _splits(program: Program, kept: Sequence[Group], shape: ReductionShape) -> bool:
    """One level of reductions, and nothing but rows after it, that a quarter of the programs would do."""
    if shape.resident or len(program.levels) > 1 or not program.rows_only or not can_split(program):
        return False
    elements = sample(product(map(extent, kept))) * sample(extent_of(program.reduced))
    return elements >= SPLIT_WORK and 4 * sample(programs(kept, shape)) < PROGRAMS


def _resident(e: Emitter, shape: ReductionShape, reduced: Sequence[Group], outputs: Sequence[Buffer]) -> None:
    """Everything in one block, or some of the same size side by side: each element is read once."""
    b, full = e.b, shape.pieces * shape.reduced == extent_of(e.program.reduced)
    with b.tile(
        b.index(0), b.size(shape.reduced if full else extent_of(e.program.reduced)), shape.reduced, full
    ) as lane:

        def pieces() -> Iterator[None]:
            """Binds the row to each piece in turn; what was computed of it before is known again."""
            for number in range(shape.pieces):
                e.version = number
                bind_rows(e, reduced, b.add(lane, b.index(number * shape.reduced)))
                yield

        for reduces in e.program.levels:
            bind_results(e, reduces, Level(e, reduces).across(lane, pieces()))
        ends, along = _ends(e.program)
        for number, _ in enumerate(pieces()):
            store_roots(e, along if number else [*ends, *along], outputs)


def _in_blocks(e: Emitter, shape: ReductionShape, reduced: Sequence[Group], outputs: Sequence[Buffer]) -> None:
    """A pass a level, and one for the outputs along the row."""
    b = e.b
    zero, stop = b.index(0), b.size(extent_of(e.program.reduced))
    for reduces in e.program.levels:
        level = Level(e, reduces)
        bind_results(e, reduces, level.over(zero, stop, reduced, shape.reduced) if reduced else level.once())
    ends, along = _ends(e.program)
    store_roots(e, ends, outputs)
    if along:
        with b.loop(zero, stop, "vector", shape.reduced) as lane:
            bind_rows(e, reduced, lane)
            store_roots(e, along, outputs)


def _ends(program: Program) -> tuple[list[int], list[int]]:
    """The numbers of the outputs that are a value a row, and of the others."""
    kept = set(program.kept)
    ends = [n for n, root in enumerate(program.roots) if kept.issuperset(flatten(root.index))]
    return ends, [n for n in range(len(program.roots)) if n not in ends]
