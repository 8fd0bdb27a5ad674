"""Reductions in two kernels on a GPU: partial results of fixed parts of the rows, then their combination."""

from __future__ import annotations

from .....fusion.program import Program, extent_of
from .....ir.dim import Dim, make, sample
from ...ir import Kernel, Var
from ...unit import Unit, UnitKernel
from ..grid import Blocks
from ..loops import open_kernel, store_roots, work
from ..rows import bind_results, combine_level, level_identities, level_sources, row_groups
from ..staged import accumulator_dtypes, open_parts
from ..steps import operand_refs, result_refs, temp_refs
from .level import Level
from .rows import program_rows, programs
from .shapes import BLOCK, COMBINE_WARPS, LOOPED, MULTIPLE, ReductionShape, fits, lanes, reduction_warps


def staged_unit(program: Program, name: str, shape: ReductionShape, count: int) -> Unit:
    """Partial results stand in temporaries of shape [parts, rows kept]: some `count` programs make them."""
    kept, _ = row_groups(program)
    row = extent_of(program.reduced)
    wanted = max(1, count // max(1, sample(programs(kept, shape))))
    size = -(-sample(row) // (wanted * shape.reduced)) * shape.reduced
    parts = Blocks(row, size)
    first = _parts(program, f"{name}.parts", shape, parts)
    second = _combine(program, f"{name}.total", parts.count)
    dtypes = accumulator_dtypes(program)
    held = make("mul", parts.count, extent_of(program.kept))
    params, temps = operand_refs(program.params), temp_refs(len(dtypes))
    return Unit(
        (UnitKernel(first, params, temps), UnitKernel(second, (*params, *temps), result_refs(program))),
        tuple(make("mul", held, d.itemsize) for d in dtypes),
    )


def _parts(program: Program, name: str, shape: ReductionShape, parts: Blocks) -> Kernel:
    """A program is a part of some rows; programs that follow each other have neighbouring rows."""
    e, outputs, neutral = open_parts(program, name, MULTIPLE)
    b, (kept, reduced) = e.b, row_groups(program)
    count = programs(kept, shape)
    part = b.quotient(b.task, b.size(count))
    with program_rows(e, kept, shape, b.remainder(b.task, b.size(count))):
        values = Level(e, program.levels[0]).over(*parts.bounds(b, part), reduced, shape.reduced, neutral)
        place = b.add(b.mul(part, b.size(extent_of(program.kept))), e.number(program.kept))
        for output, value in zip(outputs, values):
            b.store(output, place, value)
    return b.finish(make("mul", count, parts.count), parts.size * shape.kept * work(program), shape.warps)


def _combine(program: Program, name: str, parts: Dim) -> Kernel:
    """Folds the parts of each row, then computes the outputs."""
    e, outputs = open_kernel(program, name, MULTIPLE)
    b, reduces = e.b, program.levels[0]
    temps = [b.input(d) for d in accumulator_dtypes(program)]
    kept, _ = row_groups(program)
    _, initial = level_sources(e, reduces)
    first, identity = [e.value(x) for x in initial], level_identities(reduces)
    rows = extent_of(program.kept)
    width = lanes(parts, LOOPED)
    held, resident = lanes(rows, max(BLOCK // width, 1)), fits(parts, width)
    warps = max(reduction_warps(held, width, resident), COMBINE_WARPS)
    shape = ReductionShape(held, width, False, resident, warps)

    def element(part: Var) -> list[Var]:
        place = b.add(b.mul(part, b.size(rows)), e.number(program.kept))
        return [b.load(t, place) for t in temps]

    def combine(*args: Var) -> tuple[Var, ...]:
        return combine_level(b, reduces, args[: len(temps)], args[len(temps) :])

    with program_rows(e, kept, shape, b.task):
        values = b.reduce(b.index(0), b.size(parts), first, identity, element, combine, "vector", width)
        bind_results(e, reduces, values)
        store_roots(e, range(len(outputs)), outputs)
    return b.finish(programs(kept, shape), make("mul", parts, shape.kept), shape.warps)
