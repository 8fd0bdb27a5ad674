"""Reductions in two kernels: partial results of fixed parts of the rows, then their combination."""

from __future__ import annotations

from collections.abc import Sequence

from ....fusion.program import Group, Program, extent_of
from ....ir.dim import Dim, ceil_div, make, product
from ....ir.dtype import DType
from ....ir.node import Instr
from ..builder import KernelBuilder
from ..ir import Buffer, Kernel, Var
from ..unit import Unit, UnitKernel
from .columns import accumulate, column_tiles
from .emit import Emitter
from .grid import BLOCK, Blocks, bind_rows, extent, minimum, outer_task, rows_per_task
from .loops import open_kernel, store_roots, work
from .rows import bind_results, combine_level, level_identities, level_sources, reduce_level, row_groups
from .steps import operand_refs, result_refs, temp_refs


def can_split(program: Program) -> bool:
    """Partial results need neutral elements to start from."""
    return None not in level_identities(program.levels[0])


def staged_unit(program: Program, name: str) -> Unit:
    """Partial results stand in temporaries of shape [parts, rows kept]."""
    kept, _ = row_groups(program)
    minor_kept = bool(kept) and program.groups_of(program.space)[-1] is kept[-1]
    make_first = _column_parts if minor_kept else _row_parts
    first, parts = make_first(program, f"{name}.parts")
    second = _combine(program, f"{name}.total", parts)
    dtypes = accumulator_dtypes(program)
    rows = make("mul", parts, extent_of(program.kept))
    params, temps = operand_refs(program.params), temp_refs(len(dtypes))
    return Unit(
        (UnitKernel(first, params, temps), UnitKernel(second, (*params, *temps), result_refs(program))),
        tuple(make("mul", rows, d.itemsize) for d in dtypes),
    )


