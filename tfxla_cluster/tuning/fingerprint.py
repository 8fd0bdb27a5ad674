"""What an instruction computes, as text: equal for equal work, whatever names, sources and order of lines."""

from __future__ import annotations

import hashlib
from typing import Any

from ..ir.node import CALLED_ATTRS, Computation, Instr
from ..ir.text.printer import render_instruction

_LEFT_OUT = ("frontend_attributes", "backend_config", "kind", "sharding")  # they say nothing of what is computed


def canonical(instr: Instr) -> str:
    """The body of a fusion, or of a computation around another instruction, as XLA's keys have it: instructions named
    `tmp_N` in the order the root needs them, shapes with layout; then the computations that they call."""
    body = instr.attrs["calls"] if instr.opcode == "fusion" else alone(instr)
    names = _Names()
    first = names.renamed(body)
    called = [f"{comp.name} {_text(comp)}" for comp in names.made.values() if comp is not first]
    return "\n".join([_text(first), *called])


def digest(text: str) -> str:
    """A canonical text in short."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def alone(instr: Instr) -> Computation:
    """A computation of `instr`: its operands are parameters, scalar constants among them stay."""
    inside: dict[Instr, Instr] = {}
    for operand in instr.operands:
        if operand in inside:
            continue
        if operand.opcode == "constant" and operand.shape.is_array and operand.shape.rank == 0:
            inside[operand] = operand
        else:
            number = sum(i.opcode == "parameter" for i in inside.values())
            inside[operand] = Instr(f"p{number}", "parameter", operand.shape, attrs={"parameter_number": number})
    root = instr.replace(operands=tuple(inside[o] for o in instr.operands), control=())
    return Computation(f"{instr.name}_alone", (*inside.values(), root), root)


def _text(comp: Computation) -> str:
    lines = [render_instruction(i).replace("%", "") for i in comp.instrs]
    marked = [f"  {'ROOT ' if i is comp.root else ''}{line}" for i, line in zip(comp.instrs, lines)]
    return "\n".join(["{", *marked, "}"])


class _Names:
    """Copies of computations in canonical order with canonical names, the called ones numbered as they are met."""

    def __init__(self) -> None:
        self.made: dict[Computation, Computation] = {}
        self._met = 0

    def renamed(self, comp: Computation) -> Computation:
        if comp not in self.made:
            name = f"called_{self._met}"
            self._met += 1
            instrs: dict[Instr, Instr] = {}
            for instr in _in_order(comp):
                operands = tuple(instrs[o] for o in instr.operands)
                instrs[instr] = Instr(f"tmp_{len(instrs)}", instr.opcode, instr.shape, operands, self._attrs(instr))
            self.made[comp] = Computation(name, tuple(instrs.values()), instrs[comp.root])
        return self.made[comp]

    def _attrs(self, instr: Instr) -> dict[str, Any]:
        kept = {name: value for name, value in instr.attrs.items() if name not in _LEFT_OUT}
        return {name: self._called(value) if name in CALLED_ATTRS else value for name, value in kept.items()}

    def _called(self, value: Any) -> Any:
        return self.renamed(value) if isinstance(value, Computation) else tuple(map(self._called, value))


def _in_order(comp: Computation) -> list[Instr]:
    """What the root needs, operands first, in the order of operands."""
    order: dict[Instr, None] = {}
    stack = [comp.root]
    while stack:
        instr = stack[-1]
        missing = [o for o in instr.operands if o not in order]
        if missing:
            stack.append(missing[0])
        else:
            order.setdefault(stack.pop())
    return list(order)
