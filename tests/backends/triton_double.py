"""A backend that plans for Triton without a GPU: what has no Triton form is refused before fusion groups it, and
kernels run in the interpreter of kernel IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Candidates, Choice
from tfxla_cluster.codegen.kernel.code import Code, Listing, Source
from tfxla_cluster.codegen.kernel.unit import Unit, UnitKernel
from tfxla_cluster.codegen.triton.ops import type_name
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.decision import YES, Decision, no
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.fusion.machine import Machine
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.plan import LaunchPlan
from tfxla_cluster.runtime.stepwise import Stepwise
from tfxla_cluster.target import Target


@dataclass(frozen=True, slots=True)
class TritonDouble:
    """A backend.Backend. Its launches carry params, as a GPU's do."""

    target: Target
    name: ClassVar[str] = "triton-double"
    origin: ClassVar[str] = "evaluator"

    @property
    def machine(self) -> Machine:
        costs = replace(cpu.COSTS, max_instrs=40)
        return Machine(costs, cores=132, holds=self.holds)

    def holds(self, instrs: Sequence[Instr]) -> Decision:
        """Reductions stand alone: their rows need scratch, which has no Triton form."""
        reduce = next((i for i in instrs if i.opcode == "reduce"), None)
        if len(instrs) > 1 and reduce is not None:
            return no("triton-rows", f"{reduce.name}: a reduction with other work has no Triton form")
        for instr in instrs:
            try:
                self.texts(instr)
            except UnsupportedError as error:
                return no("no-triton-form", f"{instr.name}: {error.message}")
        return YES

    def texts(self, instr: Instr) -> list[str]:
        """The Triton source of all kernels of `instr`; UnsupportedError where one has none."""
        kernels = [step.kernel for step in self.lower(instr).steps if isinstance(step, UnitKernel)]
        for buffer in (b for kernel in kernels for b in (*kernel.inputs, *kernel.outputs)):
            type_name(buffer.dtype)
        return [render(kernel).text for kernel in kernels]

    def floor(self) -> None:
        return None

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return interpreter.Interpreter(self.target).lower(instr, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return interpreter.Interpreter(self.target).candidates(instr)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        code = interpreter.Interpreter(self.target).compile(sources, options, listing)
        return replace(code, params={source.symbol: (("num_warps", 4),) for source in sources})

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Stepwise:
        return interpreter.Interpreter(self.target).load(plan, code, options)


def double() -> TritonDouble:
    return TritonDouble(host.target())
