"""Values that are cheaper to compute again in each kernel that reads them than to write and read.

What such a value is computed from (the leaves) is then read instead. Leaves that several values of a kernel share are
counted in parts: of gelu's four factors, that its gradient reads, none alone is worth the sum that all are made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.node import Instr
from ..ir.opcode import SLOW, element_cost, is_elementwise
from .cost import bytes_of, elements_of
from .graph import Graph
from .group_order import Group, Order
from .kernel_rules import KernelRules
from .legality import HEROES

_KINDS = ("loop", "row", "hero")
_MOST_AGAIN = 3  # times `max_again` of one value's chain: computing more takes longer than reading what it gives
Members = dict[Instr, None]


@dataclass(frozen=True)
class _Candidate:
    """A value, the kernels that read it, what they would compute and what they would read for it."""

    value: Instr
    readers: tuple[Group, ...]
    chain: Members
    leaves: tuple[Instr, ...]


class Recomputation:
    """Of one computation, once its groups are made. `handed`: of each group the members that kernels computing values
    of it again read."""

    def __init__(
        self, graph: Graph, order: Order, rules: KernelRules, record: Callable[[dict[str, Any]], None]
    ) -> None:
        self.graph, self.order, self.rules, self.record = graph, order, rules, record
        self.handed: dict[Group, Members] = {}
        self._gone: set[Instr] = set()  # values that leave their kernel no more

    def run(self) -> None:
        for group in self.order.groups():
            if group.kind not in _KINDS:
                continue
            found = [c for value in list(group.members) if (c := self._candidate(value, group)) is not None]
            shares = Counter(leaf for c in found for leaf in c.leaves)
            for candidate in reversed(found):  # what others are made of comes after them
                if candidate.value in self.handed.get(group, ()):
                    continue
                if self._saves(candidate, group, shares) and self._may(candidate, group):
                    self._apply(candidate, group)

    def _candidate(self, value: Instr, group: Group) -> _Candidate | None:
        """None where the value or all that it takes is dear, where it leaves the computation or is read by something
        that computes nothing."""
        readers = dict.fromkeys(self.order.group[u] for u in self.graph.users[value])
        readers.pop(group, None)
        if not readers or value is self.graph.comp.root or not self._cheap(value):
            return None
        if any(r.kind not in _KINDS or self._feeds(value, r) for r in readers):
            return None
        chain, leaves = self._chain(value, group)
        dear = sum(cost for instr in chain if (cost := element_cost(instr.opcode)) >= SLOW)
        if dear > _MOST_AGAIN * self._dearest():
            return None
        return _Candidate(value, tuple(readers), chain, tuple(leaves))

    def _feeds(self, value: Instr, reader: Group) -> bool:
        """Whether `reader` multiplies by it: an operand is read many times."""
        heroes = [m for m in reader.members if m.opcode in HEROES]
        members = {**reader.members, **reader.recomputed}
        return any(value in self.graph.closure(hero.operands, members)[1] for hero in heroes)

    def _cheap(self, instr: Instr) -> bool:
        """Whether it is computed again at all; functions of f64 take tens of operations more than others."""
        cost = element_cost(instr.opcode)
        if instr.opcode in ("reduce", "get-tuple-element", *HEROES) or not instr.shape.is_array:
            return False
        if cost < SLOW:
            return True
        return is_elementwise(instr.opcode) and cost <= self._dearest() and instr.shape.element_type.bits <= 32

    def _dearest(self) -> int:
        return self.rules.machine.costs.max_again

    def _chain(self, value: Instr, group: Group) -> tuple[Members, list[Instr]]:
        """What the kernel of `group` computes of `value` that is cheap, and what that reads: as little as may be, so
        another value that leaves the kernel is read where it is less than what it is made of."""
        own = {**group.members, **group.recomputed}
        given = self._given(group)
        read: set[Instr] = set()
        while True:
            chain = self._cheap_part(value, own, read)
            leaves = self.graph.closure([value], chain)[1]
            better = next(
                (m for m in chain if m in given and m is not value and self._less(m, own, read, leaves)), None
            )
            if better is None:
                return chain, leaves
            read.add(better)

    def _cheap_part(self, value: Instr, own: Members, read: Container[Instr]) -> Members:
        """`value` and the cheap members that it needs, down to those that are read. Of much smaller values (a row's
        mean) only the simplest are computed anew for each element."""
        chain: Members = {}
        small = elements_of(value) // 8
        todo = [value]
        while todo:
            instr = todo.pop()
            if instr in chain or instr in read or instr not in own or not self._cheap(instr):
                continue
            if instr is value or elements_of(instr) > small or element_cost(instr.opcode) < SLOW:
                chain[instr] = None
                todo.extend(self.graph.reads(instr))
        return chain

    def _less(self, value: Instr, own: Members, read: Container[Instr], leaves: Sequence[Instr]) -> bool:
        """Whether `value` is fewer bytes than those of `leaves` that it is made of; small ones do not count."""
        below = self.graph.closure([value], self._cheap_part(value, own, read))[1]
        size = bytes_of(value)
        return size < sum(bytes_of(x) for x in below if x in leaves and bytes_of(x) >= size // 8)

    def _read(self, group: Group) -> set[Instr]:
        """What its kernel reads."""
        members = {**group.members, **group.recomputed}
        return set(self.graph.closure(self.rules.outputs(group.members), members)[1])

    def _given(self, group: Group) -> set[Instr]:
        """What leaves its kernel."""
        return {o for o in self.rules.outputs(group.members) if o not in self._gone} | {*self.handed.get(group, ())}

    def _saves(self, c: _Candidate, group: Group, shares: Mapping[Instr, int]) -> bool:
        """Whether fewer bytes are written and read."""
        more = sum(bytes_of(x) / shares[x] for x in c.leaves if x in group.members and x not in self._given(group))
        for reader in c.readers:
            read = self._read(reader)
            more += sum(bytes_of(leaf) / shares[leaf] for leaf in c.leaves if leaf not in read)
        return more < bytes_of(c.value) * (1 + len(c.readers))

    def _may(self, c: _Candidate, group: Group) -> bool:
        """Whether the kernels that read the value can compute it, and its own give what they then read."""
        for reader in c.readers:
            members = {**reader.members, **reader.recomputed, **c.chain}
            if not self._computes(self.rules.outputs(reader.members), members):
                return False
        handed = self._handed(c, group)
        given = {*self._given(group), *handed} - {c.value}
        outputs = sorted(given, key=self.graph.position.__getitem__)
        return not handed or self._computes(outputs, {**group.members, **group.recomputed})

    def _computes(self, outputs: Sequence[Instr], members: Members) -> bool:
        if not outputs or len(members) > self.rules.machine.costs.max_instrs:
            return False
        if any(i.opcode == "dynamic-update-slice" for i in members) or not self.rules.machine.holds(list(members)):
            return False
        return self.rules.computes(outputs, self.graph.closure(outputs, members)[0]).ok

    def _handed(self, c: _Candidate, group: Group) -> Members:
        return {**self.handed.get(group, {}), **{leaf: None for leaf in c.leaves if leaf in group.members}}

    def _apply(self, c: _Candidate, group: Group) -> None:
        self.handed[group] = self._handed(c, group)
        self._gone.add(c.value)
        for reader in c.readers:
            reader.recomputed.update(c.chain)
            reason = f"{c.value.name} is cheaper to compute again than to write and read"
            reader_name = next(reversed(reader.members)).name
            self.record({"a": c.value.name, "b": reader_name, "ok": True, "rule": "recompute", "reason": reason})
