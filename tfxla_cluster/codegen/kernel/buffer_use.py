"""How a kernel uses its buffers, read off its statements: what the buffer assigner may do with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .ir import Buffer, Kernel, Load, Product, Stmt, Store, TritonCall, Var
from .lane_ir import Update
from .walk import nested, walk


def read_inputs(kernel: Kernel) -> frozenset[int]:
    """Numbers of the 'in' buffers that some statement reads: lowering passes all operands, an in-place
    update reads few of them."""
    found: set[int] = set()
    for stmt in walk(kernel.body):
        if isinstance(stmt, Load):
            used = [stmt.buffer]
        elif isinstance(stmt, Product):
            used = [stmt.a, stmt.b]
        elif isinstance(stmt, TritonCall):
            used = [a for _, a in stmt.arguments if isinstance(a, Buffer)]
        else:
            continue
        found.update(b.index for b in used if b.role == "in")
    return frozenset(found)


def overwritable(kernel: Kernel) -> frozenset[tuple[int, int]]:
    """Pairs (input, output) that may be one buffer: every element is read, in one block of statements,
    before the same element (the same offset variable, equal element sizes) is written, and nothing
    else touches either. A kernel stores each element of an output that it does not read once."""
    uses: dict[tuple[str, int], _Use] = {}
    for block, position, stmt in _positions(kernel.body):
        for buffer, offset in _accesses(stmt):
            use = uses.setdefault((buffer.role, buffer.index), _Use(buffer))
            use.add(block, position, offset, isinstance(stmt, Store))
    inputs = [u for (role, _), u in uses.items() if role == "in" and u.is_plain]
    outputs = [u for (role, _), u in uses.items() if role == "out" and u.is_plain and u.only_stores]
    return frozenset((i.buffer.index, o.buffer.index) for i in inputs for o in outputs if i.may_become(o))


@dataclass
class _Use:
    """Where a buffer is accessed: blocks, offsets (None: many at a time), first and last position."""

    buffer: Buffer
    blocks: set[int] = field(default_factory=set)
    offsets: set[Var | None] = field(default_factory=set)
    first: int = -1
    last: int = -1
    only_stores: bool = True

    def add(self, block: int, position: int, offset: Var | None, is_store: bool) -> None:
        self.blocks.add(block)
        self.offsets.add(offset)
        self.first = position if self.first < 0 else self.first
        self.last = position
        self.only_stores &= is_store

    @property
    def is_plain(self) -> bool:
        return len(self.blocks) == 1 and len(self.offsets) == 1 and None not in self.offsets

    def may_become(self, output: _Use) -> bool:
        return (
            (self.blocks, self.offsets) == (output.blocks, output.offsets)
            and self.buffer.dtype.itemsize == output.buffer.dtype.itemsize
            and self.last < output.first
        )


def _positions(body: Iterable[Stmt]) -> Iterator[tuple[int, int, Stmt]]:
    """(block, position in it, statement); blocks are numbered by the identity of their tuples."""
    pending = [tuple(body)]
    while pending:
        block = pending.pop()
        for position, stmt in enumerate(block):
            yield id(block), position, stmt
            pending.extend(nested(stmt))


def _accesses(stmt: Stmt) -> list[tuple[Buffer, Var | None]]:
    if isinstance(stmt, (Load, Store)):
        return [(stmt.buffer, stmt.offset)]
    if isinstance(stmt, Update):
        return [(stmt.buffer, None)]
    if isinstance(stmt, Product):
        return [(stmt.a, None), (stmt.b, None), (stmt.c, None)]
    if isinstance(stmt, TritonCall):
        return [(a, None) for _, a in stmt.arguments if isinstance(a, Buffer)]
    return []
