"""Inputs and outputs of an executable in device memory of its own, on a stream of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from ..arrays import bind_sizes, empty_outputs, trimmed
from ..plan import LaunchPlan
from . import native
from .driver import Device
from .record_layout import LAUNCH, WORKSPACE

_REQUESTS = 64  # of memory in one execution: the arena, scratch that grows, inputs that lie unaligned

# Addresses of the entry's arguments behind the record: inputs, outputs, sizes, launch.
Launch = Callable[[int, int, int, int], None]


class Prepared:
    """`launch()` any number of times, `results()`; `close()`, or the end of a `with` block, gives the memory back.

    `stream`: the CUstream, for events and capture. Not for several threads at once.
    """

    def __init__(self, plan: LaunchPlan, device: Device, launch: Launch, arrays: Sequence[np.ndarray]) -> None:
        self.plan, self.device, self._launch = plan, device, launch
        inputs = [np.asarray(a, order="C") for a in arrays]
        self.sizes = bind_sizes(plan, inputs)
        self._initial_sizes = self.sizes.copy()
        self._host = empty_outputs(plan, self.sizes)
        self._owned: list[int] = []
        self._workspace = np.zeros(len(WORKSPACE) + 2 * _REQUESTS, np.int64)
        with device.current():
            self.stream = device.driver.number("cuStreamCreate", 1, kind=ctypes.c_void_p)
            try:
                self.inputs = self._table(inputs)
                self.outputs = self._table(self._host)
                self._upload(inputs)
            except BaseException:
                self.close()
                raise
        self._workspace[WORKSPACE["capacity"]] = _REQUESTS
        self._workspace[WORKSPACE["stream"]] = self.stream
        self._workspace[WORKSPACE["driver"]] = device.driver.table.ctypes.data
        self._words = np.zeros(len(LAUNCH), np.int64)
        self._words[LAUNCH["stream"]] = self.stream
        self._words[LAUNCH["allocate"]] = native.launcher().workspace
        self._words[LAUNCH["owner"]] = self._workspace.ctypes.data

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def launch(self) -> None:
        """One execution, which may still run on the device when this returns; MemoryError, TfxlaError."""
        self.rewind()
        self.sizes[:] = self._initial_sizes
        self._launch(*self.arguments())

    def rewind(self) -> None:
        """Have the next execution use the memory of the one before."""
        self._workspace[WORKSPACE["next"]] = 0

    def arguments(self) -> tuple[int, int, int, int]:
        """What the entry takes behind the record: addresses of inputs, outputs, sizes and the launch's words."""
        inputs, outputs, sizes, words = (self.inputs, self.outputs, self.sizes, self._words)
        return inputs.ctypes.data, outputs.ctypes.data, sizes.ctypes.data, words.ctypes.data

    def wait(self) -> None:
        """Until all launches are done; TfxlaError where one failed."""
        with self.device.current():
            self.device.driver.call("cuStreamSynchronize", ctypes.c_void_p(self.stream))

    def results(self) -> list[np.ndarray]:
        """The outputs of the last launch on the host."""
        with self.device.current():
            for address, array in zip(self.outputs.tolist(), self._host):
                place, count = ctypes.c_void_p(address), ctypes.c_size_t(array.nbytes)
                stream = ctypes.c_void_p(self.stream)
                self.device.driver.call(
                    "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(array.ctypes.data), place, count, stream
                )
            self.wait()
        env = dict(zip((s.symbol for s in self.plan.sizes), map(int, self.sizes)))
        return [a.copy() for a in trimmed(self.plan, self._host, env)]

    def written(self) -> list[tuple[int, int]]:
        """(address, bytes) of all that launches write: outputs, temporaries, scratch."""
        pairs = self._workspace[len(WORKSPACE) :].reshape(-1, 2).tolist()
        outputs = [(address, array.nbytes) for address, array in zip(self.outputs.tolist(), self._host)]
        return [(address, count) for address, count in (*outputs, *pairs) if address and count]

    def close(self) -> None:
        """Waits for the launches."""
        if not self.stream:
            return
        workspace = self._workspace[len(WORKSPACE) :: 2].tolist()
        stream = ctypes.c_void_p(self.stream)
        self.stream = 0
        with self.device.current():
            for address in filter(None, (*self._owned, *workspace)):
                self.device.driver.call("cuMemFreeAsync", ctypes.c_void_p(address), stream)
            self.device.driver.call("cuStreamSynchronize", stream)
            self.device.driver.call("cuStreamDestroy_v2", stream)

    def _table(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Addresses of memory of the arrays' sizes."""
        addresses = [self._allocate(a.nbytes) for a in arrays]
        self._owned += addresses
        return np.array(addresses or [0], np.int64)

    def _allocate(self, count: int) -> int:
        """From the device's pool, as the executions' own memory."""
        need, pool, stream = ctypes.c_size_t(max(count, 1)), self.device.pool, self.stream
        return self.device.driver.number(
            "cuMemAllocFromPoolAsync", need, ctypes.c_void_p(pool), ctypes.c_void_p(stream), kind=ctypes.c_void_p
        )

    def _upload(self, arrays: Sequence[np.ndarray]) -> None:
        for address, array in zip(self.inputs.tolist(), arrays):
            place, count = ctypes.c_void_p(address), ctypes.c_size_t(array.nbytes)
            source = ctypes.c_void_p(array.ctypes.data)
            self.device.driver.call("cuMemcpyHtoDAsync_v2", place, source, count, ctypes.c_void_p(self.stream))
