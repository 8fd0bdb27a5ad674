"""The pipeline from an HLO module to an executable plan and its machine code, as named steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import flags, gc_pause, trace
from .codegen.kernel import key as kernel_key
from .codegen.kernel import lower
from .codegen.kernel import text as kernel_text
from .codegen.kernel.ir import Kernel
from .codegen.kernel.unit import Unit, UnitKernel
from .codegen.llvm.loader import Library
from .codegen.llvm.object_code import KernelCode, compile_kernels, object_files
from .dump import module_files
from .dump.module_files import KernelFiles
from .dump.sink import ModuleDump
from .errors import UnsupportedError
from .fusion import planner as fusion_planner
from .fusion import split
from .ir import verifier
from .ir.dim import make, sample
from .ir.node import Instr, Module
from .passes import pipeline, pipelines
from .runtime import plan_builder
from .runtime.executable import Executable
from .runtime.plan import LaunchPlan
from .target import Target

# Scalar operations below which a kernel is generated quickly: some 5 us of work, while careful code saves
# half of that at most and costs 10 ms more to make.
BRIEF_WORK = 20_000


@dataclass(frozen=True)
class Compiled:
    """What compilation made. `phases`: milliseconds by name."""

    plan: LaunchPlan
    objects: list[bytes]
    executable: Executable
    module: Module | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


def compile_module(module: Module, target: Target, dump: ModuleDump, fusion: bool = True) -> Compiled:
    """Verify, optimise, fuse, lower, generate, plan, load.

    Raises VerifierError for an invalid module and UnsupportedError for what has no kernel yet. Each
    stage's files are written as soon as the stage is done.
    """
    with gc_pause.paused():
        return _compile_module(module, target, dump, fusion)


def _compile_module(module: Module, target: Target, dump: ModuleDump, fusion: bool) -> Compiled:
    with trace.phase("compile", module=module.name) as whole:
        module_files.before(dump, module)
        with trace.phase("verify"):
            verifier.verify(module)
        with trace.phase("passes"):
            optimised = optimise(module, target, dump)
        with trace.phase("fusion"):
            fused, decisions = fuse(optimised, target, dump) if fusion else (optimised, [])
        module_files.after(dump, fused, target)
        with trace.phase("lower"):
            fused, units = lower_units(fused, target, dump, decisions)
            shared = share_kernels(units)
        with trace.phase("codegen"):
            codes = compile_kernels(
                [(k, s) for s, k in shared.kernels.items()],
                target,
                flags.get("tfxla_compile_threads"),
                quick=brief_kernels(fused, units, shared),
                assembly=bool(dump),
            )
        with trace.phase("plan"):
            planned = plan_builder.build(fused, units, shared.symbols)
        module_files.launch_plan(dump, planned.plan, fused, target)
        with trace.phase("load"):
            objects = object_files(codes)
            executable = load(planned.plan, objects, target)
        if dump:
            with trace.phase("dump"):
                module_files.kernels(dump, kernel_files(shared, codes))
    phases = {name: seconds * 1e3 for name, seconds in whole.parts.items()}
    module_files.timings(dump, phases, whole.seconds * 1e3, target)
    return Compiled(planned.plan, objects, executable, fused, phases)


def load(plan: LaunchPlan, objects: Sequence[bytes], target: Target) -> Executable:
    """Machine code and plan into an executable of this process."""
    return Executable(plan, Library(objects, target), timings=flags.get("tfxla_timings"))


def optimise(module: Module, target: Target, dump: ModuleDump) -> Module:
    """The passes that the flags leave on."""
    passes = [] if flags.get("xla_disable_all_hlo_passes") else pipelines.optimize(target)
    off = set(filter(None, flags.get("xla_disable_hlo_passes").split(",")))
    if flags.get("tf_xla_disable_constant_folding"):
        off.add("constant-folding")
    return pipeline.run(module, "optimize", [p for p in passes if p.name not in off], _observer(dump))


def _observer(dump: ModuleDump) -> Any:
    """Writes the module between passes where --xla_dump_hlo_pass_re asks for it."""

    def observe(module: Module, name: str, after: str, before: str) -> None:
        dump.pass_dump(name, after, before, lambda: module_files.hlo_text(module))

    return observe


def fuse(module: Module, target: Target, dump: ModuleDump) -> tuple[Module, list[dict[str, Any]]]:
    """The fused module and its decisions, each of which goes to the trace and the dump."""
    decisions: list[dict[str, Any]] = []
    fused = fusion_planner.fuse(module, target, decisions.append)
    module_files.fusion_decisions(dump, decisions)
    _trace(module, decisions)
    return fused, decisions


def _trace(module: Module, decisions: Iterable[Mapping[str, Any]]) -> None:
    if trace.wants("fusion"):
        for decision in decisions:
            trace.record("fusion", module=module.name, **decision)


def lower_units(
    module: Module, target: Target, dump: ModuleDump, decisions: Sequence[Mapping[str, Any]]
) -> tuple[Module, dict[Instr, Unit]]:
    """The kernels of every instruction that needs some. A fusion that cannot be lowered is split until its parts
    can: the module is then another one, and its files are written again, the decisions after the earlier ones.

    Raises UnsupportedError for a single instruction that has no kernel.
    """
    while True:
        units: dict[Instr, Unit] = {}
        refused: dict[Instr, Mapping[str, Any]] = {}
        for instr in plan_builder.unit_instructions(module):
            try:
                units[instr] = lower.lower(instr, target)
            except UnsupportedError as error:
                if instr.opcode != "fusion":
                    raise
                refused[instr] = {"a": instr.name, "b": "", "ok": False, "rule": "split", "reason": error.message}
        if not refused:
            return module, units
        module = split.split(module, refused)
        decisions = [*decisions, *refused.values()]
        _trace(module, refused.values())
        module_files.fusion_decisions(dump, decisions)
        module_files.after(dump, module, target)


@dataclass(frozen=True)
class Shared:
    """Kernels of all units, equal ones once: symbol -> kernel, every kernel -> its symbol, and for each
    symbol the instruction it was first made for."""

    kernels: dict[str, Kernel]
    symbols: dict[Kernel, str]
    instrs: dict[str, Instr]


def share_kernels(units: Mapping[Instr, Unit]) -> Shared:
    """Give kernels of equal structure one symbol; sizes are arguments, so they may differ."""
    shared = Shared({}, {}, {})
    by_key: dict[str, str] = {}
    for instr, unit in units.items():
        for step in unit.steps:
            if not isinstance(step, UnitKernel):
                continue
            symbol = by_key.setdefault(kernel_key.key(step.kernel), f"kernel_{len(by_key)}_{_word(step.kernel.name)}")
            shared.symbols[step.kernel] = symbol
            shared.kernels.setdefault(symbol, step.kernel)
            shared.instrs.setdefault(symbol, instr)
    return shared


def brief_kernels(module: Module, units: Mapping[Instr, Unit], shared: Shared) -> set[str]:
    """Symbols whose every launch is so little work that quick code generation is worth more than quick code.

    Only launches of the entry computation count as once; what a loop runs is never brief.
    """
    once = set(module.entry.instrs)
    work: dict[str, int] = {}
    for instr, unit in units.items():
        for step in unit.steps:
            if isinstance(step, UnitKernel):
                symbol = shared.symbols[step.kernel]
                cost = sample(make("mul", step.kernel.tasks, step.kernel.cost)) if instr in once else BRIEF_WORK
                work[symbol] = work.get(symbol, 0) + cost
    return {symbol for symbol, cost in work.items() if cost < BRIEF_WORK}


def _word(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def kernel_files(shared: Shared, codes: Sequence[KernelCode]) -> list[KernelFiles]:
    """The dump's texts of each kernel."""
    return [
        KernelFiles(
            code.symbol,
            shared.instrs[code.symbol],
            kernel_ir=partial(kernel_text.render, shared.kernels[code.symbol]),
            llvm_no_opt=code.llvm_ir,
            llvm=code.llvm_ir,
            assembly=code.assembly,
        )
        for code in codes
    ]
