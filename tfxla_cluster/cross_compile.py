"""Kernels for a machine that is not here: all texts of theirs into a dump, nothing of it runs."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import compiler
from .backends.backend import Backend, Launcher
from .codegen.kernel.unit import Unit
from .dump import module_files
from .dump.sink import ModuleDump
from .errors import UnsupportedError
from .ir.node import Instr, Module
from .options import CompileOptions
from .runtime import plan_builder


def write(module: Module, backend: Backend[Launcher], options: CompileOptions, dump: ModuleDump) -> None:
    """The files of a valid module's compilation for the backend's machine into `dump`.

    Instructions without a kernel there are left out, each a decision ('no-kernel'); only a module that has none
    of them has a launch plan. UnsupportedError where the kernel compiler is not installed.
    """
    target = backend.target
    module_files.before(dump, module)
    fused, decisions = compiler.fuse(compiler.optimise(module, target, options, dump), backend.machine, dump)
    units: dict[Instr, Unit] = {}
    refused: list[dict[str, Any]] = []
    for instr in plan_builder.unit_instructions(fused):
        try:
            units[instr] = backend.lower(instr)
        except UnsupportedError as error:
            refused.append({"a": instr.name, "b": "", "ok": False, "rule": "no-kernel", "reason": error.message})
    module_files.fusion_decisions(dump, [*decisions, *refused])
    module_files.after(dump, fused, target)
    shared = compiler.share_kernels(units)
    compiler.list_kernels(module, shared, dump)
    sources = compiler.sources(fused, units, shared)
    code = backend.compile(sources, options, partial(module_files.kernel_texts, dump))
    for source, data in zip(sources, code.objects):
        dump.bytes(f"{source.symbol}.cubin", data)
    if not refused:
        launches = compiler.launches(shared, code, backend.origin)
        module_files.launch_plan(dump, plan_builder.build(fused, units, launches).plan, fused, target)
