"""Entry points of the loop and reduction lowerings, for a single instruction and for a fusion."""
from __future__ import annotations

from ....errors import UnsupportedError
from ....ir.node import Instr
from ....target import Target
from ..unit import Unit

OPCODES: tuple[str, ...] = ()


def lower_single(instr: Instr, target: Target) -> Unit:
    raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")


def lower_fusion(instr: Instr, target: Target) -> Unit:
    raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
