"""The CPU's plans and kernels without machine code: kernel IR is interpreted, its plan run a step at a time.

Slow. It shows that a module's plan and kernels are right apart from the code generator, and checks every access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ..codegen.kernel import interpreter, lower
from ..codegen.kernel.choice import DEFAULT, Candidates, Choice
from ..codegen.kernel.code import Code, Listing, Source
from ..codegen.kernel.ir import Kernel, Op
from ..codegen.kernel.unit import Unit
from ..codegen.kernel.walk import walk
from ..errors import UnsupportedError
from ..fusion.machine import Machine
from ..ir.evaluator import MEANINGS
from ..ir.node import Instr
from ..options import CompileOptions
from ..runtime.cpu import host
from ..runtime.plan import LaunchPlan
from ..runtime.stepwise import Bytes, Stepwise
from ..target import Target
from .cpu import Cpu


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A backend.Backend that plans and lowers as the CPU's, for the CPU `target`."""

    target: Target
    name: ClassVar[str] = "interpreter"
    origin: ClassVar[str] = "evaluator"

    @property
    def machine(self) -> Machine:
        return Cpu(self.target).machine

    def floor(self) -> None:
        return None

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return lower.lower(instr, self.target, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return lower.candidates(instr, self.target)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        """The kernels themselves; UnsupportedError names an op that has no meaning in Python."""
        for source in sources:
            for stmt in walk(source.kernel.body):
                if isinstance(stmt, Op) and stmt.opcode not in MEANINGS:
                    raise UnsupportedError(f"{stmt.opcode} of {stmt.out.dtype} has no meaning in the interpreter")
        return Code(kernels={source.symbol: source.kernel for source in sources})

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Stepwise:
        return Stepwise(plan, partial(_run, code.kernels))


def _run(
    kernels: Mapping[str, Kernel],
    symbol: str,
    inputs: Sequence[Bytes],
    outputs: Sequence[Bytes],
    sizes: Sequence[int],
    tasks: range,
) -> None:
    interpreter.run(kernels[symbol], inputs, outputs, sizes, tasks)


def this_machine() -> Interpreter:
    """The backend that lowers for the CPU that this process runs on."""
    return Interpreter(host.target())
