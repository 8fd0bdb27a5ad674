"""Loops, reductions and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.dtype import S64
from ..kernel.ir import For, If, Reduce, Var, While
from ..kernel.lanes import runs_in_lanes, varying_variables
from .analysis import lanes_for, weight
from .asm import Loop
from .emission import Emission
from .formats import register_type
from .operand import Reg
from .values import Value

# A reduction with a light body runs this many independent accumulators, to hide the latency of combine.
ACCUMULATORS = 4
# Light bodies are written twice, for whole registers and under a mask for a loop's end. Heavier ones cost
# more to compile than a mask in each iteration costs to run: they are written once.
LIGHT_BODY = 15


def emit_for(e: Emission, stmt: For) -> None:
    """In lanes where asked for and possible, else in order."""
    if stmt.kind == "vector" and e.width == 1:
        e.varying = varying_variables(stmt.body, [stmt.var])
        if runs_in_lanes(stmt.body, e.varying):
            _vector_for(e, stmt)
            return
        e.varying = set()
    _serial_for(e, stmt)


def _serial_for(e: Emission, stmt: For) -> None:
    wide = [e.width > 1 and v in e.varying for v in stmt.args]
    init = _flatten(e, stmt.init, wide)
    loop = e.asm.begin_loop(e.scalar(stmt.start), init)
    e.env[stmt.var] = Value(S64, (loop.index,))
    _bind(e, stmt.args, loop.args)
    e.block(stmt.body)
    outs = e.asm.end_loop(loop, e.scalar(stmt.stop), 1, _flatten(e, stmt.yields, wide))
    _bind(e, stmt.outs, outs)


def _flatten(e: Emission, variables: Sequence[Var], wide: Sequence[bool]) -> list[Reg]:
    """The registers of all variables in a row."""
    return [part for var, w in zip(variables, wide) for part in e.widened(var, w)]


def _bind(e: Emission, variables: Sequence[Var], parts: Sequence[Reg]) -> None:
    """The reverse: each variable takes its registers from the row."""
    at = 0
    for var in variables:
        count = 2 if var.dtype.kind == "complex" else 1
        e.env[var] = Value(var.dtype, tuple(parts[at : at + count]))
        at += count


def _vector_for(e: Emission, stmt: For) -> None:
    width = lanes_for(stmt.body, e.index_variables, e.target.vector_bits)
    start, stop = e.scalar(stmt.start), e.scalar(stmt.stop)
    if weight(stmt.body) > LIGHT_BODY:
        _masked_for(e, stmt, width, start, stop)
    else:
        whole = start + (_extent(e, start, stop) & -width)
        loop = e.asm.begin_loop(start)
        _lane_index(e, stmt.var, loop.index)
        with e.lanes(width):
            e.block(stmt.body)
        e.asm.end_loop(loop, whole, width)
        left = e.asm.cmp("slt", whole, stop)
        e.asm.begin_branch()
        _lane_index(e, stmt.var, whole)
        with e.lanes(width, stop - whole):
            e.block(stmt.body)
        e.asm.branch(left, e.asm.end_branch(), ())
    e.varying = set()


def _masked_for(e: Emission, stmt: For, width: int, start: Reg, stop: Reg) -> None:
    passes = e.asm.begin_loop(e.asm.literal("i64", 0))
    span = _span(e, passes.index, start, stop, width)
    loop = e.asm.begin_loop(span.start)
    _lane_index(e, stmt.var, loop.index)
    with e.lanes(width, span.count, span.full):
        e.block(stmt.body)
    e.asm.end_loop(loop, span.stop, width)
    e.asm.end_loop(passes, e.asm.literal("i64", 2), 1)


@dataclass(frozen=True)
class _Span:
    """What one of the two passes of a loop runs: iterations start .. stop, the first `count` lanes."""

    start: Reg
    stop: Reg
    count: Reg
    full: Reg


def _span(e: Emission, number: Reg, start: Reg, stop: Reg, width: int) -> _Span:
    """Pass 0 runs whole registers of lanes, pass 1 the rest: one copy of the code, masks outside the loop."""
    select = e.asm.select
    whole = start + (_extent(e, start, stop) & -width)
    full = e.asm.cmp("eq", number, 0)
    return _Span(select(full, start, whole), select(full, whole, stop), select(full, width, stop - whole), full)


def _extent(e: Emission, start: Reg, stop: Reg) -> Reg:
    """Iterations of a loop, 0 where stop lies before start."""
    return e.asm.intrinsic("llvm.smax", stop - start, 0)


def _lane_index(e: Emission, var: Var, first: Reg) -> None:
    e.env[var] = Value(S64, (first,), e.asm.literal("i64", 1))


def emit_reduce(e: Emission, stmt: Reduce) -> None:
    """In lanes where asked for and possible, else in order."""
    if stmt.kind == "vector" and e.width == 1:
        e.varying = varying_variables(stmt.body, [stmt.var]) | set(stmt.combine.args)
        e.varying |= varying_variables(stmt.combine.body, stmt.combine.args)
        if runs_in_lanes((*stmt.body, *stmt.combine.body), e.varying):
            _vector_reduce(e, stmt)
            e.varying = set()
            return
        e.varying = set()
    _serial_reduce(e, stmt)


def _serial_reduce(e: Emission, stmt: Reduce) -> None:
    count = len(stmt.outs)
    wide = [e.width > 1 and v in e.varying for v in stmt.combine.args[:count]]
    init = _flatten(e, stmt.init, wide)
    loop = e.asm.begin_loop(e.scalar(stmt.start), init)
    e.env[stmt.var] = Value(S64, (loop.index,))
    e.block(stmt.body)
    _bind(e, stmt.combine.args[:count], loop.args)
    _step(e, stmt)
    yields = _flatten(e, stmt.combine.results, wide)
    _bind(e, stmt.outs, e.asm.end_loop(loop, e.scalar(stmt.stop), 1, yields))


def _step(e: Emission, stmt: Reduce) -> None:
    """Writes combine, its accumulators bound already, with the body's values."""
    count = len(stmt.outs)
    for arg, value in zip(stmt.combine.args[count:], stmt.values):
        e.env[arg] = e.env[value]
    e.block(stmt.combine.body)


