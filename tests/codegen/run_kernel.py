"""Runs one kernel in this process, on one thread: `run(kernel, inputs, outputs, sizes)`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tfxla_cluster.codegen.kernel import abi, interpreter
from tfxla_cluster.codegen.kernel.ir import Kernel
from tfxla_cluster.codegen.llvm.loader import Library
from tfxla_cluster.codegen.llvm.object_code import assemble, compile_kernel
from tfxla_cluster.ir import dim
from tfxla_cluster.target import Target


def host_target(vector_bits: int = 256) -> Target:
    """This machine, limited to registers of `vector_bits`."""
    features = llvm.get_host_cpu_features()
    return Target("cpu", llvm.get_host_cpu_name(), features.flatten(), vector_bits)


# Kernels run with denormals flushed to zero, as the runtime and TensorFlow's threads have it.
_FLUSHED = """
define void @flushed(ptr %context, ptr %inputs, ptr %outputs, ptr %sizes) {
  %slot = alloca i32
  %other = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %old = load i32, ptr %slot
  %new = or i32 %old, 32832
  store i32 %new, ptr %other
  call void @llvm.x86.sse.ldmxcsr(ptr %other)
  call void @kernel(ptr %context, ptr %inputs, ptr %outputs, ptr %sizes)
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
declare void @kernel(ptr, ptr, ptr, ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""


class Loaded:
    """A compiled kernel; call it with arrays. Outputs are written in place and must be contiguous."""

    def __init__(self, kernel: Kernel, target: Target | None = None) -> None:
        self.kernel, self.target = kernel, target or host_target()
        self.code = compile_kernel(kernel, self.target, "kernel")
        self.library = Library([self.code.object, assemble(_FLUSHED, self.target)], self.target)
        self.function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(self.library.address("flushed"))
        scratch = abi.scratch_layout(kernel)[1]
        self._scratch = np.empty(scratch + abi.SCRATCH_ALIGN, np.uint8)

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        sizes: Mapping[str, int] | None = None,
        tasks: tuple[int, int] | None = None,
    ) -> None:
        """Runs tasks [begin, end), by default all of them; `sizes` gives values of the symbols in dims."""
        env = dict(sizes or {})
        begin, end = tasks or (0, dim.evaluate(self.kernel.tasks, env))
        scratch = -(-self._scratch.ctypes.data // abi.SCRATCH_ALIGN) * abi.SCRATCH_ALIGN
        context = (ctypes.c_int64 * abi.CONTEXT_FIELDS)(begin, end, scratch, 0, 0, 0)
        slots = (ctypes.c_int64 * max(1, len(self.kernel.sizes)))(*[dim.evaluate(d, env) for d in self.kernel.sizes])
        self.function(context, _pointers(inputs), _pointers(outputs), slots)


def _pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    assert all(a.flags.c_contiguous for a in arrays)
    return (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])


def compiled(
    kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
) -> None:
    """All tasks of `kernel` as machine code for this machine."""
    Loaded(kernel)(inputs, outputs, sizes)


def interpreted(
    kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Mapping[str, int]
) -> None:
    """All tasks of `kernel` by the interpreter."""
    slots = [dim.evaluate(d, sizes) for d in kernel.sizes]
    interpreter.run(kernel, inputs, outputs, slots, range(dim.evaluate(kernel.tasks, sizes)))


def run(
    kernel: Kernel,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[tuple[int, ...], Any] | np.ndarray],
    sizes: Mapping[str, int] | None = None,
    target: Target | None = None,
) -> list[np.ndarray]:
    """Compiles and runs `kernel`. `outputs`: (shape, numpy dtype) each, or an array to update in place."""
    results = [o if isinstance(o, np.ndarray) else np.zeros(o[0], o[1]) for o in outputs]
    Loaded(kernel, target)([np.ascontiguousarray(i) for i in inputs], results, sizes)
    return results
