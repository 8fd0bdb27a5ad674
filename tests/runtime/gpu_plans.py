"""Hand-made plans for the launcher on the double of the CUDA driver, and the kernels that they launch."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.plan import KernelStep, LaunchPlan, Ref, SizeSource, SizeStep, Step

from .gpu_double import Library
from .gpu_double_parts import Kernel, image
from .hand import vector

F, S, B = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_)
Arrays = Sequence[np.ndarray]


def _add(a: Arrays, sizes: Sequence[int], tasks: int) -> None:
    n = sizes[0] * tasks
    a[2][:n] = a[0][:n] + a[1][:n]


def _multiply(a: Arrays, sizes: Sequence[int], tasks: int) -> None:
    n = sizes[0] * tasks
    a[2][:n] = a[0][:n] * a[1][:n]


def _twice(a: Arrays, sizes: Sequence[int], tasks: int) -> None:
    n = sizes[0] * tasks
    a[1][:n] = a[0][:n] * 2


def _count_down(a: Arrays, sizes: Sequence[int], tasks: int) -> None:
    a[1][0], a[2][0] = a[0][0] - 1, a[0][0] > 0


def _positive_count(a: Arrays, sizes: Sequence[int], tasks: int) -> None:
    found = a[0][: sizes[0]][a[0][: sizes[0]] > 0]
    a[1][: len(found)], a[2][0] = found, len(found)


KERNELS = {
    "add": Kernel((F, F, F), 1, _add),
    "mul": Kernel((F, F, F), 1, _multiply),
    "twice": Kernel((F, F), 1, _twice),
    "count_down": Kernel((S, S, B), 0, _count_down),
    "positive_count": Kernel((F, F, S), 1, _positive_count),
}
CODE = Code(tuple(image(name) for name in KERNELS))


def step(
    symbol: str, inputs: list[Ref], outputs: list[Ref], sizes: tuple[Dim, ...], tasks: Dim = 1, **params: int
) -> KernelStep:
    given = {"object": list(KERNELS).index(symbol), "num_warps": 4, "shared_bytes": 0} | params
    return KernelStep(symbol, tuple(inputs), tuple(outputs), sizes, tasks, instr=symbol, params=tuple(given.items()))


def sum_steps(per_task: Dim, tasks: Dim, temp: Ref, **params: int) -> tuple[Step, ...]:
    """out = (a + b) * b, with a temporary."""
    a, b = Ref("input", 0), Ref("input", 1)
    return (
        step("add", [a, b], [temp], (per_task,), tasks, **params),
        step("mul", [temp, b], [Ref("output", 0)], (per_task,), tasks, **params),
    )


def sum_plan(per_task: int, tasks: int, **params: int) -> LaunchPlan:
    shape = vector(per_task * tasks)
    steps = sum_steps(per_task, tasks, Ref("temp", 0, 64), **params)
    return LaunchPlan("sum", (shape, shape), (shape,), (), steps, (), per_task * tasks * 4 + 64)


def random(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def called(executable: Executable, library: Library, inputs: list[int], outputs: list[int], room: int) -> int:
    """The entry as a native op calls it: its own stream and memory, at most `room` requests."""
    requests: list[int] = []
    place = ctypes.c_int64()
    library.context = 1
    assert library.cuStreamCreate(ctypes.byref(place), 0) == 0  # type: ignore[attr-defined]

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    def allocate(owner: int, count: int) -> int | None:
        assert owner == 77
        requests.append(count)
        return library.allocate(count, 0) if len(requests) <= room else None

    launch = (ctypes.c_int64 * 4)(place.value, ctypes.cast(allocate, ctypes.c_void_p).value or 0, 77, 0)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)(executable.entry)
    tables = ((ctypes.c_uint64 * max(len(t), 1))(*t) for t in (inputs, outputs, [0]))
    status = entry(executable.record, *tables, launch)
    assert library.cuStreamSynchronize(place.value) == 0  # type: ignore[attr-defined]
    return int(status)


def in_threads(work: Callable[[int], None], count: int = 6) -> None:
    """work(0), work(1), ... at once, each in a thread of its own; what one of them raises."""
    ready = threading.Barrier(count)

    def begin(number: int) -> None:
        ready.wait()
        work(number)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(begin, range(count)))


def placed(library: Library, data: np.ndarray, offset: int = 0) -> int:
    address = library.allocate(data.nbytes + offset, 0)
    library.at(address, 0)[offset:] = data.view(np.uint8)
    return address + offset


def produced_plan() -> LaunchPlan:
    """The positive elements, then twice each of them: the second kernel's size is known after the first."""
    n, k = dims.sym("n", 8), dims.bounded("k", 64)
    packed, number = Ref("temp", 0, 0), Ref("temp", 0, 256)
    steps = (
        step("positive_count", [Ref("input", 0)], [packed, number], (n,)),
        SizeStep("k", number),
        step("twice", [packed], [Ref("output", 0)], (1,), k),
    )
    sizes = (SizeSource("n", 0, 0), SizeSource("k", bound=64))
    return LaunchPlan("p", (vector(n),), (vector(k),), sizes, steps, (), 320)
