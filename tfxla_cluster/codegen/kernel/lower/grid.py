"""How a space of loops is cut into tasks: rules on extents only, never on history or threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ....fusion.program import Group
from ....ir.dim import Dim, ceil_div, make, product
from ..builder import KernelBuilder
from ..ir import Var
from .emit import Emitter
from .space import delinearize

BLOCK = 32 * 1024  # elements of work a task
BLOCKS = tuple(1024 * n for n in (2, 8, 32, 128))  # that tuning tries


def extent(group: Group) -> Dim:
    return product(d.extent for d in group)


def at_least(dim: Dim, low: int) -> Dim:
    """max(dim, low)."""
    return make("max", dim, low)


def rows_per_task(row: Dim, work: int = BLOCK) -> Dim:
    """As many rows of `row` elements as make a block of work, at least one."""
    return at_least(make("floordiv", work, at_least(row, 1)), 1)


def minimum(b: KernelBuilder, x: Var, y: Var) -> Var:
    return b.op("minimum", x, y)


@contextmanager
def task_rows(b: KernelBuilder, rows: Dim, step: Dim) -> Iterator[Var]:
    """A loop over the rows of this task: `step` of `rows` rows, fewer in the last task."""
    if step == 1:
        yield b.task
        return
    start = b.mul(b.task, b.size(step))
    stop = minimum(b, b.add(start, b.size(step)), b.size(rows))
    with b.loop(start, stop) as row:
        yield row


def bind_rows(e: Emitter, groups: Sequence[Group], row: Var) -> None:
    """Binds groups to the digits of `row`, the row-major number over all of them."""
    for group, digit in zip(groups, delinearize(e.b, row, [extent(g) for g in groups])):
        e.bind(group, digit)


@dataclass(frozen=True)
class Blocks:
    """An extent in blocks of `size` elements (a number); `count` of them."""

    extent: Dim
    size: int

    @property
    def count(self) -> Dim:
        return ceil_div(self.extent, self.size)

    def bounds(self, b: KernelBuilder, block: Var) -> tuple[Var, Var]:
        """First element of block number `block`, and one past its last."""
        start = b.mul(block, b.index(self.size))
        return start, minimum(b, b.add(start, b.index(self.size)), b.size(self.extent))


def outer_task(e: Emitter, outer: Sequence[Group], blocks: Blocks, task: Var) -> tuple[Dim, Var]:
    """Binds the groups around `blocks` to a task's; gives their extent and the task's block."""
    count = product(map(extent, outer))
    if count == 1:
        return 1, task
    b = e.b
    bind_rows(e, outer, b.quotient(task, b.size(blocks.count)))
    return count, b.remainder(task, b.size(blocks.count))
