"""Attention found in plain ops: product, scale and masks, softmax, dropout, product become one fusion, and so does its
gradient (`attention_gradient`).

A fused computation holds these very instructions, so that it means what they mean; `attention_form` says what a kernel
makes of it. The scores are in no memory, so whoever else uses one of them would have them computed again: then there
is no fusion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..decision import Decision, no
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.rewrite import Names, rebuild
from .attention_gradient import Gradient
from .attention_scope import KIND, SEARCHED, Part, Scope, width_of
from .legality import MOVES_BEFORE
from .machine import Machine
from .softmax import Softmax, softmax_of

__all__ = ["KIND", "fuse_attention"]


def fuse_attention(
    comp: Computation, machine: Machine, record: Callable[[dict[str, Any]], None], names: Names
) -> Computation:
    """`comp` with a fusion for each attention in it; the same where there is none, or the machine has no kernel."""
    if machine.attention is None:
        return comp
    scope, replaced = Scope(comp), dict[Instr, Instr]()
    asked: set[Instr] = set()
    for dot in comp.instrs:
        softmax = _weights_of(dot)
        if softmax is None or softmax.quotient in asked:
            continue
        asked.add(softmax.quotient)
        found = _Found(scope, dot, softmax)
        decision = found.decide(machine)
        reason = decision.reason or f"no score leaves the kernel{'s, its gradient with it' * bool(found.gradient)}"
        record({"a": dot.name, "b": softmax.quotient.name, "ok": decision.ok, "rule": decision.rule, "reason": reason})
        if decision:
            replaced.update(found.fusions(names))
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
    while todo and len(seen) < SEARCHED:
        instr = todo.pop(0)
        softmax = softmax_of(instr)
        if softmax is not None:
            return softmax
        if is_elementwise(instr.opcode) or instr.opcode in MOVES_BEFORE:
            todo.extend(o for o in instr.operands if o not in seen)
            seen.update(instr.operands)
    return None


class _Found:
    """One attention: `dot` sums multiples of the probabilities. `gradient`: of it, in the same computation."""

    def __init__(self, scope: Scope, dot: Instr, softmax: Softmax) -> None:
        self.scope, self.dot, self.softmax = scope, dot, softmax
        self.parts: list[Part] = []
        self.gradient: Gradient | None = None

    def decide(self, machine: Machine) -> Decision:
        """Whether it becomes kernels."""
        scope, softmax = self.scope, self.softmax
        scores = scope.products_before(softmax.scores)
        if len(scores) != 1:
            return no("attention-scores", f"{len(scores)} products make the scores of {softmax.quotient.name}")
        weight = next(o for o in self.dot.operands if softmax.quotient in scope.between([softmax.quotient], [o]))
        output = scope.output(self.dot, width_of(self.dot, weight))
        core = scope.between(scores, [output])
        rows = {softmax.top, softmax.total}
        used = {u: i for i in scope.ordered(core - rows - {output}) for u in scope.users[i] if u not in core}
        if used:
            self.gradient = Gradient(scope, softmax, self.dot, output, core, scores[0], weight)
            decision = self.gradient.decide(machine, used)
            if not decision:
                return decision
        if scope.comp.root in core - {output}:
            return no("attention-used", "the root is a score")
        leaving = [r for r in scope.ordered(rows) if self.gradient or any(u not in core for u in scope.users[r])]
        self.parts = [Part(scope, [output, *leaving], core)]
        return self.parts[0].decide(machine)

    def fusions(self, names: Names) -> dict[Instr, Instr]:
        """What stands for each value that leaves one of the kernels."""
        found = self.parts[0].fusion(names)
        if self.gradient is not None:
            found.update(self.gradient.fusions(names))
        return found