def _vector_reduce(e: Emission, stmt: Reduce) -> None:
    """Lanes and `unroll` accumulators fold apart, then in a fixed tree; the order follows from the extent.

    Iterations past the last whole block run a register at a time under a mask. Where no identity is known,
    a lane's first value starts its accumulator, so that `count` iterations leave min(count, width) lanes.
    """
    width = lanes_for((*stmt.body, *stmt.combine.body), e.index_variables, e.target.vector_bits)
    known = all(i is not None for i in stmt.identity)
    light = weight((*stmt.body, *stmt.combine.body)) <= LIGHT_BODY
    start, stop = e.scalar(stmt.start), e.scalar(stmt.stop)
    extent = _extent(e, start, stop)
    totals = _first_accumulators(e, stmt, width)
    if light:
        unroll = ACCUMULATORS if known else 1
        at = start + (extent & -(width * unroll))
        totals = _whole_registers(e, stmt, width, unroll, totals, at)
        rest = e.asm.begin_loop(at, totals)
        count = e.asm.intrinsic("llvm.smin", stop - rest.index, width)
        kept = _masked_step(e, stmt, width, rest, count, None, known)
        totals = list(e.asm.end_loop(rest, stop, width, kept))
    else:
        passes = e.asm.begin_loop(e.asm.literal("i64", 0), totals)
        span = _span(e, passes.index, start, stop, width)
        rest = e.asm.begin_loop(span.start, passes.args)
        kept = _masked_step(e, stmt, width, rest, span.count, span.full, known)
        inner = e.asm.end_loop(rest, span.stop, width, kept)
        totals = list(e.asm.end_loop(passes, e.asm.literal("i64", 2), 1, inner))
    _finish_reduce(e, stmt, width, totals, None if known else extent)


def _masked_step(
    e: Emission, stmt: Reduce, width: int, loop: Loop, count: Reg, full: Reg | None, known: bool
) -> list[Reg]:
    """The first `count` lanes of one register of iterations, folded into the loop's accumulators."""
    fresh = _fresh(e, loop.index, e.scalar(stmt.start), known)
    with e.lanes(width, count, full):
        folded = _accumulate(e, stmt, loop.index, loop.args, fresh)
        assert e.mask is not None
        return [e.asm.select(e.mask, f, a) for f, a in zip(folded, loop.args)]


def _whole_registers(e: Emission, stmt: Reduce, width: int, unroll: int, first: Sequence[Reg], whole: Reg) -> list[Reg]:
    """Folds blocks of `unroll` registers of iterations, up to `whole`, and merges the accumulators."""
    start, known = e.scalar(stmt.start), unroll > 1
    loop = e.asm.begin_loop(start, list(first) * unroll)
    yields: list[Reg] = []
    for number in range(unroll):
        accumulators = loop.args[number * len(first) : (number + 1) * len(first)]
        with e.lanes(width):
            at = loop.index + number * width
            yields += _accumulate(e, stmt, at, accumulators, _fresh(e, at, start, known))
    partial = e.asm.end_loop(loop, whole, width * unroll, yields)
    return _merge(e, stmt, width, partial, len(first))


def _first_accumulators(e: Emission, stmt: Reduce, width: int) -> list[Reg]:
    first: list[Reg] = []
    for var, identity in zip(stmt.init, stmt.identity):
        kind = register_type(var.dtype)
        number = 0 if identity is None else identity
        parts = (number.real, number.imag) if var.dtype.kind == "complex" else (number,)
        first += [e.asm.splat(e.asm.literal(kind, p), width) for p in parts]
    return first


