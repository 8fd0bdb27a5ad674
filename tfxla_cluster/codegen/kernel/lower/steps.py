"""How a program's kernels are tied to the operands and results of the instruction."""

from __future__ import annotations

from collections.abc import Sequence

from ....fusion.program import Program
from ....ir.node import Instr
from ..ir import Kernel
from ..unit import UnitKernel, UnitRef


def single_step(program: Program, kernel: Kernel) -> UnitKernel:
    """A kernel that reads the program's parameters and writes its outputs."""
    return UnitKernel(kernel, operand_refs(program.params), result_refs(program))


def operand_refs(params: Sequence[Instr]) -> tuple[UnitRef, ...]:
    return tuple(UnitRef("operand", int(p.attrs["parameter_number"])) for p in params)


def result_refs(program: Program) -> tuple[UnitRef, ...]:
    return tuple(UnitRef("result", n) for n in range(len(program.roots)))


def temp_refs(count: int) -> tuple[UnitRef, ...]:
    return tuple(UnitRef("temp", n) for n in range(count))
