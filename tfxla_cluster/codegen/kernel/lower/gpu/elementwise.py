"""Loop kernels on a GPU: a program is a block of output elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....fusion.program import Group, Program
from .....ir.dim import Dim, make, product
from ...ir import Kernel, Var
from ..emit import Emitter
from ..grid import Blocks, bind_rows, extent
from ..loops import open_kernel, store_roots, work
from ..tiles import tile_group
from .shapes import BLOCK, CROSSING, CROSSING_WARPS, MULTIPLE, lanes


def loop_kernel(program: Program, name: str) -> Kernel:
    """One kernel over the space of the outputs, in blocks.

    One loop: blocks of it. More: blocks of the innermost one times rows of the others together, so that
    indices are taken apart once a row. Where an input runs along another loop than the output: both.
    """
    e, outputs = open_kernel(program, name, MULTIPLE)
    groups = program.groups_of(program.space)

    def store() -> None:
        store_roots(e, range(len(outputs)), outputs)

    if not groups:
        store()
        return e.b.finish(1, work(program))
    inner, crossing = groups[-1], tile_group(program, groups)
    if crossing is not None:
        outer = [g for g in groups[:-1] if g is not crossing]
        shape = (lanes(extent(crossing), CROSSING[0]), lanes(extent(inner), CROSSING[1]))
        return _block(e, outer, [crossing], inner, shape, store, CROSSING_WARPS if shape == CROSSING else 0)
    width = lanes(extent(inner), BLOCK)
    rows = lanes(product(map(extent, groups[:-1])), BLOCK // width)
    return _block(e, [], groups[:-1], inner, (rows, width), store)


def _block(
    e: Emitter,
    outer: Sequence[Group],
    rows: Sequence[Group],
    inner: Group,
    shape: tuple[int, int],
    store: Callable[[], None],
    warps: int = 0,
) -> Kernel:
    """Programs that follow each other go along the innermost loop, then along the rows, then the others."""
    b = e.b
    across, down = Blocks(extent(inner), shape[1]), Blocks(product(map(extent, rows)), shape[0])
    column, task = _split(e, b.task, across.count)
    row, task = _split(e, task, down.count)
    bind_rows(e, outer, task)
    with ExitStack() as tiles:
        if shape[0] > 1:
            row = tiles.enter_context(b.tile(*down.bounds(b, row), down.size))
        bind_rows(e, rows, row)
        e.bind(inner, tiles.enter_context(b.tile(*across.bounds(b, column), across.size)))
        store()
    tasks = make("mul", product(map(extent, outer)), make("mul", down.count, across.count))
    return b.finish(tasks, shape[0] * shape[1] * work(e.program), warps)


def _split(e: Emitter, number: Var, count: Dim) -> tuple[Var, Var]:
    """The place of `number` among `count`, and the number of the round."""
    b = e.b
    if count == 1:
        return b.index(0), number
    size = b.size(count)
    return b.remainder(number, size), b.quotient(number, size)
