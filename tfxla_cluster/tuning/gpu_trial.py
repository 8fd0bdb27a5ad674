"""A trial on a GPU: memory between zones on the device, launches timed by events, in a graph where that goes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..errors import TfxlaError
from ..runtime.gpu.driver import Device
from ..runtime.gpu.executable import Executable
from ..runtime.gpu.prepared import Prepared
from .check import same_bits

_ZONE = 4096  # bytes before and after each array
_PATTERN = 0xA5  # of which the zones are made
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: other threads may use the driver meanwhile
_LAUNCHES = 10  # of one graph


class GpuTrial:
    """A trial.Trial of an executable on a GPU."""

    def __init__(self, executable: Executable, arrays: Sequence[np.ndarray]) -> None:
        self._given = [np.asarray(a, order="C") for a in arrays]
        self._executable = executable
        self._memory = _Guarded(executable.plan, executable.device, executable.launch, self._given)
        self._graph: int | None = None

    def outputs(self, poison: int) -> list[np.ndarray]:
        self._memory.poison(poison)
        self._memory.launch()
        return self._memory.results()

    def overrun(self) -> str:
        inputs, outputs = self._memory.bases[: len(self._given)], self._memory.bases[len(self._given) :]
        for name, places in (("input", inputs), ("output", outputs)):
            for number, (base, count) in enumerate(places):
                before, after = self._memory.fetch(base, _ZONE), self._memory.fetch(base + _ZONE + count, _ZONE)
                if (before != _PATTERN).any() or (after != _PATTERN).any():
                    return f"bytes beside {name} {number} were written"
        shared = {i for _, i in self._executable.plan.aliases}
        for number, ((base, count), given) in enumerate(zip(inputs, self._given)):
            if number not in shared and not same_bits(self._memory.fetch(base + _ZONE, count), given):
                return f"input {number} was written"
        return ""

    def seconds(self, count: int) -> float:
        if self._graph is None:
            self._memory.launch()  # what it needs of memory is there from now on
            self._memory.wait()
            self._graph = self._memory.captured(_LAUNCHES)
        if not self._graph:
            return self._memory.timed(self._memory.launch, count)
        graph, rounds = self._graph, -(-count // _LAUNCHES)
        return self._memory.timed(lambda: self._memory.replay(graph), rounds) / _LAUNCHES

    def close(self) -> None:
        self._memory.forget(self._graph or 0)
        self._memory.close()
        self._executable.close()


class _Guarded(Prepared):
    """Device memory of an execution, each array between two zones; `bases`: where each begins, and its bytes."""

    def _table(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        self.bases = [*getattr(self, "bases", ())]
        found = []
        for array in arrays:
            base = self._allocate(array.nbytes + 2 * _ZONE)
            self._owned.append(base)
            self.bases.append((base, array.nbytes))
            self._fill(base, _PATTERN, array.nbytes + 2 * _ZONE)
            found.append(base + _ZONE)
        return np.array(found or [0], np.int64)

    def _fill(self, place: int, value: int, count: int) -> None:
        if count:
            stream = ctypes.c_void_p(self.stream)
            self._call("cuMemsetD8Async", ctypes.c_void_p(place), ctypes.c_ubyte(value), ctypes.c_size_t(count), stream)

    def _call(self, name: str, *args: object) -> None:
        self.device.driver.call(name, *args)

    def poison(self, value: int) -> None:
        """All bytes of the outputs become `value`."""
        with self.device.current():
            for base, count in self.bases[len(self.bases) - len(self.plan.outputs) :]:
                self._fill(base + _ZONE, value, count)

    def fetch(self, place: int, count: int) -> np.ndarray:
        """Bytes of the device."""
        found = np.zeros(count, np.uint8)
        with self.device.current():
            target, source = ctypes.c_void_p(found.ctypes.data), ctypes.c_void_p(place)
            self._call("cuMemcpyDtoHAsync_v2", target, source, ctypes.c_size_t(count), ctypes.c_void_p(self.stream))
            self.wait()
        return found

    def timed(self, work: Callable[[], None], count: int) -> float:
        """Seconds of one of `count` in a row, by events of the stream."""
        with self.device.current(), _event(self.device) as start, _event(self.device) as stop:
            stream = ctypes.c_void_p(self.stream)
            self._call("cuEventRecord", start, stream)
            for _ in range(count):
                work()
            self._call("cuEventRecord", stop, stream)
            self._call("cuEventSynchronize", stop)
            milliseconds = ctypes.c_float()
            self._call("cuEventElapsedTime", ctypes.byref(milliseconds), start, stop)
        return milliseconds.value * 1e-3 / count

    def captured(self, count: int) -> int:
        """A graph of so many launches; 0 where the plan waits for the host, which no graph can."""
        driver, stream = self.device.driver, ctypes.c_void_p(self.stream)
        with self.device.current():
            self._call("cuStreamBeginCapture_v2", stream, _RELAXED)
            try:
                for _ in range(count):
                    self.launch()
                failed = False
            except TfxlaError:
                failed = True
            graph = ctypes.c_void_p()
            try:
                self._call("cuStreamEndCapture", stream, ctypes.byref(graph))
            except TfxlaError:
                failed = True
            if failed or not graph.value:
                return 0
            made = driver.number("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0), kind=ctypes.c_void_p)
            self._call("cuGraphDestroy", graph)
        return made

    def replay(self, graph: int) -> None:
        self._call("cuGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(self.stream))

    def forget(self, graph: int) -> None:
        """Destroy the graph, if there is one."""
        if graph:
            with self.device.current():
                self.wait()
                self._call("cuGraphExecDestroy", ctypes.c_void_p(graph))


@contextmanager
def _event(device: Device) -> Iterator[ctypes.c_void_p]:
    event = ctypes.c_void_p(device.driver.number("cuEventCreate", 0, kind=ctypes.c_void_p))
    try:
        yield event
    finally:
        device.driver.call("cuEventDestroy_v2", event)
