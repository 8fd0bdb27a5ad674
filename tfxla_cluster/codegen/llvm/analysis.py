"""What the emitter must know about a body before it writes the first line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..kernel.ir import Const, For, If, Kernel, Load, Op, Reduce, Size, Stmt, Store, Var, While
from .formats import work_bits

# Opcodes that expand to some tens of instructions; the others count as one.
_HEAVY = frozenset(
    (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cosh",
        "cosine",
        "erf",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "power",
        "remainder",
        "sine",
        "sinh",
        "tan",
        "tanh",
    )
)


def nested(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists inside a statement."""
    if isinstance(stmt, For):
        return (stmt.body,)
    if isinstance(stmt, Reduce):
        return stmt.body, stmt.combine.body
    if isinstance(stmt, If):
        return stmt.then.body, stmt.orelse.body
    if isinstance(stmt, While):
        return stmt.cond.body, stmt.body.body
    return ()


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, nested ones too, in order."""
    for stmt in body:
        yield stmt
        for inner in nested(stmt):
            yield from walk(inner)


def weight(body: Iterable[Stmt]) -> int:
    """A rough number of instructions."""
    return sum(
        20 if isinstance(s, Op) and s.opcode in _HEAVY else 1 for s in walk(body) if not isinstance(s, (Const, Size))
    )


def index_variables(kernel: Kernel) -> set[Var]:
    """Variables that take part in offsets and bounds only; the others are data."""
    uses: dict[Var, list[Var]] = {}
    data: set[Var] = set()
    for stmt in walk(kernel.body):
        if isinstance(stmt, Op):
            for operand in stmt.operands:
                uses.setdefault(operand, []).append(stmt.out)
        elif isinstance(stmt, Store):
            data.add(stmt.value)
        elif isinstance(stmt, (For, Reduce, If, While)):
            data.update(_passed(stmt))
        elif isinstance(stmt, Load):
            data.add(stmt.out)
            data.update(() if stmt.other is None else (stmt.other,))
    producers = {s.out: s for s in walk(kernel.body) if isinstance(s, Op)}
    stack = list(data)
    while stack:
        producer = producers.get(stack.pop())
        for operand in producer.operands if producer else ():
            if operand not in data:
                data.add(operand)
                stack.append(operand)
    return {v for v in (*uses, *producers) if v not in data}


def _passed(stmt: Stmt) -> tuple[Var, ...]:
    """Variables handed through a structured statement: carried, reduced, results."""
    if isinstance(stmt, For):
        return (*stmt.init, *stmt.args, *stmt.yields)
    if isinstance(stmt, Reduce):
        return (*stmt.values, *stmt.init, *stmt.combine.args, *stmt.combine.results)
    if isinstance(stmt, If):
        return (*stmt.then.results, *stmt.orelse.results)
    if isinstance(stmt, While):
        return (*stmt.init, *stmt.body.results)
    return ()


def lanes_for(body: Iterable[Stmt], indices: set[Var], vector_bits: int) -> int:
    """Lanes of a vector loop: a register full of the widest data type that the body computes with."""
    widest = 8
    for stmt in walk(body):
        if isinstance(stmt, (Op, Load)) and stmt.out not in indices:
            widest = max(widest, work_bits(stmt.out.dtype))
            if isinstance(stmt, Op):
                widest = max([widest, *(work_bits(v.dtype) for v in stmt.operands if v not in indices)])
        elif isinstance(stmt, Store):
            widest = max(widest, work_bits(stmt.buffer.dtype))
    return max(vector_bits // widest, 2)


def varying_variables(body: Iterable[Stmt], seeds: Iterable[Var]) -> set[Var]:
    """Variables of `body` whose value may differ between lanes when those of `seeds` do."""
    varying = set(seeds)
    size = -1
    while size != len(varying):
        size = len(varying)
        _spread(body, varying)
    return varying


def _spread(body: Iterable[Stmt], varying: set[Var]) -> None:
    """One pass of the data flow: adds what depends on `varying`."""
    for stmt in body:
        if isinstance(stmt, Op) and not varying.isdisjoint(stmt.operands):
            varying.add(stmt.out)
        elif isinstance(stmt, Load):
            inputs = {stmt.offset, stmt.mask, stmt.other}
            if not varying.isdisjoint(inputs):
                varying.add(stmt.out)
        elif isinstance(stmt, For):
            _link(varying, zip(stmt.init, stmt.args), zip(stmt.yields, stmt.args))
            _spread(stmt.body, varying)
            _link(varying, zip(stmt.yields, stmt.outs), zip(stmt.init, stmt.outs))
        elif isinstance(stmt, Reduce):
            _spread(stmt.body, varying)
            count = len(stmt.outs)
            args, results = stmt.combine.args, stmt.combine.results
            _link(varying, zip(stmt.init, args[:count]), zip(stmt.values, args[count:]))
            _spread(stmt.combine.body, varying)
            _link(varying, zip(results, args[:count]), zip(results, stmt.outs), zip(stmt.init, stmt.outs))
        elif isinstance(stmt, If):
            for region in (stmt.then, stmt.orelse):
                _spread(region.body, varying)
                _link(varying, zip(region.results, stmt.outs))
        elif isinstance(stmt, While):
            args, results = (*stmt.cond.args, *stmt.body.args), (*stmt.body.results, *stmt.body.results)
            _link(varying, zip((*stmt.init, *stmt.init), args), zip(results, args))
            _spread(stmt.cond.body, varying)
            _spread(stmt.body.body, varying)
            _link(varying, zip(stmt.init, stmt.outs), zip(stmt.body.results, stmt.outs))


def _link(varying: set[Var], *pairs: Iterable[tuple[Var, Var]]) -> None:
    for group in pairs:
        varying.update(target for source, target in group if source in varying)


def runs_in_lanes(body: Iterable[Stmt], varying: set[Var]) -> bool:
    """False where control flow inside depends on the lane: such a loop runs one iteration at a time."""
    for stmt in walk(body):
        if isinstance(stmt, (For, Reduce)) and (stmt.start in varying or stmt.stop in varying):
            return False
        if isinstance(stmt, If) and stmt.cond in varying:
            return False
        if isinstance(stmt, While) and stmt.cond.results[0] in varying:
            return False
    return True
