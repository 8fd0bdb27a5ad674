"""The seam between the pipeline and a machine: all that `compiler.compile_module` asks of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from ..codegen.kernel.choice import DEFAULT, Candidates, Choice
from ..codegen.kernel.code import Code, Listing, Source
from ..codegen.kernel.unit import Unit
from ..fusion.machine import Machine
from ..held import Held
from ..ir.node import Instr
from ..options import CompileOptions
from ..runtime.floor import Floor
from ..runtime.launcher.step_times import StepTimes
from ..runtime.plan import LaunchPlan
from ..target import Target


class Launcher(Protocol):
    """Runs a plan whose code is loaded."""

    @property
    def plan(self) -> LaunchPlan: ...

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs on the host; UsageError where an array does not fit."""
        ...


class NativeExecutable(Launcher, Protocol):
    """A Launcher that machine code runs: `entry(record, inputs, outputs, sizes, launch)`, both addresses; on the CPU
    `launch` is not read."""

    @property
    def record(self) -> int: ...

    @property
    def entry(self) -> int: ...

    def hold(self, literals: Sequence[bytes]) -> tuple[Held, ...]:
        """Each where the executable's code reads it, aligned as a tensor is; MemoryError where there is no room."""
        ...

    def times(self) -> StepTimes | None:
        """Of its steps; None where they are not timed."""
        ...


LauncherT = TypeVar("LauncherT", bound=Launcher, covariant=True)


class Backend(Protocol[LauncherT]):
    """A kind of machine. `target`: which one. `name`: in cache keys and for `tfxla-exec --backend`. `machine`: what
    fusion plans by, with the one question of what a kernel can hold. `origin`: where its kernels' code comes from,
    one of runtime.plan.ORIGINS."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def origin(self) -> str: ...

    def floor(self) -> Floor | None:
        """What it does at best; None where it is not here, or nothing of it runs natively."""
        ...

    def lower(self, instr: Instr, choice: Choice = DEFAULT) -> Unit:
        """The kernels that compute `instr`; UnsupportedError where this machine has none, or not what `choice` says."""
        ...

    def candidates(self, instr: Instr) -> Candidates:
        """What `lower` takes for `instr`, its default first; UnsupportedError where this machine has no kernel."""
        ...

    def compile(self, sources: Sequence[Source], options: CompileOptions, listing: Listing | None) -> Code:
        """Code of all kernels. With `listing` each language is told before the next is made of it."""
        ...

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> LauncherT:
        """Code and plan ready to run in this process; UnsupportedError where a limit of the launcher is met."""
        ...
