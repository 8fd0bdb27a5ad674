"""A computation as fusion sees it: what must be materialised, who really uses what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from .group_order import Group, Order
from .legality import fusible, hero, virtual


class Graph:
    """`position`: place in the schedule. `virtual`: instructions that users compute for themselves.
    `needed`: virtual ones that must be values as well, for a user that reads buffers. `users`: users of
    a value, directly or through virtual instructions, that read it in a kernel of their own. `held`: whether the
    backend can have an instruction in a kernel with others; asked where that would be legal."""

    def __init__(self, comp: Computation, held: Callable[[Instr], bool] = lambda instr: True) -> None:
        self.comp, self._held = comp, held
        self.position = {instr: n for n, instr in enumerate(comp.instrs)}
        raw = comp.users()
        self.pairs = {i for i in comp.instrs if i is not comp.root and _paired(i, raw[i]) and held(i)}
        self.fusible = {i for i in comp.instrs if self._can(i)}
        self.virtual = {i for i in comp.instrs if virtual(i) and self._may_repeat(i)}
        self.needed: set[Instr] = set()
        self.users: dict[Instr, tuple[Instr, ...]] = {}
        for instr in reversed(comp.instrs):
            self._note(instr, raw[instr])

    def _can(self, instr: Instr) -> bool:
        if instr.opcode == "get-tuple-element":
            return instr.operands[0] in self.pairs
        if instr.shape.is_tuple:
            return instr in self.pairs
        return (hero(instr) or bool(fusible(instr))) and self._held(instr)

    def _may_repeat(self, instr: Instr) -> bool:
        """Whether users may compute a virtual instruction for themselves; a constant stands in any kernel."""
        return instr.opcode == "constant" or instr in self.fusible

    def _note(self, instr: Instr, users: Sequence[Instr]) -> None:
        found: dict[Instr, None] = {}
        needed = instr is self.comp.root
        for user in users:
            if user in self.virtual:
                found.update(dict.fromkeys(self.users[user]))
                if user in self.needed:
                    found[user] = None
                    needed = needed or user.opcode in ("reshape", "bitcast")
            else:
                found[user] = None
                needed = needed or user not in self.fusible
        self.users[instr] = tuple(found)
        if needed and instr in self.virtual and instr.opcode != "constant":
            self.needed.add(instr)

    def groups(self) -> list[Group]:
        """Every value a group of its own; the elements of a variadic reduce with it."""
        found: dict[Instr, Group] = {}
        for number, instr in enumerate(self.comp.instrs):
            if instr in self.virtual and instr not in self.needed:
                continue
            pair = instr.opcode == "get-tuple-element" and instr.operands[0] in self.pairs
            group = found[instr.operands[0]] if pair else Group((number,), self._kind(instr))
            group.members[instr] = None
            if group.kind == "hero" or (group.kind == "loop" and is_elementwise(instr.opcode)):
                group.plain = instr.shape.dims
            found[instr] = group
        return list(dict.fromkeys(found.values()))

    def _kind(self, instr: Instr) -> str:
        if instr not in self.fusible or instr in self.virtual:
            return "single"
        if hero(instr):
            return "hero"
        return "row" if instr.opcode == "reduce" else "loop"

    def reads(self, instr: Instr) -> list[Instr]:
        """The values an instruction reads, through virtual ones."""
        found: dict[Instr, None] = {}
        todo = list(instr.operands)
        while todo:
            operand = todo.pop()
            if operand in self.virtual:
                todo.extend(operand.operands)
            else:
                found[operand] = None
        return list(found)

    def closure(self, outputs: Iterable[Instr], members: Iterable[Instr]) -> tuple[list[Instr], list[Instr]]:
        """The instructions that computing `outputs` in one kernel takes, and the values it reads; both in
        schedule order."""
        own = set(members)
        inside: set[Instr] = set()
        leaves: set[Instr] = set()
        todo = list(outputs)
        while todo:
            instr = todo.pop()
            if instr in inside or instr in leaves:
                continue
            if instr in own or instr in self.virtual:
                inside.add(instr)
                todo.extend(instr.operands)
            else:
                leaves.add(instr)
        place = self.position.__getitem__
        return sorted(inside, key=place), sorted(leaves, key=place)


def _paired(instr: Instr, users: Sequence[Instr]) -> bool:
    """A fusible variadic reduce whose elements are taken one by one."""
    return (
        instr.opcode == "reduce"
        and instr.shape.is_tuple
        and bool(fusible(instr))
        and all(u.opcode == "get-tuple-element" for u in users)
    )


def order_of(graph: Graph) -> Order:
    return Order(graph.groups(), graph.users)
