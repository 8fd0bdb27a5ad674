"""Attention found in plain ops: product, scale and masks, softmax, dropout, product become one fusion.

The fused computation holds these very instructions, so that it means what they mean; `attention_form` says what a
kernel makes of it. Its scores are in no memory, so whoever else uses one of them would have them computed again: then
there is no fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..decision import Decision, no
from ..errors import UnsupportedError
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.rewrite import Names, rebuild
from .attention_form import AFTER, Form, dependents, dot_dims, form_of
from .attention_inputs import operand_moves, side_members
from .build import fusion_values
from .legality import MOVES_BEFORE
from .machine import Machine
from .softmax import Softmax, softmax_of, wide

KIND = "kCustom"  # XLA's word for a fusion with a kernel of its own
_SEARCHED = 64  # instructions between the softmax and the products, at most


def fuse_attention(
    comp: Computation, machine: Machine, record: Callable[[dict[str, Any]], None], names: Names
) -> Computation:
    """`comp` with a fusion for each attention in it; the same where there is none, or the machine has no kernel."""
    if machine.attention is None:
        return comp
    place = {instr: n for n, instr in enumerate(comp.instrs)}
    users = comp.users()
    replaced: dict[Instr, Instr] = {}
    asked: set[Instr] = set()
    for dot in comp.instrs:
        softmax = _weights_of(dot)
        if softmax is None or softmax.quotient in asked:
            continue
        asked.add(softmax.quotient)
        found = _Found(comp, place, users, dot, softmax)
        decision = found.decide(machine.attention)
        reason = decision.reason or "no score leaves the kernel"
        record({"a": dot.name, "b": softmax.quotient.name, "ok": decision.ok, "rule": decision.rule, "reason": reason})
        if decision:
            replaced.update(found.fusion(names))
    return rebuild(comp, replaced, drop_dead=True) if replaced else comp


def _weights_of(dot: Instr) -> Softmax | None:
    """The softmax that `dot` multiplies with something, summed over what the softmax runs over."""
    if dot.opcode != "dot" or dot.control:
        return None
    for side in (0, 1):
        softmax = _softmax_before(dot.operands[side])
        if softmax is not None:
            return softmax
    return None


def _softmax_before(value: Instr) -> Softmax | None:
    """The first softmax that elementwise work and moves make `value` of."""
    todo, seen = [value], {value}
    while todo and len(seen) < _SEARCHED:
        instr = todo.pop(0)
        softmax = softmax_of(instr)
        if softmax is not None:
            return softmax
        if is_elementwise(instr.opcode) or instr.opcode in MOVES_BEFORE:
            todo.extend(o for o in instr.operands if o not in seen)
            seen.update(instr.operands)
    return None


class _Found:
    """One attention: `dot` sums multiples of the probabilities."""

    def __init__(
        self,
        comp: Computation,
        place: Mapping[Instr, int],
        users: Mapping[Instr, Sequence[Instr]],
        dot: Instr,
        softmax: Softmax,
    ) -> None:
        self.comp, self.place, self.users, self.dot, self.softmax = comp, place, users, dot, softmax
        self.core: set[Instr] = set()
        self.members: set[Instr] = set()
        self.outputs: list[Instr] = []

    def decide(self, holds: Callable[[Form], Decision]) -> Decision:
        """Whether it is one kernel; afterwards `members` and `outputs` say of what."""
        scores = self._score_products()
        if len(scores) != 1:
            return no("attention-scores", f"{len(scores)} products make the scores of {self.softmax.quotient.name}")
        output = self._output()
        self.core = self._between(scores[0], output)
        rows = {self.softmax.top, self.softmax.total}
        for instr in self._ordered(self.core - {output}):
            outside = [u for u in self.users[instr] if u not in self.core]
            if (outside or instr is self.comp.root) and instr not in rows:
                user = outside[0].name if outside else "the root"
                return no("attention-used", f"{user} uses {instr.name}: the scores are in memory anyway")
        self.outputs = [output, *(r for r in self._ordered(rows) if any(u not in self.core for u in self.users[r]))]
        return self._take(scores[0], holds)

    def _take(self, scores: Instr, holds: Callable[[Form], Decision]) -> Decision:
        self.members = self.core | set(self._constants())
        try:
            form = form_of(self.outputs, self._ordered(self.members))
            self.members |= {m for access in form.sides for m in side_members(access, form)}
            for inner in form.inner:
                self.members |= operand_moves(inner.fixed, inner.depth + form.fixed)
                self.members |= operand_moves(inner.looped, inner.depth + form.looped)
            for outer in form.outer:
                self.members |= operand_moves(outer.operand, outer.width + form.looped)
            form = form_of(self.outputs, self._ordered(self.members))
        except UnsupportedError as error:
            return no("attention-form", error.message)
        leaves = {o for m in self.members for o in m.operands} - self.members
        late = self._ordered(leaves & dependents(self.comp.instrs[self.place[scores] :], {scores}))
        if late:
            return no("cycle", f"{late[0].name} is needed and depends on the scores")
        return holds(form)

    def fusion(self, names: Names) -> dict[Instr, Instr]:
        """What stands for each output."""
        inside = self._ordered(self.members)
        leaves = self._ordered({o for m in inside for o in m.operands} - self.members)
        return fusion_values(names.unique("fusion"), KIND, inside, leaves, leaves, self.outputs)

    # --- what belongs to it ---
    def _ordered(self, instrs: set[Instr]) -> list[Instr]:
        return sorted(instrs, key=self.place.__getitem__)

    def _score_products(self) -> list[Instr]:
        """The dots that elementwise work makes the scores of."""
        found: dict[Instr, None] = {}
        todo, seen = [self.softmax.scores], {self.softmax.scores}
        elements = self.softmax.scores.shape.element_count
        while todo and len(seen) < _SEARCHED:
            instr = todo.pop(0)
            if instr.opcode == "dot" and instr.shape.element_count == elements and not instr.control:
                found[instr] = None
            elif is_elementwise(instr.opcode) or instr.opcode in MOVES_BEFORE:
                todo.extend(o for o in instr.operands if o not in seen)
                seen.update(instr.operands)
        return list(found)

    def _output(self) -> Instr:
        """The product, or what moves and conversions of it alone make of it: a store at another index is free."""
        output, width = self.dot, self._width()
        while len(self.users[output]) == 1 and output is not self.comp.root:
            (user,) = self.users[output]
            if user.opcode not in AFTER or (user.opcode == "convert" and wide(user) is user):
                break
            output = user
        while output is not self.dot and width not in (1, output.shape.dims[-1]) and not self._merges(output, width):
            output = output.operands[0]
        return output

    def _width(self) -> Any:
        """The extent of the values' last dimension, which should stay side by side in memory."""
        side = 1 if self.dot.operands[0] in dependents(self.comp.instrs, {self.softmax.quotient}) else 0
        free = dot_dims(self.dot, side)[1]
        return self.dot.operands[side].shape.dims[free[-1]] if free else 1

    def _merges(self, output: Instr, width: Any) -> bool:
        """Whether the last dimension is several, the values' the minor one."""
        last = output.shape.dims[-1]
        return isinstance(last, int) and isinstance(width, int) and output.opcode == "reshape" and last % width == 0

    def _between(self, first: Instr, last: Instr) -> set[Instr]:
        """What depends on `first` and `last` depends on, with both."""
        span = self.comp.instrs[self.place[first] : self.place[last] + 1]
        after = dependents(span, {first})
        found, todo = {last}, [last]
        while todo:
            fresh = [o for o in todo.pop().operands if o in after and o not in found]
            found.update(fresh)
            todo.extend(fresh)
        return found

    def _constants(self) -> list[Instr]:
        """Scalars that the members use: each kernel has its own."""
        used = {o for m in self.core for o in m.operands}
        return [o for o in used if o.opcode == "constant" and o.shape.rank == 0]
