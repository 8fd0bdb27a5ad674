"""Values of a row that a later pass needs again: kept in scratch where computing them twice costs more."""

from __future__ import annotations

from collections.abc import Callable

from ....fusion.index import Access, Digit, Index, Splitter
from ....fusion.moves import sources
from ....fusion.program import Program, extent_of
from ....ir.opcode import element_cost
from ....ir.polynomial import bounds, polynomial
from ..ir import Buffer, Var
from .emit import Emitter

MAX_ROW = 32 * 1024  # elements of a row kept in scratch
COSTLY = 4  # scalar operations from which a value is kept


class RowCache:
    """Plans what to keep. `begin(n)` stands before pass n, `element(n)` in its loop, once an element. `longest`: of
    rows that are kept; `always`: there are no longer ones. Values are kept while it is `on`."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.on = True
        self.first: dict[Access, int] = {}
        self.buffers: dict[Access, Buffer] = {}
        low, high = bounds(polynomial(extent_of(e.program.reduced)))
        self.always, self.longest = high <= MAX_ROW, int(min(high, MAX_ROW))
        if high > 0 and low <= MAX_ROW:
            self.first = _choose(e.program)
            kept = {a: a.instr.shape.element_type for a in self.first}
            self.buffers = {a: e.b.scratch_buffer(dtype, self.longest) for a, dtype in kept.items()}

    def begin(self, number: int) -> None:
        """Later passes read what earlier ones kept."""
        if not self.on:
            self.e.replaced.clear()
            return
        for access, first in self.first.items():
            if first < number:
                self.e.replaced[access] = self._reader(self.buffers[access])

    def element(self, number: int) -> None:
        """Stores the values that this pass is the first to compute."""
        for access, first in self.first.items():
            if self.on and first == number:
                place = self.e.number(self.e.program.reduced)
                self.e.b.store(self.buffers[access], place, self.e.value(access))

    def _reader(self, buffer: Buffer) -> Callable[[], Var]:
        return lambda: self.e.b.load(buffer, self.e.number(self.e.program.reduced))


def _choose(program: Program) -> dict[Access, int]:
    """The accesses to keep, each with the first pass that computes it."""
    passes = [_elements(program, starts) for starts in _starts(program)]
    first: dict[Access, int] = {}
    chosen: dict[Access, int] = {}
    for number, (order, cost) in enumerate(passes):
        tops = [a for a in order if first.get(a, number) < number]
        inside = {s for a in tops for s in _below(program, a)}
        for access in tops:
            if access not in inside and cost[access] >= COSTLY:
                chosen[access] = first[access]
        for access in order:
            first.setdefault(access, number)
    return chosen


def _starts(program: Program) -> list[list[Access]]:
    """What each pass computes an element: a level's operands, then the outputs along the row."""
    found = [[s for r in level for s in program.reduce_sources(Access(r, ()))] for level in program.levels]
    return [*found, list(program.roots)]


def _below(program: Program, access: Access) -> tuple[Access, ...]:
    return () if access.instr.opcode in ("reduce", "get-tuple-element") else sources(access, Splitter())


def _elements(program: Program, starts: list[Access]) -> tuple[list[Access], dict[Access, int]]:
    """The accesses along the row that a pass makes, sources first, and the operations each costs."""
    cost: dict[Access, int] = {}
    stack = [(a, False) for a in starts]
    while stack:
        access, ready = stack.pop()
        if access in cost:
            continue
        below = list(_below(program, access))
        if ready:
            cost[access] = element_cost(access.instr.opcode) + sum(cost[s] for s in below)
        else:
            stack.append((access, True))
            stack.extend((s, False) for s in below)
    plain = set(program.reduced)
    along = [a for a in cost if not a.mask and plain <= _digits(a.index)]
    return along, cost


def _digits(index: Index) -> set[object]:
    """The digits that stand in an index uncomputed."""
    return {atom for seq in index for atom in seq if isinstance(atom, Digit)}
