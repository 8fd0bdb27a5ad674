"""The contract of a pass, and the driver of passes made of local rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import SOURCELESS, carried, map_computations, rebuild

# A rule looks at one instruction (and what it uses) and gives its replacement, or None.
Rule = Callable[[Instr], "Instr | None"]
_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Pass:
    """`run(module)` gives a new module, or the same object when nothing changed. `name` is its CLI word."""

    name: str
    run: Callable[[Module], Module]


def of_computations(name: str, fn: Callable[[Computation], Computation]) -> Pass:
    """A pass that treats each computation by itself, callees first."""
    return Pass(name, lambda module: map_computations(module, fn))


def of_rules(name: str, rules: Mapping[str, Sequence[Rule]]) -> Pass:
    """A pass that applies rules (opcode -> rules tried in order) until none fits; linear in instructions."""
    return of_computations(name, lambda comp: apply_rules(comp, rules))


def apply_rules(comp: Computation, rules: Mapping[str, Sequence[Rule]]) -> Computation:
    """`comp` after the rules, in one walk: each instruction sees operands that are already simplified.

    What becomes dead is dropped, if any rule fitted.
    """
    new: dict[Instr, Instr] = {}
    fired = False
    for instr in comp.instrs:
        node = instr
        if any(o in new for o in instr.operands):
            sources = carried(instr.operands, lambda o: new.get(o, o))
            node = instr.replace(
                operands=tuple([new.get(o, o) for o in instr.operands]), sources=instr.sources | sources
            )
        simple = simplify(node, rules)
        fired = fired or simple is not node
        if simple is not instr:
            new[instr] = simple
    return rebuild(comp, new, drop_dead=True) if fired else comp


def simplify(node: Instr, rules: Mapping[str, Sequence[Rule]]) -> Instr:
    """`node` after the rules for its opcode, and those for what they give; itself when none fits."""
    for _ in range(_LIMIT):
        for rule in rules.get(node.opcode, ()):
            found = rule(node)
            if found is not None:
                node = _with_sources(node, found)
                break
        else:
            return node
    return node


def _with_sources(old: Instr, new: Instr) -> Instr:
    """New nodes get the sources of what they replace here; nodes that others use get them in `rebuild`."""
    if new.name != old.name or old.sources <= new.sources or new.opcode in SOURCELESS:
        return new
    return new.replace(sources=new.sources | old.sources)
