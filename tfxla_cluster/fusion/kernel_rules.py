"""Whether instructions may be one kernel, and whether that is worth it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..decision import Decision, no
from ..errors import UnsupportedError
from ..ir.node import Instr
from . import hero
from .cost import few_arrays, pays
from .graph import Graph
from .index import flatten
from .legality import HEROES
from .machine import Machine
from .program import analyse_parts

Members = Mapping[Instr, None]


class KernelRules:
    """The rules for kernels of one computation on one machine."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph, self.machine = graph, machine

    def outputs(self, members: Members) -> list[Instr]:
        """Members whose value is used outside."""
        users, root = self.graph.users, self.graph.comp.root
        return [m for m in members if m.shape.is_array and (m is root or any(u not in members for u in users[m]))]

    def together(self, members: Members) -> Decision:
        """Whether a kernel computes all that leaves `members`."""
        outputs = self.outputs(members)
        if not outputs:
            return no("dead", "nothing uses the result")
        inside, _ = self.graph.closure(outputs, members)
        updates = [i for i in members if i.opcode == "dynamic-update-slice"]
        return self._update(updates, outputs, inside) if updates else self._around(members, outputs, inside)

    def plain(self, members: Members) -> Decision:
        """`together` of elementwise work on arrays of the same dims: where each member is read at the reader's own
        place, as nearly always, there is nothing to find out about indices."""
        outputs = self.outputs(members)
        inside, read = self.graph.closure(outputs, members)
        moved = (i for i in inside if i not in members and i.opcode != "convert")
        if any(not members.keys().isdisjoint(i.operands) for i in moved):
            return self.together(members)
        return few_arrays(len(outputs) + len(read), self.machine.costs)

    def computes(self, outputs: Sequence[Instr], inside: Sequence[Instr]) -> Decision:
        """Whether a kernel of `inside` computes `outputs`."""
        return self._around(inside, outputs, inside)

    def _around(self, members: Iterable[Instr], outputs: Sequence[Instr], inside: Sequence[Instr]) -> Decision:
        heroes = [i for i in members if i.opcode in HEROES]
        if len(heroes) > 1:
            return no("two-heroes", "two contractions in one kernel")
        if heroes:
            return hero.check(heroes[0], outputs, inside, self.machine.costs.max_prologue)
        return self._one_program(outputs, inside)

    def _one_program(self, outputs: Sequence[Instr], inside: Sequence[Instr]) -> Decision:
        try:
            program = analyse_parts(outputs, inside)
            for root in program.roots:
                program.groups_of(flatten(root.index))
        except UnsupportedError as error:
            return no("index-map", error.message)
        return pays(program, outputs, self.machine)

    def _update(self, updates: Sequence[Instr], outputs: Sequence[Instr], inside: Sequence[Instr]) -> Decision:
        """An update in place: the one output, and nothing else reads the array it updates."""
        update = updates[0]
        if len(updates) > 1 or tuple(outputs) != (update,):
            return no("in-place", f"{update.name} updates in place and must be the only output")
        if any(update.operands[0] in i.operands for i in inside if i is not update):
            return no("in-place", f"{update.operands[0].name} is read while {update.name} updates it")
        return self._one_program(outputs, inside)
