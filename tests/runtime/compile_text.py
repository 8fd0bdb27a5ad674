"""HLO text -> executable without passes: one unit an instruction, or fused."""

from __future__ import annotations

import hashlib

from tfxla_cluster.backends import cpu
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.lower import lower
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.llvm.loader import Library
from tfxla_cluster.codegen.llvm.object_code import compile_kernels, object_files
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.text import parse
from tfxla_cluster.runtime import plan_builder
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.cpu.executable import Executable
from tfxla_cluster.runtime.plan import Launch


def plan_of(module: Module) -> tuple[plan_builder.Planned, dict[str, Kernel]]:
    """The plan, and each machine-code symbol with its kernel."""
    units = {instr: lower(instr, host.target()) for instr in plan_builder.unit_instructions(module)}
    kernels = [s.kernel for unit in units.values() for s in unit.steps if isinstance(s, UnitKernel)]
    symbols = {k: "k_" + hashlib.sha256(key(k).encode()).hexdigest()[:16] for k in kernels}
    planned = plan_builder.build(module, units, {k: Launch(s) for k, s in symbols.items()})
    return planned, {symbols[k]: k for k in kernels}


def compile_text(text: str, fused: bool = False) -> Executable:
    return compile_module(parse(text), fused)


def compile_module(module: Module, fused: bool = False) -> Executable:
    planned, kernels = plan_of(fuse(module, cpu.this_machine().machine, lambda record: None) if fused else module)
    codes = compile_kernels([(k, s) for s, k in kernels.items()], host.target())
    return Executable(planned.plan, Library(object_files(codes), host.target()))
