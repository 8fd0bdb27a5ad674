"""NVIDIA GPUs: Triton source and its binaries, made with no GPU present, and launched where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .. import trace
from ..codegen.kernel.choice import DEFAULT, Candidates, Choice
from ..codegen.kernel.code import Code, Listing, Params, Source
from ..codegen.kernel.library import NO_LIBRARIES, Libraries, NoLibrary
from ..codegen.kernel.lower import gpu as lower
from ..codegen.kernel.lower.gpu import attention
from ..codegen.kernel.lower.gpu.capability import shared_bytes, starts_early
from ..codegen.kernel.unit import Unit, UnitKernel
from ..codegen.triton.source import render
from ..codegen.triton.triton_source import LANGUAGES, Artefacts, TritonSource
from ..decision import YES, Decision
from ..errors import KernelError, TooLargeError, UnsupportedError
from ..fusion.machine import Costs, Machine
from ..ir.node import Instr
from ..options import CompileOptions
from ..runtime.floor import Floor
from ..runtime.gpu import driver, floor
from ..runtime.gpu.executable import Executable
from ..runtime.gpu.libraries import on_device
from ..runtime.gpu.libraries.on_device import OnDevice
from ..runtime.plan import LaunchPlan
from ..target import Target
from .backend import Launcher
from .gpu_code import compiled
from .gpu_support import triton_form

COSTS = Costs(
    max_instrs=120,
    max_repeats=120,
    plain_instrs=30,
    max_buffers=40,
    max_prologue=4,
    max_again=12,
    long_row=16 * 1024,  # beyond, a row is passed over once a level
    rows_per_core=1,
    long_column=512,
    shared_bytes=16 * 1024,
    max_readers=16,
)
MULTIPROCESSORS = 132  # of an H200, where the machine is not there to be asked


@dataclass(frozen=True, slots=True)
class Gpu:
    """A backend.Backend for the GPU `target`, e.g. arch 'sm_90': the one of number `device`, or None for one that is
    not here. `libraries`: those that may multiply there."""

    target: Target
    device: int | None = None
    libraries: Libraries = NO_LIBRARIES
    name: ClassVar[str] = "gpu"
    origin: ClassVar[str] = "generator"

    @property
    def machine(self) -> Machine:
        return Machine(COSTS, self.target.cores, _holds, attention.supports)

    def floor(self) -> Floor | None:
        return None if self.device is None else floor.floor(driver.driver().device(self.device))

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        """UnsupportedError also where a kernel has no Triton form."""
        unit = lower.lower(instr, self.target, choice, self.libraries)
        for step in unit.steps:
            if isinstance(step, UnitKernel):
                render(step.kernel)
        return unit

    def candidates(self, instr: Instr) -> Candidates:
        return lower.candidates(instr, self.target, self.libraries)

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        """A cubin a kernel, in the order of `sources`; TooLargeError names those that take more shared memory than a
        program has, KernelError those that Triton does not compile."""
        rendered = [_rendered(source, self.target) for source in sources]
        if listing is not None:
            with trace.phase("dump"):
                listing("triton.py", [(f"kernel {s.symbol}", r.listed) for s, r in zip(sources, rendered)])
        with trace.phase("assembler"):
            made = _compiled(sources, rendered, self.target, options)
        _check_fits({source.symbol: one.shared_bytes for source, one in zip(sources, made)}, self.target)
        if listing is not None:
            with trace.phase("dump"):
                for language in LANGUAGES:
                    listing(language, [(f"kernel {s.symbol}", m.texts[language]) for s, m in zip(sources, made)])
        made_of = enumerate(zip(sources, rendered, made))
        params = {source.symbol: launch_params(r, m, number) for number, (source, r, m) in made_of}
        return Code(tuple(m.cubin for m in made), params=params)

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Launcher:
        if self.device is None:
            return Generated(plan, self.target.arch)
        made = Executable(plan, code, self.device, options.timed_executions, least_graph=options.least_graph)
        if trace.wants("graph"):
            said = made.captured
            trace.record("graph", module=plan.name, ok=said.ok, rule=said.rule, reason=said.reason)
        return made


def _rendered(source: Source, target: Target) -> TritonSource:
    written = render(source.kernel, starts_early(target))
    return replace(written, text=source.text) if source.text else written


def _compiled(
    sources: Sequence[Source], rendered: Sequence[TritonSource], target: Target, options: CompileOptions
) -> list[Artefacts]:
    try:
        return compiled(rendered, target, options)
    except KernelError as error:
        failed = {s.symbol for s, r in zip(sources, rendered) if r.function in error.symbols}
        raise KernelError(error.message, frozenset(failed)) from error


def _check_fits(taken: Mapping[str, int], target: Target) -> None:
    """`taken`: bytes of shared memory by symbol."""
    room = shared_bytes(target)
    large = {symbol: count for symbol, count in taken.items() if count > room}
    if large:
        said = ", ".join(f"kernel {symbol} takes {count}" for symbol, count in large.items())
        raise TooLargeError(f"{said} bytes of shared memory, and {target.arch} has {room} a program", frozenset(large))


def _holds(instrs: Sequence[Instr]) -> Decision:
    """Whatever stands in a kernel by itself stands in one with others."""
    return triton_form(instrs[0]) if len(instrs) == 1 else YES


def launch_params(source: TritonSource, made: Artefacts, number: int) -> Params:
    """What a launch of the kernel in the cubin of that number needs: what differs from its default, and the warps and
    bytes of shared memory of a block."""
    more = (
        ("num_ctas", made.num_ctas, 1),
        ("grid_y", source.grid[0], 1),
        ("grid_z", source.grid[1], 1),
        ("global_scratch_bytes", made.global_scratch_bytes, 0),
        ("launch_pdl", int(made.launch_pdl), 0),
        ("cooperative", int(made.cooperative), 0),
    )
    said = tuple((name, value) for name, value, default in more if value != default)
    return (("object", number), ("num_warps", made.num_warps), ("shared_bytes", made.shared_bytes), *said)


@dataclass(frozen=True, slots=True)
class Generated:
    """A backend.Launcher that has the plan and refuses to run: its GPU is not here."""

    plan: LaunchPlan
    arch: str

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        raise UnsupportedError(
            f"kernels for {self.arch} are generated, but this is not the machine to run them",
            "Read them in the dump of a program run with --tfxla_gpu_target",
        )


def described(arch: str = "sm_90", any_order: bool = False) -> Gpu:
    """The backend of a GPU that need not be there."""
    return Gpu(Target("gpu", arch, cores=MULTIPROCESSORS, any_order=any_order))


def this_machine(number: int = 0, any_order: bool = False) -> Gpu:
    """The backend of the GPU of that number; UnsupportedError where there is none."""
    device = driver.driver().device(number)
    found = on_device.of(device)
    arch, cores, l2_bytes = device.arch, device.multiprocessors, device.l2_bytes
    target = Target("gpu", arch, found.versions(), cores=cores, l2_bytes=l2_bytes, any_order=any_order)
    return Gpu(target, number, _libraries(found))


def _libraries(found: OnDevice) -> Libraries:
    """As lowerings ask them."""
    missing = {name: NoLibrary[Any, Any](reason, said=True) for name, reason in found.missing}
    return Libraries(found.products or missing["products"], found.convolutions or missing["convolutions"])
