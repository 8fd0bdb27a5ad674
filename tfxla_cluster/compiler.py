"""The pipeline from an HLO module to an executable plan and its code, as named steps; machines are backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

from . import gc_pause, kernel_table, trace
from .backends.backend import Backend, Launcher, LauncherT
from .codegen.kernel.choice import UNTUNED, Choices, Chosen
from .codegen.kernel.code import Code, Source
from .codegen.kernel.fitting import Fitting
from .codegen.kernel.ir import Kernel
from .codegen.kernel.unit import Unit, UnitKernel
from .dump import module_files
from .dump.sink import NOWHERE, ModuleDump
from .errors import KernelError, TooLargeError, UnsupportedError
from .fusion import planner as fusion_planner
from .fusion import split
from .fusion.machine import Machine
from .ir import nesting, verifier
from .ir.dim import make, sample
from .ir.node import Instr, Module
from .kernel_table import Shared, share_kernels
from .options import DEFAULT, CompileOptions
from .passes import pipeline, pipelines
from .runtime import plan_builder
from .runtime.plan import Launch, LaunchPlan
from .target import Target


@dataclass(frozen=True)
class Compiled(Generic[LauncherT]):
    """What compilation made. `phases`: milliseconds by name, `passes`: of the phase 'passes' by pass. `chosen`: of each
    instruction that became kernels."""

    plan: LaunchPlan
    code: Code
    executable: LauncherT
    module: Module
    phases: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[Instr, Chosen] = field(default_factory=dict)
    passes: Mapping[str, float] = field(default_factory=dict)


APART = frozenset(("assembler", "dump", "tuning"))
"""Phases of a compilation that lie inside others, and are times of their own."""


def compile_module(
    module: Module,
    backend: Backend[LauncherT],
    options: CompileOptions = DEFAULT,
    dump: ModuleDump = NOWHERE,
    choices: Choices = UNTUNED,
) -> Compiled[LauncherT]:
    """Verify, optimise, fuse, lower, generate, plan, load; `choices` says in which form each instruction is lowered.

    Raises VerifierError for an invalid module and UnsupportedError for what the backend has no kernel for or cannot
    load. What a stage makes is in the dump before the next one starts.
    """
    with gc_pause.paused():
        return _compile_module(module, backend, options, dump, choices)


def _compile_module(
    module: Module, backend: Backend[LauncherT], options: CompileOptions, dump: ModuleDump, choices: Choices
) -> Compiled[LauncherT]:
    target = backend.target
    with trace.phase("compile", module=module.name) as whole:
        with trace.phase("dump"):
            module_files.before(dump, module)
        with trace.phase("verify"):
            verifier.verify(module)
            nesting.check_size(module)
        with trace.phase("passes"):
            optimised = optimise(module, target, options, dump)
            nesting.check_depth(optimised)
        with trace.phase("fusion"):
            fused, decisions = fuse(optimised, backend.machine, dump) if options.fusion else (optimised, [])
        with trace.phase("dump"):
            module_files.after(dump, fused, target)
        made = generate(fused, backend, options, dump, decisions, choices)
        with trace.phase("plan"):
            planned = plan_builder.build(made.module, made.units, launches(made.shared, made.code, backend.origin))
        with trace.phase("dump"):
            module_files.launch_plan(dump, planned.plan, made.module, target)
            module_files.buffers(dump, planned.plan, planned.buffers, planned.moments)
        with trace.phase("load"):
            executable = backend.load(planned.plan, made.code, options)
    phases = whole.times.milliseconds(APART)
    passes = whole.times.parts["passes"].milliseconds()
    module_files.timings(dump, phases, whole.seconds * 1e3, target, passes=passes)
    return Compiled(planned.plan, made.code, executable, made.module, phases, made.chosen, passes)


@dataclass(frozen=True)
class Generated:
    """The module whose instructions became kernels, which and in which forms, and their code."""

    module: Module
    units: Mapping[Instr, Unit]
    chosen: Mapping[Instr, Chosen]
    shared: Shared
    code: Code


def generate(
    module: Module,
    backend: Backend[Launcher],
    options: CompileOptions,
    dump: ModuleDump,
    decisions: Sequence[Mapping[str, Any]],
    choices: Choices,
) -> Generated:
    """Lowers and compiles every kernel. An instruction whose kernels take more memory than the machine has is lowered
    again in a smaller form, one whose chosen form does not compile in another; UnsupportedError as `lower_units`, and
    where no form of one fits, KernelError where a default one does not compile."""
    fitting = Fitting(choices, backend.candidates, backend.lower)
    listing = partial(module_files.kernel_texts, dump) if dump else None
    while True:
        with trace.phase("lower"):
            module, lowered = lower_units(module, backend, dump, decisions, fitting)
            units = {instr: unit for instr, (unit, _) in lowered.items()}
            chosen = {instr: choice for instr, (_, choice) in lowered.items()}
            shared = share_kernels(units)
        with trace.phase("dump"):
            rows = kernel_table.rows(shared, units, chosen, dump, backend.floor)
            kernel_table.write(dump, shared, rows)
        try:
            with trace.phase("codegen"):
                code = backend.compile(sources(module, units, shared), options, listing)
        except TooLargeError as error:
            fitting.too_large(shared.chosen(error.symbols, units, chosen), error.message)
            continue
        except KernelError as error:
            if not fitting.fails(shared.chosen(error.symbols, units, chosen), error.message):
                raise
            continue
        with trace.phase("dump"):
            kernel_table.record(module.name, dump, rows)
        return Generated(module, units, chosen, shared, code)


def optimise(module: Module, target: Target, options: CompileOptions, dump: ModuleDump = NOWHERE) -> Module:
    """The passes that the options leave on."""
    passes = pipelines.optimize(target) if options.passes else []
    wanted = [p for p in passes if p.name not in options.passes_off]
    return pipeline.run(module, "optimize", wanted, _observer(dump))


def _observer(dump: ModuleDump) -> Any:
    """Writes the module between passes where --xla_dump_hlo_pass_re asks for it."""

    def observe(module: Module, name: str, after: str, before: str) -> None:
        if dump.wants_passes(name, after):
            with trace.phase("dump"):
                dump.pass_dump(name, after, before, lambda: module_files.hlo_text(dump, module))

    return observe


def fuse(module: Module, machine: Machine, dump: ModuleDump) -> tuple[Module, list[dict[str, Any]]]:
    """The fused module and its decisions, each of which goes to the trace and the dump."""
    decisions: list[dict[str, Any]] = []
    fused = fusion_planner.fuse(module, machine, decisions.append)
    with trace.phase("dump"):
        module_files.fusion_decisions(dump, decisions)
        _trace(module, dump, decisions)
    return fused, decisions


def _trace(module: Module, dump: ModuleDump, decisions: Iterable[Mapping[str, Any]]) -> None:
    if trace.wants("fusion"):
        for decision in decisions:
            trace.record("fusion", module=module.name, id=dump.number, **decision)


def lower_units(
    module: Module,
    backend: Backend[Launcher],
    dump: ModuleDump,
    decisions: Sequence[Mapping[str, Any]],
    choices: Choices = UNTUNED,
) -> tuple[Module, dict[Instr, tuple[Unit, Chosen]]]:
    """The kernels of every instruction that needs some, and what was chosen for it. A fusion that cannot be lowered
    is split until its parts can: the module is then another one, and its files are written again, the decisions after
    the earlier ones.

    Raises UnsupportedError for a single instruction that has no kernel.
    """
    while True:
        units: dict[Instr, tuple[Unit, Chosen]] = {}
        refused: dict[Instr, Mapping[str, Any]] = {}
        instrs = list(plan_builder.unit_instructions(module))
        with trace.phase("tuning"):
            choices.begin(instrs)
        for instr in instrs:
            try:
                units[instr] = _lower(instr, backend, choices)
            except UnsupportedError as error:
                if instr.opcode != "fusion":
                    raise
                refused[instr] = {"a": instr.name, "b": "", "ok": False, "rule": "split", "reason": error.message}
        if not refused:
            return module, units
        module = split.split(module, refused)
        decisions = [*decisions, *refused.values()]
        with trace.phase("dump"):
            _trace(module, dump, refused.values())
            module_files.fusion_decisions(dump, decisions)
            module_files.after(dump, module, backend.target)


def _lower(instr: Instr, backend: Backend[Launcher], choices: Choices) -> tuple[Unit, Chosen]:
    """In the form that is chosen; a choice that the lowering refuses gives way to another."""
    chosen = choices.choose(instr)
    try:
        return backend.lower(instr, chosen.choice), chosen
    except UnsupportedError as error:
        if not chosen.choice:
            raise
        chosen = choices.refused(instr, chosen, error.message)
        return backend.lower(instr, chosen.choice), chosen


def sources(module: Module, units: Mapping[Instr, Unit], shared: Shared) -> list[Source]:
    """The kernels to compile, and how much work each does in one execution.

    Only launches of the entry computation count as once; how often a loop launches one nobody knows.
    """
    once = set(module.entry.instrs)
    work: dict[str, int | None] = dict.fromkeys(shared.kernels, 0)
    for instr, unit in units.items():
        for step in unit.steps:
            if isinstance(step, UnitKernel):
                symbol = shared.symbols[step.kernel]
                known = work[symbol]
                if instr not in once or known is None:
                    work[symbol] = None
                else:
                    work[symbol] = known + sample(make("mul", step.kernel.tasks, step.kernel.cost))
    return [Source(symbol, kernel, work[symbol]) for symbol, kernel in shared.kernels.items()]


def launches(shared: Shared, code: Code, origin: str) -> dict[Kernel, Launch]:
    """How each kernel of the units is launched."""
    return {kernel: Launch(symbol, origin, code.params.get(symbol, ())) for kernel, symbol in shared.symbols.items()}
