"""Reductions: choice of the strategy, by the layout of the space and the sample sizes.

row     the innermost loop of the space is reduced: a task is some rows; one pass over the row a level.
lanes   few elements are reduced: rows run in lanes, a serial loop over the row inside.
column  the innermost loop is kept: accumulators of a tile of it stand in scratch, rows pass over them.
Where too few rows would occupy a machine, row and column reductions run in two kernels: partial
results of parts of the row, then their combination and what follows. Part sizes are fixed numbers, so
the order of operations depends on extents only.
"""

from __future__ import annotations

from ....fusion.program import Program, extent_of
from ....ir.dim import sample
from ..choice import Knobs
from ..unit import Unit
from .columns import column_unit
from .grid import extent
from .rows import lanes_unit, row_unit
from .staged import can_split, staged_unit

FEW = 32  # reduced elements up to which rows run in lanes
MIN_TASKS = 16
SPLIT_WORK = 64 * 1024  # elements from which two kernels pay


def lower_reduction(program: Program, name: str, knobs: Knobs) -> Unit:
    """Chooses among row, lane, column and staged kernels by the extents seen."""
    groups = program.groups_of(program.space)
    kept, reduced = sample(extent_of(program.kept)), sample(extent_of(program.reduced))
    if not groups or (not program.kept and not program.reduced):
        return row_unit(program, name, knobs)
    minor_kept = groups[-1][0] in program.kept
    simple = len(program.levels) == 1 and program.rows_only
    if simple and kept * reduced >= SPLIT_WORK and can_split(program):
        lanes = sample(extent(groups[-1])) if minor_kept else 1
        if kept // max(lanes, 1) < MIN_TASKS:
            return staged_unit(program, name)
    if (program.kept and reduced <= FEW and kept >= 8 * reduced) or (minor_kept and not simple):
        return lanes_unit(program, name)
    return column_unit(program, name, knobs) if minor_kept else row_unit(program, name, knobs)