def _fresh(e: Emission, index: Reg, start: Reg, known: bool) -> Reg | None:
    """Holds in the first iteration, where accumulators have no value yet; None where an identity is known."""
    return None if known else e.asm.cmp("eq", index, start)


def _accumulate(e: Emission, stmt: Reduce, index: Reg, accumulators: Sequence[Reg], fresh: Reg | None) -> list[Reg]:
    """One register of iterations from `index` on, folded into the accumulators."""
    _lane_index(e, stmt.var, index)
    e.block(stmt.body)
    _bind(e, stmt.combine.args[: len(stmt.outs)], accumulators)
    _step(e, stmt)
    wide = [True] * len(stmt.outs)
    folded = _flatten(e, stmt.combine.results, wide)
    if fresh is None:
        return folded
    return [e.asm.select(fresh, v, f) for v, f in zip(_flatten(e, stmt.values, wide), folded)]


def _merge(e: Emission, stmt: Reduce, width: int, parts: Sequence[Reg], count: int) -> list[Reg]:
    """Folds the unrolled accumulators pairwise into one set of `count` registers."""
    groups = [list(parts[at : at + count]) for at in range(0, len(parts), count)]
    while len(groups) > 1:
        groups = [combine(e, stmt, width, a, b) for a, b in zip(groups[::2], groups[1::2])]
    return groups[0]


def combine(e: Emission, stmt: Reduce, width: int, a: Sequence[Reg], b: Sequence[Reg]) -> list[Reg]:
    """The combine region on two sets of accumulators."""
    count = len(stmt.outs)
    _bind(e, stmt.combine.args[:count], a)
    _bind(e, stmt.combine.args[count:], b)
    with e.lanes(width):
        e.block(stmt.combine.body)
        return _flatten(e, stmt.combine.results, [width > 1] * count)


def _finish_reduce(e: Emission, stmt: Reduce, width: int, parts: Sequence[Reg], extent: Reg | None) -> None:
    """Folds the lanes of the accumulators and the initial value."""
    totals, lanes = list(parts), width
    while lanes > 1:
        totals, lanes = _fold(e, stmt, totals, lanes, extent), lanes // 2
    init = _flatten(e, stmt.init, [False] * len(stmt.init))
    outs = combine(e, stmt, 1, init, totals)
    if extent is not None:
        empty = e.asm.cmp("eq", extent, 0)
        outs = [e.asm.select(empty, i, o) for i, o in zip(init, outs)]
    _bind(e, stmt.outs, outs)


def _fold(e: Emission, stmt: Reduce, totals: Sequence[Reg], lanes: int, extent: Reg | None) -> list[Reg]:
    """The upper half of the lanes folded onto the lower, in registers of half the lanes.

    Registers that keep all lanes, the upper ones as they are, would do as well, but LLVM 22 moves lanes of two such
    folds side by side wrongly where there is AVX-512 (tests/codegen/test_side_by_side.py).
    """
    half = lanes // 2
    low, high = ([_part(e, total, start, half) for total in totals] for start in (0, half))
    folded = combine(e, stmt, half, low, high)
    if extent is None:
        return folded
    # Lane l holds a value where l < extent; so folding with lane l + half needs l + half < extent.
    used = e.asm.intrinsic("llvm.smin", extent, lanes) - half
    kind = f"i{max(8, min(64, e.target.vector_bits // lanes))}"
    numbers = e.asm.lane_numbers(kind, half) if half > 1 else e.asm.literal(kind, 0)
    valid = e.asm.cmp("slt", numbers, e.asm.cast("trunc", used, kind))
    return [e.asm.select(valid, f, t) for f, t in zip(folded, low)]


def _part(e: Emission, reg: Reg, start: int, lanes: int) -> Reg:
    return e.asm.extract(reg, start) if lanes == 1 else e.asm.shuffle(reg, range(start, start + lanes))


def emit_if(e: Emission, stmt: If) -> None:
    """Both sides as branches, whose results meet behind them."""
    cond = e.scalar(stmt.cond)
    wide = [e.width > 1 and v in e.varying for v in stmt.outs]
    chosen = []
    for region in (stmt.then, stmt.orelse):
        e.asm.begin_branch()
        e.block(region.body)
        chosen.append((_flatten(e, region.results, wide), e.asm.end_branch()))
    (first, then), (second, orelse) = chosen
    _bind(e, stmt.outs, e.asm.branch(cond, then, first, orelse, second))


def emit_while(e: Emission, stmt: While) -> None:
    """A loop whose test runs before each iteration."""
    wide = [e.width > 1 and v in e.varying for v in stmt.body.args]
    loop = e.asm.begin_while(_flatten(e, stmt.init, wide))
    _bind(e, stmt.cond.args, loop.args)
    e.block(stmt.cond.body)
    leave = e.asm.while_test(e.scalar(stmt.cond.results[0]))
    _bind(e, stmt.body.args, loop.args)
    e.block(stmt.body.body)
    _bind(e, stmt.outs, e.asm.end_while(loop, leave, _flatten(e, stmt.body.results, wide)))
