"""What the emitter must know about a body before it writes the first line."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.opcode import FUNCTION, element_cost
from ..kernel.ir import Const, For, If, Kernel, Load, Op, Reduce, Size, Stmt, Store, Var, While
from ..kernel.walk import walk
from .formats import work_bits


def weight(body: Iterable[Stmt]) -> int:
    """A rough number of instructions."""
    return sum(
        20 if isinstance(s, Op) and element_cost(s.opcode) >= FUNCTION else 1
        for s in walk(body)
        if not isinstance(s, (Const, Size))
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
