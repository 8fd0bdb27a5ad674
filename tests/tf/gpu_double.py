"""A GPU that is not there: the native ops' machine code for GPUs as ops of the CPU, with functions in Python in place
of gpu_context.cc. Its memory is the host's, which the ops may not read but through these functions."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from tfxla_cluster.tf.native_op.builder import GPU_API, LAUNCH_WORDS
from tfxla_cluster.tf.native_op.library import _CTYPES, Library
from tfxla_cluster.tf.native_op.op import Program

STREAM = 0x51
_numbers = itertools.count()
_kept: list[object] = []


class FakeGpu:
    """`device`: the one that kernels run on. `on_host`: inputs in the host's memory. `calls`: of each function.
    `memory`: bytes left to allocate."""

    def __init__(self) -> None:
        self.device, self.on_host, self.memory = 0, set[int](), 1 << 30
        self.calls: Counter[str] = Counter()
        self.running: dict[int, list[Any]] = {}
        self.allocator = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(self._allocate)
        self.functions = []
        for name, (result, kinds) in GPU_API.items():
            kind = ctypes.CFUNCTYPE(_CTYPES[str(result)], *(_CTYPES[str(k)] for k in kinds))
            self.functions.append(kind(self._counted(name)))
        _kept.append(self)

    def addresses(self) -> dict[str, int]:
        return {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in zip(GPU_API, self.functions)}

    def _counted(self, name: str) -> Callable[..., Any]:
        function = getattr(self, "_" + name.removeprefix("tfxla_"))

        def call(*args: Any) -> Any:
            self.calls[name] += 1
            return function(*args)

        return call

    def _device(self, context: int) -> int:
        return self.device

    def _begin(self, context: int, launch: int) -> None:
        words = (ctypes.c_int64 * LAUNCH_WORDS).from_address(launch)
        owner = next(_numbers) + 1
        self.running[owner] = []
        words[:] = [STREAM, ctypes.cast(self.allocator, ctypes.c_void_p).value or 0, owner, 0]

    def _end(self, launch: int) -> None:
        del self.running[(ctypes.c_int64 * LAUNCH_WORDS).from_address(launch)[2]]

    def _allocate(self, owner: int, size: int) -> int:
        owner = (ctypes.c_int64 * LAUNCH_WORDS).from_address(owner)[2] if owner not in self.running else owner
        if size > self.memory:
            return 0
        self.running[owner].append(ctypes.create_string_buffer(max(size, 1)))
        return ctypes.addressof(self.running[owner][-1])

    def _on_host(self, context: int, number: int) -> int:
        return int(number in self.on_host)

    def _read(self, context: int, number: int, target: int, source: int, size: int) -> int:
        ctypes.memmove(target, source, size)
        return 0

    def _copy(self, context: int, target: int, source: int, size: int) -> int:
        ctypes.memmove(target, source, size)
        return 0


class Ops:
    """The two ops with the machine code for GPUs and the functions at `addresses`, under names of their own."""

    def __init__(self, addresses: dict[str, int]) -> None:
        library, number = Library.get(), next(_numbers)
        self.run, self.ready = f"TfxlaRunGpu{number}", f"TfxlaReadyGpu{number}"
        engine = library.load_gpu(addresses)
        _kept.append(engine)
        library.define_ops(self.run, self.ready)
        library.register_kernels(engine, "CPU", self.run, self.ready)

    def __call__(self, program: Program, *tensors: Any) -> list[Any]:
        """TfxlaRun, eagerly."""
        return self._execute(self.run, tensors, program.attrs, len(program.output_types))

    def is_ready(self, program: Program, *tensors: Any) -> bool:
        """TfxlaReady, eagerly."""
        return bool(self._execute(self.ready, tensors, program.attrs[:4], 1)[0].numpy())

    def _execute(self, op: str, tensors: Sequence[Any], attrs: tuple[Any, ...], outputs: int) -> list[Any]:
        return pywrap_tfe.TFE_Py_Execute(context.context()._handle, "", op, list(tensors), attrs, outputs)
