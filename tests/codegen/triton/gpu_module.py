"""Runs modules by the GPU backend's plans and kernels, the kernels in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tests.codegen.triton import interpreter
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.backends.backend import Backend
from tfxla_cluster.codegen.kernel import interpreter as kernel_interpreter
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Candidates, Choice
from tfxla_cluster.codegen.kernel.code import Code, Listing, Source
from tfxla_cluster.codegen.kernel.ir import Buffer, Kernel
from tfxla_cluster.codegen.kernel.planes import split_complex
from tfxla_cluster.codegen.kernel.unit import Unit
from tfxla_cluster.codegen.triton.source import render
from tfxla_cluster.fusion.machine import Machine
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.plan import LaunchPlan
from tfxla_cluster.runtime.stepwise import Bytes, Stepwise
from tfxla_cluster.target import Target


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A backend.Backend that plans and lowers as the GPU's."""

    target: Target = gpu.described().target
    name: ClassVar[str] = "triton-interpreter"
    origin: ClassVar[str] = "evaluator"

    @property
    def machine(self) -> Machine:
        return gpu.Gpu(self.target).machine

    def floor(self) -> None:
        return None

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        return gpu.Gpu(self.target).lower(instr, choice)

    def candidates(self, instr: Instr) -> Candidates:
        return gpu.Gpu(self.target).candidates(instr)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        return Code(kernels={source.symbol: source.kernel for source in sources})

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Stepwise:
        return Stepwise(plan, partial(_launch, code.kernels))


@dataclass(frozen=True, slots=True)
class Checked(Interpreted):
    """The same kernels in the interpreter of kernel IR, which checks every access."""

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Stepwise:
        return Stepwise(plan, partial(_check, code.kernels))


def _check(
    kernels: Mapping[str, Kernel],
    symbol: str,
    inputs: Sequence[Bytes],
    outputs: Sequence[Bytes],
    sizes: Sequence[int],
    tasks: range,
) -> None:
    kernel_interpreter.run(kernels[symbol], inputs, outputs, sizes, tasks)


def _launch(
    kernels: Mapping[str, Kernel],
    symbol: str,
    inputs: Sequence[Bytes],
    outputs: Sequence[Bytes],
    sizes: Sequence[int],
    tasks: range,
) -> None:
    kernel = split_complex(kernels[symbol])
    read = [_typed(b, m) for b, m in zip(kernel.inputs, inputs)]
    written = [_typed(b, m) for b, m in zip(kernel.outputs, outputs)]
    found = interpreter.run(render(kernel), read, written, sizes, len(tasks))
    changed = [place.view(np.uint8) != array.view(np.uint8) for place, array in zip(written, found)]
    for place, array, where in zip(written, found, changed):  # places may overlap beyond what is written
        place.view(np.uint8)[where] = array.view(np.uint8)[where]


def _typed(buffer: Buffer, memory: Bytes) -> np.ndarray:
    kind = buffer.dtype.numpy
    return memory[: len(memory) // kind.itemsize * kind.itemsize].view(kind)


def compiled(module: Module, backend: Backend[Stepwise], fusion: bool = True) -> compiler.Compiled[Stepwise]:
    """UnsupportedError for what has no GPU kernel."""
    return compiler.compile_module(module, backend, CompileOptions(fusion=fusion))
