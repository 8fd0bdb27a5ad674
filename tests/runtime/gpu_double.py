"""A double of the CUDA driver: its C functions as callbacks, host memory as device memory, kernels in Python.

What is given to a stream runs when the host waits for it, not before: a launcher that reads too early reads poison.
Memory knows its device; a kernel or copy that touches another's, or none, is an illegal address. A cubin is the name
of a kernel of `kernels` where a cubin has the name of its entry (`image`).
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tfxla_cluster.runtime.gpu.driver import Driver

from .gpu_double_parts import ATTRIBUTES, SIGNATURES, Block, Failure, Kernel, Launched, Stream, U, Work, put

POISON, FREED = 0x5A, 0xA5
INVALID, OUT_OF_MEMORY, ILLEGAL_ADDRESS, CAPTURING, UPDATE_FAILURE, UNKNOWN = 1, 2, 700, 900, 910, 999


class Library:
    """The functions as attributes. `calls` counts them; `launches` in order; `failing`: function -> (call from which
    on it fails, CUresult), `fails_once` some of them; `memory`: bytes of a device."""

    def __init__(self, devices: int = 1, memory: int = 1 << 30) -> None:
        self.devices, self.memory = devices, memory
        self.kernels: dict[str, Kernel] = {}
        self.calls: Counter[str] = Counter()
        self.launches: list[Launched] = []
        self.attributes_set: list[tuple[str, int, int]] = []
        self.failing: dict[str, tuple[int, int]] = {}
        self.fails_once: set[str] = set()
        self.errors: list[str] = []
        self.blocks: dict[int, Block] = {}
        self.loaded: set[int] = set()
        self.ready: set[int] = set()
        self._handles: dict[int, object] = {}
        self._numbers = itertools.count(0x1000, 16)
        self._current = threading.local()
        self._lock = threading.RLock()
        self._texts = {"cuGetErrorName": b"CUDA_ERROR_OF_THE_DOUBLE", "cuGetErrorString": b"the double says so"}
        for name, kinds in SIGNATURES.items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._guarded(name)))

    def _guarded(self, name: str) -> Callable[..., int]:
        inner = getattr(self, f"_{name.removesuffix('_v2')}")

        def function(*args: int | None) -> int:
            with self._lock:
                self.calls[name] += 1
                first, code = self.failing.get(name, (0, 0))
                if code and self.calls[name] >= first:
                    if name == "cuStreamEndCapture":
                        self._stream(args[0] or 0).captured = None
                    if name in self.fails_once:
                        del self.failing[name]
                    return code
                try:
                    inner(*(a or 0 for a in args))
                except Failure as failure:
                    return failure.code
                except Exception:  # noqa: BLE001 - a callback cannot raise
                    self.errors.append(traceback.format_exc())
                    return UNKNOWN
                return 0

        return function

    def handle(self, thing: object) -> int:
        number = next(self._numbers)
        self._handles[number] = thing
        return number

    # --- devices, contexts, errors ---
    def _cuInit(self, flags: int) -> None:
        pass

    def _text(self, name: str, place: int) -> None:
        put(place, ctypes.cast(ctypes.c_char_p(self._texts[name]), ctypes.c_void_p).value or 0)

    def _cuGetErrorName(self, code: int, place: int) -> None:
        self._text("cuGetErrorName", place)

    def _cuGetErrorString(self, code: int, place: int) -> None:
        self._text("cuGetErrorString", place)

    def _cuDeviceGetCount(self, place: int) -> None:
        put(place, self.devices, ctypes.c_int)

    def _cuDeviceGet(self, place: int, ordinal: int) -> None:
        put(place, ordinal, ctypes.c_int)

    def _cuDeviceGetAttribute(self, place: int, number: int, device: int) -> None:
        put(place, ATTRIBUTES[number], ctypes.c_int)

    def _cuDeviceGetDefaultMemPool(self, place: int, device: int) -> None:
        put(place, 1)

    def _cuMemPoolSetAttribute(self, pool: int, number: int, place: int) -> None:
        pass

    def _cuDevicePrimaryCtxRetain(self, place: int, device: int) -> None:
        put(place, device + 1)

    def _cuCtxGetCurrent(self, place: int) -> None:
        put(place, self.context)

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.context = context

    @property
    def context(self) -> int:
        """Of this thread; 0 is none."""
        return getattr(self._current, "context", 0)

    @context.setter
    def context(self, number: int) -> None:
        self._current.context = number

    def device(self) -> int:
        if not self.context:
            raise Failure(INVALID)
        return self.context - 1

    def _cuCtxSynchronize(self) -> None:
        for stream in self._handles.values():
            if isinstance(stream, Stream) and stream.device == self.device():
                self._drain(stream)

    # --- streams ---
    def _cuStreamCreate(self, place: int, flags: int) -> None:
        put(place, self.handle(Stream(self.device())))

    def _cuStreamDestroy(self, stream: int) -> None:
        del self._handles[stream]

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.device()
        self._drain(self._stream(stream))

    def _stream(self, number: int) -> Stream:
        stream = self._handles[number]
        assert isinstance(stream, Stream)
        return stream

    def _queue(self, stream: int, work: Work) -> None:
        found = self._stream(stream)
        if found.device != self.device():
            raise Failure(INVALID)
        (found.waiting if found.captured is None else found.captured).append(work)

    def _drain(self, stream: Stream) -> None:
        if stream.captured is not None:
            raise Failure(CAPTURING)
        waiting, stream.waiting = stream.waiting, []
        for work in waiting:
            work()

    # --- graphs: what a graph is, is a list of work; one that is executable can take over as many ---
    def _cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        found = self._stream(stream)
        assert found.captured is None
        assert not found.waiting
        found.captured = []

    def _cuStreamEndCapture(self, stream: int, place: int) -> None:
        found = self._stream(stream)
        assert found.captured is not None
        put(place, self.handle(found.captured))
        found.captured = None

    def graphs(self) -> int:
        """How many there are, executable or not."""
        return sum(isinstance(thing, list) for thing in self._handles.values())

    def graph(self, number: int) -> list[Work]:
        graph = self._handles[number]
        assert isinstance(graph, list)
        return graph

    def _cuGraphInstantiateWithFlags(self, place: int, graph: int, flags: int) -> None:
        put(place, self.handle(list(self.graph(graph))))

    def _cuGraphExecUpdate(self, executable: int, graph: int, place: int) -> None:
        if len(self.graph(executable)) != len(self.graph(graph)):
            raise Failure(UPDATE_FAILURE)
        self.graph(executable)[:] = self.graph(graph)

    def _cuGraphExecDestroy(self, executable: int) -> None:
        del self._handles[executable]

    def _cuGraphDestroy(self, graph: int) -> None:
        del self._handles[graph]

    def _cuGraphLaunch(self, executable: int, stream: int) -> None:
        for work in self.graph(executable):
            self._queue(stream, work)

    # --- memory ---
    def allocate(self, count: int, device: int) -> int:
        """Poisoned memory of a device."""
        used = sum(b.memory.nbytes for b in self.blocks.values() if b.device == device)
        if used + count > self.memory:
            raise Failure(OUT_OF_MEMORY)
        raw = np.full(count + 256, POISON, np.uint8)
        start = -raw.ctypes.data % 256
        block = Block(raw[start : start + count], device)
        self.blocks[block.start] = block
        return block.start

    def free(self, address: int) -> None:
        block = self.blocks.pop(address)
        block.memory[:] = FREED

    def at(self, address: int, device: int) -> np.ndarray:
        """The memory from an address on to the end of its block."""
        for block in self.blocks.values():
            if block.start <= address < block.start + max(block.memory.nbytes, 1) and block.device == device:
                return block.memory[address - block.start :]
        raise Failure(ILLEGAL_ADDRESS)

    def _cuMemHostAlloc(self, place: int, count: int, flags: int) -> None:
        self.device()
        memory = np.full(count, POISON, np.uint8)
        self.handle(memory)
        put(place, memory.ctypes.data)

    def _cuMemAlloc(self, place: int, count: int) -> None:
        put(place, self.allocate(count, self.device()))

    def _cuMemAllocAsync(self, place: int, count: int, stream: int) -> None:
        put(place, self.allocate(count, self._stream(stream).device))

    def _cuMemAllocFromPoolAsync(self, place: int, count: int, pool: int, stream: int) -> None:
        put(place, self.allocate(count, self._stream(stream).device))

    def _cuMemFree(self, address: int) -> None:
        self._cuCtxSynchronize()
        self.free(address)

    def _cuMemFreeAsync(self, address: int, stream: int) -> None:
        self._queue(stream, lambda: self.free(address))

    def _cuMemcpyDtoDAsync(self, target: int, source: int, count: int, stream: int) -> None:
        device = self.device()

        def copy() -> None:
            self.at(target, device)[:count] = self.at(source, device)[:count].copy()

        self.at(target, device), self.at(source, device)
        self._queue(stream, copy)

    def _cuMemcpyDtoHAsync(self, target: int, source: int, count: int, stream: int) -> None:
        device = self.device()
        if count:
            self.at(source, device)
            self._queue(
                stream, lambda: ctypes.memmove(target, self.at(source, device)[:count].tobytes(), count) and None
            )

    def _cuMemcpyHtoDAsync(self, target: int, source: int, count: int, stream: int) -> None:
        device, data = self.device(), np.frombuffer(ctypes.string_at(source, count), np.uint8) if count else None

        def copy() -> None:
            self.at(target, device)[:count] = data

        if count:
            self.at(target, device)
            self._queue(stream, copy)

    def _cuMemsetD8Async(self, target: int, value: int, count: int, stream: int) -> None:
        device = self.device()
        self.at(target, device)

        def fill() -> None:
            self.at(target, device)[:count] = value

        self._queue(stream, fill)

    def _cuMemsetD8(self, target: int, value: int, count: int) -> None:
        self.at(target, self.device())[:count] = value

    # --- kernels ---
    def _cuModuleLoadData(self, place: int, data: int) -> None:
        text = ctypes.string_at(data + len(b"\x7fELF\0"))
        number = self.handle((text.decode().removeprefix(".nv.constant0."), self.device()))
        self.loaded.add(number)
        put(place, number)

    def _cuModuleUnload(self, module: int) -> None:
        self.loaded.remove(module)

    def _cuModuleGetFunction(self, place: int, module: int, name: bytes) -> None:
        assert self._handles[module] == (name.decode(), self.device())
        put(place, module)

    def _cuFuncSetAttribute(self, function: int, number: int, value: int) -> None:
        self.attributes_set.append((self._function(function), number, value))

    def _cuFuncLoad(self, function: int) -> None:
        self._function(function)
        self.ready.add(function)

    def _function(self, number: int) -> str:
        name, device = self._handles[number]  # type: ignore[misc]
        if device != self.device() or number not in self.loaded:
            raise Failure(INVALID)
        return str(name)

    def _cuLaunchKernel(self, function: int, *rest: int) -> None:
        blocks, y, z, threads, _, _, shared, stream, parameters, _ = rest
        self._launch(function, (blocks, y, z), threads, shared, stream, parameters, ())

    def _cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: int) -> None:
        blocks, y, z, threads, ty, tz, shared = (U * 7).from_address(config)
        assert (ty, tz) == (1, 1)
        stream, attributes, count = (ctypes.c_uint64 * 3).from_address(config + 32)
        rows = [(ctypes.c_uint32 * 18).from_address(attributes + 72 * n) for n in range(count)]
        given = tuple((row[0], row[2], row[3], row[4]) for row in rows)
        self._launch(function, (blocks, y, z), threads, shared, stream, parameters, given)

    def _launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        stream: int,
        parameters: int,
        attributes: tuple,
    ) -> None:
        name, device, blocks = self._function(function), self.device(), grid[0]
        if self._stream(stream).captured is not None and function not in self.ready:
            raise Failure(CAPTURING)
        self.ready.add(function)
        kernel = self.kernels[name]
        count = len(kernel.dtypes) + kernel.sizes + 2
        places = (ctypes.c_uint64 * count).from_address(parameters)
        values = [ctypes.c_int64.from_address(p).value for p in places]
        pointers, sizes = values[: len(kernel.dtypes)], tuple(values[len(kernel.dtypes) : -2])
        assert values[-1] == 0
        for pointer in pointers:
            if pointer % 16:
                raise Failure(ILLEGAL_ADDRESS)
        ctas = next((row[1] for row in attributes if row[0] == 4), 1)
        self.launches.append(Launched(name, blocks, threads, shared, sizes, values[-2], attributes, grid[1:]))

        def run() -> None:
            memory = [self.at(p, device) if p else np.zeros(0, np.uint8) for p in pointers]  # null: nothing is read
            arrays = [typed(m, d) for m, d in zip(memory, kernel.dtypes)]
            kernel.run(arrays, sizes, blocks // ctas)

        self._queue(stream, run)

    # --- events ---
    def _cuEventCreate(self, place: int, flags: int) -> None:
        put(place, self.handle("event"))

    def _cuEventDestroy(self, event: int) -> None:
        del self._handles[event]

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self._handles[event] = stream

    def _cuEventSynchronize(self, event: int) -> None:
        self._drain(self._stream(self._handles[event]))  # type: ignore[arg-type]

    def _cuEventElapsedTime(self, place: int, start: int, stop: int) -> None:
        ctypes.c_float.from_address(place).value = 0.5


def typed(memory: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As many elements as fit."""
    return memory[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)


def double(devices: int = 1, memory: int = 1 << 30) -> tuple[Driver, Library]:
    """A driver and what it drives."""
    library = Library(devices, memory)
    return Driver(library), library


@contextmanager
def quiet(library: Library) -> Iterator[None]:
    """No callback of the double failed by itself inside the block."""
    yield
    assert not library.errors, library.errors[0]
