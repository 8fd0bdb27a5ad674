"""Column reductions: rows pass over accumulators of a tile of columns, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ....fusion.program import Group, Program, extent_of
from ....ir.dim import make, sample
from ....ir.node import Instr
from ..choice import Knobs
from ..ir import Buffer, Var
from ..unit import Unit
from .emit import Emitter
from .grid import Blocks, bind_rows, extent, outer_task
from .loops import open_kernel, store_roots, work
from .rows import combine_level, level_sources, row_groups
from .steps import single_step

TILE = 512  # columns whose accumulators stand in scratch
TILES = (64, 128, 256, 512, 1024, 2048)  # that tuning tries
UNROLL = 4  # rows folded in registers before the accumulators are written again
UNROLLS = (2, 4, 8)  # that tuning tries


def column_unit(program: Program, name: str, knobs: Knobs) -> Unit:
    """One kernel: a task is a tile of columns and all its rows, then what follows the reductions. Knobs: 'tile',
    columns of a task; 'unroll', rows folded at a time. They change no sum."""
    e, outputs = open_kernel(program, name)
    b, (kept, reduced) = e.b, row_groups(program)
    columns = column_tiles(kept[-1], knobs.take("tile", TILE, TILES))
    unroll = knobs.take("unroll", UNROLL, UNROLLS)
    outer, tile = outer_task(e, kept[:-1], columns, b.task)
    reduces = program.levels[0]
    _, initial = level_sources(e, reduces)
    first = [e.value(x) for x in initial]
    rows = extent_of(program.reduced)
    with_rows = (b.index(0), b.size(rows))
    totals = accumulate(e, reduces, reduced, kept[-1], columns, tile, with_rows, first, unroll)
    start, stop = columns.bounds(b, tile)
    with b.loop(start, stop, "vector") as i:
        e.bind(kept[-1], i)
        bind_totals(e, reduces, totals, b.op("subtract", i, start))
        store_roots(e, range(len(outputs)), outputs)
    cost = make("mul", rows, columns.size * work(program))
    return Unit((single_step(program, b.finish(make("mul", outer, columns.count), cost)),))


def column_tiles(group: Group, most: int = TILE) -> Blocks:
    """Tiles of `most` columns, no wider than the columns seen, so that narrow arrays take little scratch."""
    dim = extent(group)
    return Blocks(dim, min(most, max(8, -(-sample(dim) // 8) * 8)))


def accumulate(
    e: Emitter,
    reduces: Sequence[Instr],
    reduced: Sequence[Group],
    column: Group,
    columns: Blocks,
    tile: Var,
    rows: tuple[Var, Var],
    first: Sequence[Var],
    unroll: int = UNROLL,
) -> list[Buffer]:
    """Folds rows [rows) of a tile into scratch, `unroll` at a time; accumulators start from `first`."""
    b = e.b
    start, stop = columns.bounds(b, tile)
    totals = [b.scratch_buffer(value.dtype, columns.size) for value in first]
    with b.loop(start, stop, "vector") as i:
        for buffer, value in zip(totals, first):
            b.store(buffer, b.op("subtract", i, start), value)
    elements, _ = level_sources(e, reduces)

    def fold(numbers: Sequence[Var]) -> None:
        bound = [_bound_groups(e, reduced, number) for number in numbers]
        with b.loop(start, stop, "vector") as i:
            e.bind(column, i)
            place = b.op("subtract", i, start)
            now = tuple(b.load(buffer, place) for buffer in totals)
            for groups in bound:
                e.version += 1
                for group, value in groups:
                    e.bind(group, value)
                now = combine_level(b, reduces, now, [e.value(x) for x in elements])
            for buffer, value in zip(totals, now):
                b.store(buffer, place, value)

    _some_at_a_time(e, rows, unroll, fold)
    return totals


def _some_at_a_time(e: Emitter, rows: tuple[Var, Var], unroll: int, fold: Callable[[Sequence[Var]], None]) -> None:
    """Calls `fold` with `unroll` row numbers at a time, then one at a time."""
    b, (start, stop) = e.b, rows
    size = b.index(unroll)
    whole = b.quotient(b.op("subtract", stop, start), size)
    with b.loop(b.index(0), whole) as quad:
        base = b.add(start, b.mul(quad, size))
        fold([b.add(base, b.index(n)) for n in range(unroll)])
    with b.loop(b.add(start, b.mul(whole, size)), stop) as row:
        fold([row])


def _bound_groups(e: Emitter, groups: Sequence[Group], row: Var) -> list[tuple[Group, Var]]:
    bind_rows(e, groups, row)
    return [(g, e.bound(g)) for g in groups]


def bind_totals(e: Emitter, reduces: Sequence[Instr], totals: Sequence[Buffer], place: Var) -> None:
    """Results of the reduces: what scratch holds at `place`."""
    position = 0
    for reduce in reduces:
        count = len(reduce.operands) // 2
        buffers = totals[position : position + count]
        e.results[reduce] = partial(_loads, e, buffers, place)
        position += count


def _loads(e: Emitter, buffers: Sequence[Buffer], place: Var) -> tuple[Var, ...]:
    return tuple(e.b.load(buffer, place) for buffer in buffers)
