"""triangular-solve of real numbers on a GPU: a program a block of right-hand sides, by blocks of rows.

What the rows of a block have of those solved before is a product; within the block, which stays in registers, each row
that is solved is taken from the ones after it.
"""

from __future__ import annotations

from .....ir.dim import ceil_div
from .....ir.node import Instr
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import Unit
from ..linear_solve import System
from .shapes import lanes

ROWS = 32  # of a block
COLUMNS = 16  # right-hand sides of a program
DEPTH = 32  # of a product at a time
WARPS = 4


def solve_in_blocks(instr: Instr) -> Unit:
    """T y = c (`System`): y[I] = T[I, I]^-1 (c[I] - T[I, :I] y[:I]) by substitution."""
    b = KernelBuilder("triangular_solve")
    system = System(b, instr, COLUMNS)
    size = b.index(ROWS)
    with b.loop(b.index(0), b.size(ceil_div(system.n, ROWS))) as block:
        first = b.mul(block, size)
        stop = b.op("minimum", b.add(first, size), b.size(system.n))
        with b.tile(first, stop, ROWS) as step, b.tile(*system.columns, COLUMNS) as c:
            row = system.row(step)
            rest = b.op("subtract", system.right.load(row, c), _solved_before(b, system, row, c, first))
            system.solved.store(row, c, _substituted(b, system, (step, row), rest, (first, stop)))
    warps = WARPS if lanes(system.n, ROWS + 1) > ROWS else 1
    return system.unit(b.finish(system.tasks, system.cost, warps))


def _solved_before(b: KernelBuilder, system: System, row: Var, c: Var, count: Var) -> Var:
    """T[row, :count] y[:count, c], the first `count` steps."""
    left = b.region([row.dtype], lambda k: (system.table.load(row, system.row(k)),))
    right = b.region([row.dtype], lambda k: (system.solved.load(system.row(k), c),))
    return b.dot(system.table.dtype, b.index(0), count, left, right, depth=DEPTH, full=DEPTH == ROWS)


def _substituted(b: KernelBuilder, system: System, place: tuple[Var, Var], rest: Var, span: tuple[Var, Var]) -> Var:
    """The block's rows solved; `place`: the step and the row of a lane."""
    step, row = place
    zero = b.const(-0.0, rest.dtype)  # what adds nothing

    def solve(now: Var, rest: Var) -> tuple[Var]:
        pivot = system.row(now)
        own = b.compare(step, now, "EQ")
        mine = b.op("select", own, rest, zero, dtype=rest.dtype)
        (solved,) = b.across(step, (mine,), (zero,), (-0.0,), lambda x, y: (b.op("add", x, y),))
        if not system.unit_diagonal:
            solved = b.op("divide", solved, system.table.load(pivot, pivot))
        after = b.compare(step, now, "GT")
        factor = system.table.load(row, pivot, after)
        less = b.op("subtract", rest, b.op("multiply", factor, solved))
        rest = b.op("select", after, less, rest, dtype=rest.dtype)
        return (b.op("select", own, solved, rest, dtype=rest.dtype),)

    return b.fold(*span, (rest,), solve)[0]
