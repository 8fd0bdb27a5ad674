"""Loop kernels on a GPU: a program is a block of output elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....fusion.program import Group, Program
from .....ir.dim import Dim, make, product, sample
from ...choice import Knobs
from ...ir import Kernel, Var
from ..emit import Emitter
from ..grid import Blocks, bind_rows, extent
from ..loops import open_kernel, store_roots, work
from ..tiles import tile_group
from .shapes import BLOCK, BLOCKS, CROSSING, CROSSINGS, LEAST_BLOCK, MULTIPLE, WARPS, WIDE, block_warps, filling, lanes


def loop_kernel(program: Program, name: str, knobs: Knobs) -> Kernel:
    """One kernel over the space of the outputs, in blocks.

    One loop: blocks of it. More: blocks of the innermost one times rows of the others together, so that
    indices are taken apart once a row. Where an input runs along another loop than the output: both. Knobs: 'block',
    or the 'rows' and 'columns' of the latter; 'warps'.
    """
    groups = program.groups_of(program.space)
    e, outputs = open_kernel(program, name, MULTIPLE if _rows_begin_whole(groups) else 0)

    def store() -> None:
        store_roots(e, range(len(outputs)), outputs)

    if not groups:
        store()
        return e.b.finish(1, work(program))
    inner, crossing = groups[-1], tile_group(program, groups)
    if crossing is not None:
        outer = [g for g in groups[:-1] if g is not crossing]
        sides = [knobs.take(name, side, CROSSINGS) for name, side in zip(("rows", "columns"), CROSSING)]
        shape = (lanes(extent(crossing), sides[0]), lanes(extent(inner), sides[1]))
        return _block(e, outer, [crossing], inner, shape, store, knobs)
    default = filling(BLOCK, LEAST_BLOCK, sample(product(map(extent, groups))))
    block = knobs.take("block", default, BLOCKS)
    width = lanes(extent(inner), block)
    rows = lanes(product(map(extent, groups[:-1])), block // width)
    return _block(e, [], groups[:-1], inner, (rows, width), store, knobs, few=default < BLOCK)


def _rows_begin_whole(groups: Sequence[Group]) -> bool:
    """Whether rows of the output begin where accesses of several elements may.

    Where they do not, reads of several elements would be spread over the threads as the writes are not, and every
    value would go through shared memory.
    """
    rest = sample(extent(groups[-1])) % WIDE if groups else 0
    return len(groups) < 2 or rest == 0


def _block(
    e: Emitter,
    outer: Sequence[Group],
    rows: Sequence[Group],
    inner: Group,
    shape: tuple[int, int],
    store: Callable[[], None],
    knobs: Knobs,
    few: bool = False,
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
    elements = shape[0] * shape[1]
    return b.finish(tasks, elements * work(e.program), knobs.take("warps", block_warps(elements, few), WARPS))


def _split(e: Emitter, number: Var, count: Dim) -> tuple[Var, Var]:
    """The place of `number` among `count`, and the number of the round."""
    b = e.b
    if count == 1:
        return b.index(0), number
    size = b.size(count)
    return b.remainder(number, size), b.quotient(number, size)
