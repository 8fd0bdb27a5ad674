"""Kernels for a machine that is not here: all texts of theirs into a dump, nothing of it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import bugs, compiler, kernel_table, trace
from .backends import gpu
from .backends.backend import Backend, Launcher
from .codegen.kernel.choice import Chosen
from .codegen.kernel.unit import Unit
from .dump import module_files
from .dump.sink import ModuleDump, Sink
from .errors import UnsupportedError, UserKernelError
from .ir.node import Instr, Module
from .kernel_table import share_kernels
from .options import CompileOptions
from .runtime import plan_builder

NO_LINES: Mapping[str, str] = {}


def dump_for_gpu(
    module: Module, name: str, sink: Sink, options: CompileOptions, lines: Mapping[str, str] = NO_LINES
) -> None:
    """The kernels of module `name` for the GPU that --tfxla_gpu_target names, where something is dumped. `lines`: of
    the user's program. Failing costs only them: it is said and recorded.
    """
    arch = sink.options.gpu_target
    if arch and not sink:
        trace.once("gpu:no dump", f"--tfxla_gpu_target={arch} makes code for a dump only: give --xla_dump_to=DIR too")
    dump = sink.module(f"{name}.{arch}") if arch else None
    if not dump:
        return
    module_files.sources(dump, module, lines)
    started = time.perf_counter()
    try:
        write(module, gpu.described(arch, options.any_order), options, dump)
    except (UnsupportedError, UserKernelError) as error:
        trace.once(f"gpu:{error}", f"no kernels for {arch} in the dump beyond their source: {error}")
        trace.record("fallback", what=f"{name} for {arch}", reason=str(error), to="kernel source alone")
    except Exception as error:  # noqa: BLE001 - said, and costs the program nothing
        bugs.failed(f"generating {name} for {arch}", error)
    took = round((time.perf_counter() - started) * 1e3, 3)
    trace.record("cross_compile", id=dump.number, module=name, arch=arch, ms=took)


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
    shared = share_kernels(units)
    chosen = dict.fromkeys(units, Chosen(reason="the machine is not here"))
    rows = kernel_table.rows(shared, units, chosen, dump, backend.floor)
    kernel_table.write(dump, shared, rows)
    kernel_table.record(module.name, dump, rows)
    sources = compiler.sources(fused, units, shared)
    code = backend.compile(sources, options, partial(module_files.kernel_texts, dump))
    for source, data in zip(sources, code.objects):
        dump.bytes(f"{source.symbol}.cubin", data)
    if not refused:
        launches = compiler.launches(shared, code, backend.origin)
        planned = plan_builder.build(fused, units, launches)
        module_files.launch_plan(dump, planned.plan, fused, target)
        module_files.buffers(dump, planned.plan, planned.buffers, planned.moments)
