"""Row programs: passes over one row, a level of reductions each, then the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ....fusion.index import Access, flatten
from ....fusion.program import Group, Program, extent_of
from ....ir.dim import ceil_div, make, product
from ....ir.node import Instr
from ..builder import KernelBuilder
from ..choice import Knobs
from ..ir import Buffer, Var
from ..unit import Unit
from .emit import Emitter
from .grid import BLOCK, BLOCKS, Blocks, bind_rows, extent, outer_task, rows_per_task, task_rows
from .inline import inline
from .loops import open_kernel, store_roots, work
from .monoid import identities
from .recompute import RowCache
from .steps import single_step


def row_unit(program: Program, name: str, knobs: Knobs) -> Unit:
    """Tasks are blocks of rows; lanes run along a row. Knob 'block': elements of a task."""
    e, outputs = open_kernel(program, name)
    kept, reduced = row_groups(program)
    row = extent_of(program.reduced)
    rows, step = product(map(extent, kept)), rows_per_task(row, knobs.take("block", BLOCK, BLOCKS))
    cache = RowCache(e)
    with task_rows(e.b, rows, step) as number:
        bind_rows(e, kept, number)
        if cache.always or not cache.first:
            _passes(e, outputs, reduced, cache)
        else:
            fits = e.b.compare(e.b.size(row), e.b.index(cache.longest), "LE")
            e.b.cond(
                fits, lambda: _passes(e, outputs, reduced, cache), lambda: _passes(e, outputs, reduced, cache, False)
            )
    passes = 1 + len(program.levels)
    cost = make("mul", make("mul", step, row), passes * work(program))
    return Unit((single_step(program, e.b.finish(ceil_div(rows, step), cost)),))


def _passes(
    e: Emitter, outputs: Sequence[Buffer], reduced: Sequence[Group], cache: RowCache, keep: bool = True
) -> tuple[Var, ...]:
    """All passes over the row; with `keep` later ones read what earlier ones computed."""
    cache.on = keep
    for level, reduces in enumerate(e.program.levels):
        cache.begin(level)
        bind_results(e, reduces, reduce_level(e, reduces, reduced, "vector", partial(cache.element, level)))
    cache.begin(len(e.program.levels))
    _store_rows(e, outputs, "vector")
    return ()


def lanes_unit(program: Program, name: str) -> Unit:
    """Lanes are rows next to each other; a serial loop runs along the row."""
    e, outputs = open_kernel(program, name)
    b = e.b
    kept, reduced = row_groups(program)
    size = max(256, BLOCK // 64)
    blocks = Blocks(extent(kept[-1]), size)
    outer, block = outer_task(e, kept[:-1], blocks, b.task)
    start, stop = blocks.bounds(b, block)
    with b.loop(start, stop, "vector") as i:
        e.bind(kept[-1], i)
        for reduces in program.levels:
            bind_results(e, reduces, reduce_level(e, reduces, reduced, "serial", lambda: None))
        _store_rows(e, outputs, "serial")
    cost = make("mul", extent_of(program.reduced), size * work(program))
    return Unit((single_step(program, b.finish(make("mul", outer, blocks.count), cost)),))


def row_groups(program: Program) -> tuple[list[Group], list[Group]]:
    """The groups that make a row, and those it runs over, in the order of the space."""
    groups = program.groups_of(program.space)
    kept = set(program.kept)
    return [g for g in groups if g[0] in kept], [g for g in groups if g[0] not in kept]


def bind_results(e: Emitter, reduces: Sequence[Instr], values: Sequence[Var]) -> None:
    """Deals the accumulators of a level out to its reduces."""
    position = 0
    for reduce in reduces:
        count = len(reduce.operands) // 2
        e.results[reduce] = partial(tuple, values[position : position + count])
        position += count


def combine_level(
    b: KernelBuilder, reduces: Sequence[Instr], accumulators: Sequence[Var], values: Sequence[Var]
) -> tuple[Var, ...]:
    """One step of each reduce: the new accumulators."""
    found: list[Var] = []
    for reduce in reduces:
        count, at = len(reduce.operands) // 2, len(found)
        args = (*accumulators[at : at + count], *values[at : at + count])
        with b.made_for(reduce.name):
            found.extend(inline(b, reduce.attrs["to_apply"], args))
    return tuple(found)


def level_sources(e: Emitter, reduces: Sequence[Instr]) -> tuple[list[Access], list[Access]]:
    """Accesses of the elements and of the initial values that the reduces of a level combine."""
    elements: list[Access] = []
    initial: list[Access] = []
    for reduce in reduces:
        found = e.program.reduce_sources(Access(reduce, ()))
        elements += found[: len(found) // 2]
        initial += found[len(found) // 2 :]
    return elements, initial


def level_identities(reduces: Sequence[Instr]) -> tuple[object, ...]:
    """The neutral element of each accumulator; all None where one is unknown."""
    found = [i for r in reduces for i in identities(r.attrs["to_apply"], len(r.operands) // 2)]
    return tuple(found) if all(i is not None for i in found) else (None,) * len(found)


def reduce_level(
    e: Emitter,
    reduces: Sequence[Instr],
    groups: Sequence[Group],
    kind: str,
    after: Callable[[], None],
    first: Sequence[Var] | None = None,
) -> tuple[Var, ...]:
    """One pass over the current row; `after` runs once an element, with the loop variables bound.

    Accumulators start from `first`, or from the initial values of the reduces.
    """
    b = e.b
    elements, initial = level_sources(e, reduces)

    def element(i: Var | None) -> list[Var]:
        if i is not None:
            e.bind(groups[-1], i)
        values = [e.value(x) for x in elements]
        after()
        return values

    def combine(*args: Var) -> tuple[Var, ...]:
        return combine_level(b, reduces, args[: len(elements)], args[len(elements) :])

    def nest(level: int, carried: Sequence[Var]) -> tuple[Var, ...]:
        start, stop = b.index(0), b.size(extent(groups[level]))
        if level == len(groups) - 1:
            return b.reduce(start, stop, carried, level_identities(reduces), element, combine, kind)

        def step(i: Var, *now: Var) -> tuple[Var, ...]:
            e.bind(groups[level], i)
            return nest(level + 1, now)

        return b.fold(start, stop, carried, step)

    first = [e.value(x) for x in initial] if first is None else first
    return nest(0, first) if groups else combine(*first, *element(None))


def _store_rows(e: Emitter, outputs: Sequence[Buffer], kind: str) -> None:
    """Stores outputs that are a value a row, and loops over the row for the others."""
    kept = set(e.program.kept)
    loops: dict[tuple[Group, ...], list[int]] = {}
    for number, root in enumerate(e.program.roots):
        groups = e.program.groups_of(flatten(root.index))
        loops.setdefault(tuple(g for g in groups if g[0] not in kept), []).append(number)
    for nest, numbers in loops.items():
        loop_nest(e, nest, kind, partial(store_roots, e, numbers, outputs))


def loop_nest(e: Emitter, groups: Sequence[Group], kind: str, body: Callable[[], None]) -> None:
    """Nested loops over `groups`, the innermost of the given kind."""
    if not groups:
        body()
        return
    inner = kind if len(groups) == 1 else "serial"
    with e.b.loop(e.b.index(0), e.b.size(extent(groups[0])), inner) as i:
        e.bind(groups[0], i)
        loop_nest(e, groups[1:], kind, body)
