"""A computation as the search for attention sees it, and how what was found grows to a whole fusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..decision import YES, Decision, no
from ..errors import UnsupportedError
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.rewrite import Names
from .attention_form import AFTER, dependents, dot_dims, form_of
from .attention_inputs import operand_moves, side_members
from .build import fusion_values
from .legality import MOVES_BEFORE
from .machine import Machine
from .softmax import wide

KIND = "kCustom"  # XLA's word for a fusion with a kernel of its own
SEARCHED = 64  # instructions that are looked at between one product and the next, at most


class Scope:
    """`place`: of each instruction in the schedule. `users`: who reads it."""

    def __init__(self, comp: Computation) -> None:
        self.comp = comp
        self.place = {instr: n for n, instr in enumerate(comp.instrs)}
        self.users = comp.users()

    def ordered(self, instrs: Iterable[Instr]) -> list[Instr]:
        return sorted(instrs, key=self.place.__getitem__)

    def between(self, first: Iterable[Instr], last: Iterable[Instr]) -> set[Instr]:
        """What depends on one of `first` and one of `last` depends on, with all of them."""
        ends = list(last)
        start, stop = min(self.place[i] for i in first), max(self.place[i] for i in ends)
        after = dependents(self.comp.instrs[start : stop + 1], set(first))
        found, todo = set(ends), ends
        while todo:
            fresh = [o for o in todo.pop().operands if o in after and o not in found]
            found.update(fresh)
            todo.extend(fresh)
        return found

    def depends(self, instrs: set[Instr], on: set[Instr]) -> list[Instr]:
        """Those of `instrs` that depend on one of `on`."""
        start = min(self.place[i] for i in on)
        return self.ordered(instrs & dependents(self.comp.instrs[start:], on))

    def products_before(self, value: Instr) -> list[Instr]:
        """The dots that elementwise work and moves make `value` of, one of their elements for each of its own."""
        found: dict[Instr, None] = {}
        todo, seen, elements = [value], {value}, value.shape.element_count
        while todo and len(seen) < SEARCHED:
            instr = todo.pop(0)
            if instr.opcode == "dot" and instr.shape.element_count == elements and not instr.control:
                found[instr] = None
            elif is_elementwise(instr.opcode) or instr.opcode in MOVES_BEFORE:
                todo.extend(o for o in instr.operands if o not in seen)
                seen.update(instr.operands)
        return list(found)

    def output(self, dot: Instr, width: Any) -> Instr:
        """The product, or what moves and conversions of it alone make of it: a store at another index is free, as
        long as values of the last dimension, of extent `width`, stay side by side in memory."""
        output = dot
        while len(self.users[output]) == 1 and output is not self.comp.root:
            (user,) = self.users[output]
            if user.opcode not in AFTER or (user.opcode == "convert" and wide(user) is user):
                break
            output = user
        while output is not dot and width not in (1, output.shape.dims[-1]) and not _merges(output, width):
            output = output.operands[0]
        return output


def _merges(output: Instr, width: Any) -> bool:
    """Whether the last dimension is several, the values' the minor one."""
    last = output.shape.dims[-1]
    return isinstance(last, int) and isinstance(width, int) and output.opcode == "reshape" and last % width == 0


def width_of(dot: Instr, weight: Instr) -> Any:
    """The extent of the last free dimension of what `dot` multiplies `weight` with."""
    side = 1 if dot.operands[0] is weight else 0
    free = dot_dims(dot, side)[1]
    return dot.operands[side].shape.dims[free[-1]] if free else 1


class Part:
    """A fusion to be: `outputs` and `core`, all that depends on an inner product; afterwards `members` too."""

    def __init__(self, scope: Scope, outputs: Sequence[Instr], core: set[Instr]) -> None:
        self.scope, self.outputs, self.core = scope, list(outputs), core
        self.members: set[Instr] = set()

    def decide(self, machine: Machine) -> Decision:
        """Whether it is one kernel. What it computes of its inputs itself joins the members."""
        scope = self.scope
        self.members = self.core | self._constants()
        try:
            form = form_of(self.outputs, scope.ordered(self.members))
            self.members |= {m for access in form.sides for m in side_members(access, form)}
            for inner in form.inner:
                self.members |= operand_moves(inner.fixed, inner.depth + form.fixed)
                self.members |= operand_moves(inner.looped, inner.depth + form.looped)
            for outer in form.outer:
                self.members |= operand_moves(outer.operand, outer.width + form.looped)
            form = form_of(self.outputs, scope.ordered(self.members))
        except UnsupportedError as error:
            return no("attention-form", error.message)
        late = scope.depends(self.leaves(), set(self.outputs))
        if late:
            return no("cycle", f"{late[0].name} is needed and depends on a result")
        assert machine.attention is not None
        return machine.attention(form) & self._computed(machine)

    def _computed(self, machine: Machine) -> Decision:
        """Whether the machine computes every instruction."""
        decision = YES
        for instr in self.scope.ordered(self.members):
            if instr.opcode != "constant":
                decision = decision & machine.holds([instr])
        return decision

    def leaves(self) -> set[Instr]:
        """What it reads."""
        return {o for m in self.members for o in m.operands} - self.members

    def fusion(self, names: Names) -> dict[Instr, Instr]:
        """What stands for each output."""
        leaves = self.scope.ordered(self.leaves())
        inside = self.scope.ordered(self.members)
        return fusion_values(names.unique("fusion"), KIND, inside, leaves, leaves, self.outputs)

    def _constants(self) -> set[Instr]:
        """Scalars that the core uses: each kernel has its own."""
        used = {o for m in self.core for o in m.operands}
        return {o for o in used if o.opcode == "constant" and o.shape.rank == 0}
