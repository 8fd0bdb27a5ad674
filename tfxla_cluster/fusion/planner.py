"""Fusion: groups of instructions become `fusion` instructions, each a kernel (reductions: one or two).

Every computation that runs as steps is planned: first each instruction is joined with what it reads
(producer into consumer, with more outputs where a value is used elsewhere too), then groups that read
the same large value, then scalar work, then cheap values are computed again in the kernels that read them where that
moves fewer bytes. Each yes and no is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from ..decision import YES, Decision, no
from ..ir.node import Computation, Instr, Module, callees_first
from ..ir.rewrite import Names, rebuild
from .attention import fuse_attention
from .build import fused
from .cost import bytes_of
from .extent import same_all
from .graph import Graph, order_of
from .group_order import Group
from .kernel_rules import KernelRules
from .machine import Machine
from .recompute import Recomputation

Record = Callable[[dict[str, Any]], None]


def fuse(module: Module, machine: Machine, record: Record) -> Module:
    """The module with fusions in every computation that runs as steps; the same one when none is made."""
    changed: dict[Computation, Computation] = {}
    names = Names(i.name for c in module.computations() for i in c.instrs)
    for comp in _stepped(module):
        linked = rebuild(comp, {}, called=changed) if changed else comp
        new = _Planner(fuse_attention(linked, machine, record, names), machine, record).run(names)
        if new is not comp:
            changed[comp] = new
    return module.replace(entry=changed[module.entry]) if module.entry in changed else module


def _stepped(module: Module) -> list[Computation]:
    """The entry, loop bodies and conditions, branches and called computations; callees first."""
    return callees_first([module.entry], lambda i: i.called if i.opcode in ("while", "conditional", "call") else ())


class _Planner:
    """Plans one computation."""

    def __init__(self, comp: Computation, machine: Machine, record: Record) -> None:
        self.comp, self.machine, self.record = comp, machine, record
        self.graph = Graph(comp, self._held)
        self.order = order_of(self.graph)
        self.rules = KernelRules(self.graph, machine)
        self.refused: set[tuple[int, int, int, int]] = set()

    def run(self, names: Names) -> Computation:
        self._join_producers()
        self._join_readers()
        self._join_scalars()
        again = Recomputation(self.graph, self.order, self.rules, self.record)
        again.run()
        self._join_recomputing(again.handed)
        return fused(self.graph, self.order, names)

    # --- the passes ---
    def _join_producers(self) -> None:
        """Each instruction with the values it reads, the largest first."""
        for instr in self.comp.instrs:
            group = self.order.group.get(instr)
            if group is None or group.kind == "single":
                continue
            for value in sorted(self.graph.reads(instr), key=bytes_of, reverse=True):
                self._join(value, instr)

    def _join_readers(self) -> None:
        """Groups that read one large value, which then is read once."""
        costs = self.machine.costs
        for instr in self.comp.instrs:
            if instr not in self.order.group or bytes_of(instr) < costs.shared_bytes or not instr.shape.is_array:
                continue
            readers = [u for u in self.graph.users[instr] if self._open(u)]
            leaders: list[Instr] = []
            for reader in readers[: costs.max_readers]:
                if not any(self._join(leader, reader) for leader in leaders):
                    leaders.append(reader)

    def _join_scalars(self) -> None:
        """Scalar work (counters of loops) in as few kernels as the order allows: a launch costs more."""
        leader: Instr | None = None
        for instr in self.comp.instrs:
            group = self.order.group.get(instr)
            if group is None or group.kind != "loop" or group.plain != ():
                continue
            if leader is None or not self._join(leader, instr):
                leader = instr

    def _join_recomputing(self, handed: Container[Group]) -> None:
        """Groups that read one large value since they compute more of theirs themselves; none of `handed`, whose
        members others came to read."""
        readers: dict[Instr, list[Group]] = {}
        groups = self.order.groups()
        spread = {member for group in groups for member in group.recomputed}
        for group in groups:
            if group.kind in ("loop", "row") and group not in handed and spread.isdisjoint(group.members):
                for value in self._read(group):
                    if bytes_of(value) >= self.machine.costs.shared_bytes:
                        readers.setdefault(value, []).append(group)
        for value in sorted(readers, key=bytes_of, reverse=True):
            leaders: list[Group] = []
            for found in readers[value][: self.machine.costs.max_readers]:
                group = self.order.group[next(iter(found.members))]  # it may be part of another by now
                if group not in leaders and not any(self._join_again(leader, group) for leader in leaders):
                    leaders.append(group)

    def _read(self, group: Group) -> list[Instr]:
        """What its kernel reads."""
        members = {**group.members, **group.recomputed}
        return self.graph.closure(self.rules.outputs(group.members), members)[1]

    def _join_again(self, a: Group, b: Group) -> bool:
        """Joins two groups of which one computes values of others, if that is legal and pays."""
        between = self.order.between(a, b) if a.recomputed or b.recomputed else None
        if between is None or len(a.members) + len(b.members) > self.machine.costs.max_instrs:
            return False
        outputs = self.rules.outputs({**a.members, **b.members})
        inside, _ = self.graph.closure(outputs, {**a.members, **b.members, **a.recomputed, **b.recomputed})
        decision = self.rules.computes(outputs, inside)
        self._note(next(reversed(a.members)).name, next(reversed(b.members)).name, decision)
        if decision:
            self.order.merge(a, b, between)
            a.kind = "row" if "row" in (a.kind, b.kind) else "loop"
        return decision.ok

    # --- joining ---
    def _held(self, instr: Instr) -> bool:
        """Whether the backend can have it in a kernel with others; a no is recorded."""
        decision = self.machine.holds([instr])
        if not decision:
            self._note(instr.name, "", decision)
        return decision.ok

    def _note(self, a: str, b: str, decision: Decision) -> None:
        reason = decision.reason or "one kernel reads and writes less"
        self.record({"a": a, "b": b, "ok": decision.ok, "rule": decision.rule, "reason": reason})

    def _open(self, instr: Instr) -> bool:
        group = self.order.group.get(instr)
        return group is not None and group.kind != "single"

    def _join(self, first: Instr, second: Instr) -> bool:
        """Joins the groups of two instructions if that is legal and pays; true also when they are one."""
        if not self._open(first) or not self._open(second):
            return False
        a, b = self.order.group[first], self.order.group[second]
        if a is b:
            return True
        key = (id(a), len(a.members), id(b), len(b.members))
        if key in self.refused:
            return False
        between = self.order.between(a, b)
        decision = no("cycle", "a value would go out and come back in") if between is None else self._may(a, b)
        self._note(first.name, second.name, decision)
        if not decision or between is None:
            self.refused.add(key)
            return False
        plain = a.plain if self._plain(a, b) else None
        kinds = {a.kind, b.kind}
        self.order.merge(a, b, between)
        a.kind = "hero" if "hero" in kinds else "row" if "row" in kinds else "loop"
        a.plain = plain
        return True

    def _plain(self, a: Group, b: Group) -> bool:
        """Elementwise work on arrays of the same dims, with at most a contraction before all of it."""
        if a.plain is None or b.plain is None or not same_all(a.plain, b.plain) or b.kind == "hero":
            return False
        return a.kind != "hero" or self._follows(a, b)

    def _follows(self, a: Group, b: Group) -> bool:
        """Whether what would leave `b` is computed from `a`, the hero's, so that its kernel may compute it."""
        behind: set[Instr] = set()
        todo = list(a.members)
        while todo:
            found = [u for u in self.graph.users[todo.pop()] if u in b.members and u not in behind]
            behind.update(found)
            todo.extend(found)
        outputs = self.rules.outputs({**a.members, **b.members})
        return bool(behind) and all(o in behind for o in outputs if o in b.members)

    def _may(self, a: Group, b: Group) -> Decision:
        """Legality and worth of one kernel for both."""
        costs, members = self.machine.costs, {**a.members, **b.members}
        count = len(members)
        if count > costs.max_instrs:
            return no("too-large", f"{count} instructions in one kernel")
        held = self.machine.holds(list(members))
        if not held:
            return held
        if not self._plain(a, b):
            return self.rules.together(members)
        if count < costs.plain_instrs:
            return YES
        return self.rules.together(members) if "hero" in (a.kind, b.kind) else self.rules.plain(members)
