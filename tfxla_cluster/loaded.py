"""Executables in memory, as the service keeps them and as the TensorFlow side gets them."""

from __future__ import annotations

from dataclasses import dataclass

from . import counters
from .backends.backend import NativeExecutable
from .held import Held
from .ir import guard
from .ir.shape import Shape
from .runtime.plan import KernelCount, SizeSource, count_kernels


@dataclass(frozen=True)
class Loaded:
    """What tf.compiler_port.Loaded asks for; keeps the executable alive. `module` and `id` (None: no files) name its
    module in records."""

    module: str
    id: int | None
    executable: NativeExecutable
    count: KernelCount
    record: int
    entry: int
    outputs: tuple[Shape, ...]
    sizes: tuple[SizeSource, ...]
    guards: tuple[guard.Guard, ...]

    @classmethod
    def of(cls, executable: NativeExecutable, module: str, number: int | None) -> Loaded:
        """Of an executable that was just loaded."""
        plan = executable.plan
        return cls(
            module,
            number,
            executable,
            count_kernels(plan),
            executable.record,
            executable.entry,
            plan.outputs,
            plan.sizes,
            plan.guards,
        )

    def count_kernels(self) -> None:
        """Into the counters."""
        counters.add("kernels", self.count.kernels)
        counters.add("native_kernels", self.count.native)


@dataclass(frozen=True)
class Served:
    """What tf.compiler_port.Served asks for."""

    loaded: Loaded
    compiled: bool
    exact: bool = False
    handed: tuple[Held, ...] = ()
    ranges: tuple[guard.Guard, ...] = ()
