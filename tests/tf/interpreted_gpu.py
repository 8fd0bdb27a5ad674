"""A backend for TensorFlow's CPU that plans and lowers as a GPU's: its kernels run in Triton's interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.codegen.triton import gpu_module
from tests.tf import double
from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.held import Held
from tfxla_cluster.ir.dim import evaluate, is_produced
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.arrays import aligned_copy
from tfxla_cluster.runtime.plan import LaunchPlan
from tfxla_cluster.runtime.stepwise import Stepwise


class Native:
    """A NativeExecutable of a launcher in Python."""

    record = 1

    def __init__(self, launcher: Stepwise) -> None:
        self.plan, self._launcher = launcher.plan, launcher
        self._entry = double._ENTRY(self._run)
        self.entry = ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def _run(self, record: int, inputs: Any, results: Any, sizes: Any) -> int:
        plan = self.plan
        values = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
        given = {s.symbol: values[k] for k, s in enumerate(plan.sizes) if not s.is_produced}
        shapes = [shape.with_dims(tuple(evaluate(d, given) for d in shape.dims)) for shape in plan.inputs]
        args = [double._view(inputs[k], shape).copy() for k, shape in enumerate(shapes)]
        places = {source.symbol: k for k, source in enumerate(plan.sizes)}
        for k, (shape, value) in enumerate(zip(plan.outputs, self._launcher.run(args))):
            double._view(results[k], shape.with_dims(value.shape))[...] = value
            for dim, size in zip(shape.dims, value.shape):
                if is_produced(dim):
                    values[places[dim.name]] = size
        return 0

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._launcher.run(arrays)

    def hold(self, literals: Sequence[bytes]) -> tuple[Held, ...]:
        return tuple(Held(a.ctypes.data, a) for a in map(aligned_copy, literals))

    def times(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Backend(gpu_module.Interpreted):
    """Its executables as TensorFlow's ops call them."""

    def load(self, plan: LaunchPlan, code: Code, options: CompileOptions) -> Any:
        return Native(gpu_module.Interpreted(self.target).load(plan, code, options))
