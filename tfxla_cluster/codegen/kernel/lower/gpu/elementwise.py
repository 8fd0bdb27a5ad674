"""Loop kernels on a GPU: a program is a block of output elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....fusion.program import Group, Program
from .....ir.dim import Dim, make, product, sample
from .....ir.dtype import S64, U32
from .....ir.size_proofs import at_most, divides
from ...builder import KernelBuilder
from ...choice import Knobs
from ...ir import Kernel, Var
from ..emit import Emitter
from ..grid import Blocks, bind_rows, extent
from ..loops import open_kernel, store_roots, work
from ..space import digits
from ..tiles import tile_group
from .shapes import (
    BLOCK,
    BLOCKS,
    BUSY,
    CROSSING,
    CROSSINGS,
    LEAST_BLOCK,
    MULTIPLE,
    OF_A_WARP,
    OF_A_WARP_SOONER,
    WARPS,
    WIDE,
    block_warps,
    filling,
    lanes,
    narrow,
)

_NEAR = 1 << 31  # elements of a row: with those of a block they are numbers of 32 bits


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
    busy = BUSY if narrow(program) else 1
    default = filling(BLOCK * busy, LEAST_BLOCK, sample(product(map(extent, groups))))
    block = knobs.take("block", default, BLOCKS)
    each = OF_A_WARP * busy if default == BLOCK * busy else OF_A_WARP_SOONER
    if _may_be_flat(groups, default) and knobs.take("flat", int(not _rows_begin_whole(groups)), (0, 1)):
        return _flat(e, groups, block, store, knobs, each)
    width = lanes(extent(inner), block)
    rows = lanes(product(map(extent, groups[:-1])), block // width)
    return _block(e, [], groups[:-1], inner, (rows, width), store, knobs, each)


def _rows_begin_whole(groups: Sequence[Group]) -> bool:
    """Whether rows of the output begin where accesses of several elements may.

    Where they do not, reads of several elements would be spread over the threads as the writes are not, and every
    value would go through shared memory.
    """
    return len(groups) < 2 or divides(WIDE, extent(groups[-1]))


def _may_be_flat(groups: Sequence[Group], block: int) -> bool:
    """Whether rows are cut into blocks badly, and taking a number apart costs little: in 32 bits, by constants, or
    where rows are proven so long that a block has no more than two."""
    extents = [extent(group) for group in groups]
    inner = extents[-1]
    known = all(at_most(1, dim) for dim in extents) and at_most(inner, _NEAR - 1)
    costs_little = isinstance(inner, int) or at_most(block, inner)
    return known and len(groups) > 1 and not divides(block, inner) and costs_little


def _flat(
    e: Emitter, groups: Sequence[Group], block: int, store: Callable[[], None], knobs: Knobs, each: int
) -> Kernel:
    """Programs have blocks of elements as they lie in memory, whatever rows these are of: what is written, and what is
    read in the same order, begins at whole accesses."""
    b, inner = e.b, extent(groups[-1])
    blocks = Blocks(product(map(extent, groups)), block)
    start, stop = blocks.bounds(b, b.task)
    width = b.number(inner)
    first = b.quotient(start, width)
    with b.tile(start, stop, block, full=divides(block, blocks.extent)) as number:
        near = b.op("convert", b.op("subtract", number, b.mul(first, width)), dtype=U32)
        row, column = _taken_apart(b, near, inner, block)
        for group, digit in zip(groups, digits(b, b.add(first, row), [extent(g) for g in groups[:-1]])):
            e.bind(group, digit)
        e.bind(groups[-1], column)
        e.bind_run(e.program.space, number)
        store()
    return b.finish(blocks.count, block * work(e.program), knobs.take("warps", block_warps(block, each), WARPS))


def _taken_apart(b: KernelBuilder, near: Var, inner: Dim, block: int) -> tuple[Var, Var]:
    """The row and column of element `near`, counted from the first row of a block."""
    if isinstance(inner, int):
        parts = [b.op(op, near, b.const(inner, U32), index=True) for op in ("divide", "remainder")]
    else:  # of two rows
        short = b.op("convert", b.size(inner), dtype=U32)
        is_next = b.op("convert", b.compare(near, short, "GE"), dtype=U32)
        parts = [is_next, b.op("subtract", near, b.op("multiply", is_next, short))]
    row, column = (b.op("convert", part, dtype=S64) for part in parts)
    return row, column


def _block(
    e: Emitter,
    outer: Sequence[Group],
    rows: Sequence[Group],
    inner: Group,
    shape: tuple[int, int],
    store: Callable[[], None],
    knobs: Knobs,
    each: int = OF_A_WARP,
) -> Kernel:
    """Programs that follow each other go along the innermost loop, then along the rows, then the others. `each`:
    elements of a warp."""
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
    return b.finish(tasks, elements * work(e.program), knobs.take("warps", block_warps(elements, each), WARPS))


def _split(e: Emitter, number: Var, count: Dim) -> tuple[Var, Var]:
    """The place of `number` among `count`, and the number of the round."""
    b = e.b
    if count == 1:
        return b.index(0), number
    size = b.size(count)
    return b.remainder(number, size), b.quotient(number, size)
