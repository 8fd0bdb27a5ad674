"""Which HLO instructions can stand in a GPU kernel: asked before fusion groups them."""

from __future__ import annotations

from ..codegen.kernel.lower.gpu import LOWERINGS
from ..codegen.triton.ops import support
from ..decision import YES, Decision, no
from ..fusion.moves import MOVES
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise


def triton_form(instr: Instr) -> Decision:
    """Whether the instruction has a GPU kernel whose ops all have Triton forms."""
    if instr.opcode not in LOWERINGS:
        return no("gpu-kernel", f"{instr.name}: {instr.opcode} has no GPU kernel")
    decision = _op(instr) if is_elementwise(instr.opcode) and instr.opcode not in MOVES else YES
    for called in instr.called:
        decision = decision & _scalar(called)
    return decision


def _op(instr: Instr) -> Decision:
    if instr.opcode == "map":
        return YES  # what it calls is asked
    found = support(instr.opcode, [o.shape.element_type for o in instr.operands], instr.shape.element_type)
    return found if found else no("triton-form", f"{instr.name}: {found.reason}")


def _scalar(comp: Computation) -> Decision:
    """Of a combiner or the like: every op that is one."""
    decision = YES
    for instr in comp.instrs:
        if is_elementwise(instr.opcode):
            decision = decision & _op(instr)
    return decision