def accumulator_dtypes(program: Program) -> list[DType]:
    """Of each accumulator."""
    return [o.shape.element_type for r in program.levels[0] for o in r.operands[: len(r.operands) // 2]]


def open_parts(program: Program, name: str, multiple: int = 0) -> tuple[Emitter, list[Buffer], list[Var]]:
    """A builder with the parameters as inputs and partial results as outputs; their neutral elements."""
    b = KernelBuilder(name, multiple)
    buffers = {p: b.input(p.shape.element_type) for p in program.params}
    dtypes = accumulator_dtypes(program)
    outputs = [b.output(d) for d in dtypes]
    neutral = level_identities(program.levels[0])
    return Emitter(b, program, buffers), outputs, [b.const(v, d) for v, d in zip(neutral, dtypes)]


def _row_parts(program: Program, name: str) -> tuple[Kernel, Dim]:
    """A task is a part of one row: a block of its innermost loop, or some of its outer rows."""
    e, outputs, neutral = open_parts(program, name)
    b, (kept, reduced) = e.b, row_groups(program)
    reduces = program.levels[0]
    split, inner = ([reduced[-1]], []) if len(reduced) == 1 else (reduced[:-1], [reduced[-1]])
    size = rows_per_task(product(map(extent, inner)))
    total = product(map(extent, split))
    parts = ceil_div(total, size)
    rows = extent_of(program.kept)
    row, part = _row_and_part(e, kept, parts)
    start = b.mul(part, b.size(size))
    stop = minimum(b, b.add(start, b.size(size)), b.size(total))
    values = _reduce_range(e, reduces, split, inner, (start, stop), neutral)
    place = b.add(b.mul(part, b.size(rows)), row)
    for output, value in zip(outputs, values):
        b.store(output, place, value)
    return b.finish(make("mul", rows, parts), BLOCK * work(program)), parts


def _row_and_part(e: Emitter, kept: Sequence[Group], parts: Dim) -> tuple[Var, Var]:
    """The row (bound to the kept groups) and the part of it that a task does."""
    b = e.b
    if not kept:
        return b.index(0), b.task
    row = b.quotient(b.task, b.size(parts))
    bind_rows(e, kept, row)
    return row, b.remainder(b.task, b.size(parts))


def _reduce_range(
    e: Emitter,
    reduces: Sequence[Instr],
    split: Sequence[Group],
    inner: Sequence[Group],
    bounds: tuple[Var, Var],
    neutral: Sequence[Var],
) -> tuple[Var, ...]:
    """The reduces over rows [bounds) of the split groups, lanes along the innermost loop."""
    b = e.b
    elements, _ = level_sources(e, reduces)
    if inner:

        def step(number: Var, *now: Var) -> tuple[Var, ...]:
            bind_rows(e, split, number)
            values = reduce_level(e, reduces, inner, "vector", lambda: None, neutral)
            return combine_level(b, reduces, now, values)

        return b.fold(*bounds, neutral, step)

    def element(i: Var) -> list[Var]:
        e.bind(split[0], i)
        return [e.value(x) for x in elements]

    def combine(*args: Var) -> tuple[Var, ...]:
        return combine_level(b, reduces, args[: len(elements)], args[len(elements) :])

    return b.reduce(*bounds, neutral, level_identities(reduces), element, combine)


def _column_parts(program: Program, name: str) -> tuple[Kernel, Dim]:
    """A task is some rows of a tile of columns."""
    e, outputs, neutral = open_parts(program, name)
    b, (kept, reduced) = e.b, row_groups(program)
    columns = column_tiles(kept[-1])
    rows = Blocks(extent_of(program.reduced), max(16, BLOCK // columns.size // 4 * 4))
    tiles = make("mul", product(map(extent, kept[:-1])), columns.count)
    part = b.quotient(b.task, b.size(tiles))
    _, tile = outer_task(e, kept[:-1], columns, b.remainder(b.task, b.size(tiles)))
    totals = accumulate(e, program.levels[0], reduced, kept[-1], columns, tile, rows.bounds(b, part), neutral)
    start, stop = columns.bounds(b, tile)
    with b.loop(start, stop, "vector") as i:
        e.bind(kept[-1], i)
        place = b.add(b.mul(part, b.size(extent_of(program.kept))), e.number(program.kept))
        for total, output in zip(totals, outputs):
            b.store(output, place, b.load(total, b.op("subtract", i, start)))
    cost = rows.size * columns.size * work(program)
    return b.finish(make("mul", rows.count, tiles), cost), rows.count


def _combine(program: Program, name: str, parts: Dim) -> Kernel:
    """Folds the parts of each row in order (one row: in lanes), then computes the outputs."""
    e, outputs = open_kernel(program, name)
    b, reduces = e.b, program.levels[0]
    temps = [b.input(d) for d in accumulator_dtypes(program)]
    kept, _ = row_groups(program)
    _, initial = level_sources(e, reduces)
    first = [e.value(x) for x in initial]
    rows = extent_of(program.kept)

    def total(row: Var, kind: str) -> tuple[Var, ...]:
        def element(part: Var) -> list[Var]:
            return [b.load(t, b.add(b.mul(part, b.size(rows)), row)) for t in temps]

        def combine(*args: Var) -> tuple[Var, ...]:
            return combine_level(b, reduces, args[: len(temps)], args[len(temps) :])

        return b.reduce(b.index(0), b.size(parts), first, level_identities(reduces), element, combine, kind)

    if not kept:
        bind_results(e, reduces, total(b.index(0), "vector"))
        store_roots(e, range(len(outputs)), outputs)
        return b.finish(1, parts)
    inner = Blocks(extent(kept[-1]), 256)
    outer, tile = outer_task(e, kept[:-1], inner, b.task)
    with b.loop(*inner.bounds(b, tile), "vector") as i:
        e.bind(kept[-1], i)
        bind_results(e, reduces, total(e.number(program.kept), "serial"))
        store_roots(e, range(len(outputs)), outputs)
    return b.finish(make("mul", outer, inner.count), make("mul", parts, 256))
