"""The GPU's launcher on a double of the driver: hand-made plans, every kind of step, several devices, failures."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tfxla_cluster.codegen.kernel.code import Code
from tfxla_cluster.errors import InternalError, TfxlaError, UnsupportedError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.ir.dtype import S32, from_numpy
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime import plan_json, random_state
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable, status_error
from tfxla_cluster.runtime.gpu.loaded import entry_of
from tfxla_cluster.runtime.plan import (
    BranchStep,
    CopyStep,
    KernelStep,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Ref,
    SizeSource,
    SizeStep,
    Step,
    TfOpStep,
)

from .gpu_double import POISON, Kernel, Library, double, image
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


@pytest.fixture
def machine() -> Iterator[tuple[Driver, Library]]:
    driver, library = double(2)
    library.kernels |= KERNELS
    yield driver, library
    assert not library.errors, library.errors[0]


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


@pytest.mark.parametrize(("per_task", "tasks"), [(5, 0), (1, 1), (7, 3), (1001, 5)])
def test_two_kernels_and_a_temporary(machine: tuple[Driver, Library], per_task: int, tasks: int) -> None:
    driver, library = machine
    executable = Executable(sum_plan(per_task, tasks), CODE, driver=driver)
    for seed in range(3):
        a, b = random(per_task * tasks, seed), random(per_task * tasks, seed + 9)
        np.testing.assert_array_equal(executable.run([a, b])[0], (a + b) * b)
    assert len(library.launches) == (6 if tasks else 0)
    assert {(made.blocks, made.threads, made.sizes) for made in library.launches} <= {(tasks, 128, (per_task,))}


def test_the_host_does_not_wait_between_kernels(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    n = dims.sym("n", 3)
    temp = Ref("temp", 0, 0)
    steps = (*sum_steps(n, 1, temp), CopyStep(temp, Ref("output", 1), 4 * n))
    plan = LaunchPlan("s", (vector(n),) * 2, (vector(n),) * 2, (SizeSource("n", 0, 0),), steps, (), n * 4)
    executable = Executable(plan, CODE, driver=driver)
    for size in (0, 3, 70):
        a, b = random(size), random(size, 1)
        with executable.prepare([a, b]) as prepared:
            waits = library.calls["cuStreamSynchronize"]
            prepared.launch()
            prepared.launch()
            assert library.calls["cuStreamSynchronize"] == waits
            total, half = prepared.results()
        np.testing.assert_array_equal(total, (a + b) * b)
        np.testing.assert_array_equal(half, a + b)


def test_memory_comes_once_for_many_launches_and_goes(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    before = len(library.blocks)
    with executable.prepare([random(10), random(10, 1)]) as prepared:
        for _ in range(4):
            prepared.launch()
        assert len(library.blocks) == before + 4
        prepared.results()
    assert len(library.blocks) == before


def test_constants_lie_on_the_device_and_equal_ones_once(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    data = random(1000)
    steps = (
        CopyStep(Ref("const", 1), Ref("output", 0), 4000),
        step("twice", [Ref("input", 0)], [Ref("output", 1)], (1,)),
    )
    plan = LaunchPlan("c", (vector(1),), (vector(1000), vector(1)), (), steps, (b"abcd", data.tobytes()), 0)
    both = [Executable(plan, CODE, driver=driver) for _ in range(2)]
    for executable in both:
        big, small = executable.run([random(1, 3)])
        np.testing.assert_array_equal(big, data)
        np.testing.assert_array_equal(small, 2 * random(1, 3))
    assert len(library.blocks) == 2
    assert len(library.loaded) == 1
    del executable
    both.clear()
    gc.collect()
    assert not library.blocks
    assert not library.loaded


@pytest.mark.parametrize(
    ("value", "is_pred", "expected"),
    [(0, False, 0), (1, False, 1), (2, False, 2), (-1, False, 2), (9, False, 2), (True, True, 0), (False, True, 1)],
)
def test_branch(machine: tuple[Driver, Library], value: int, is_pred: bool, expected: int) -> None:
    branches = tuple((CopyStep(Ref("const", n), Ref("output", 0), 4),) for n in range(3))
    branch = BranchStep(Ref("input", 0), is_pred, branches[:2] if is_pred else branches)
    constants = tuple(np.int32(n).tobytes() for n in range(3))
    given = np.asarray(value, np.bool_ if is_pred else np.int32)
    plan = LaunchPlan("b", (array(from_numpy(given.dtype)),), (array(S32),), (), (branch,), constants, 0)
    assert Executable(plan, CODE, driver=machine[0]).run([given])[0] == expected


@pytest.mark.parametrize("count", [-3, 0, 1, 5])
def test_loop(machine: tuple[Driver, Library], count: int) -> None:
    """state: counter (temp 0), flag (64), accumulator (output 0): twice an iteration."""
    counter, flag, next_, out = Ref("temp", 0, 0), Ref("temp", 0, 64), Ref("temp", 0, 128), Ref("output", 0)
    test = step("count_down", [counter], [next_, flag], ())
    body = (CopyStep(next_, counter, 4), step("twice", [out], [out], (3,)))
    steps = (CopyStep(Ref("input", 0), counter, 4), CopyStep(Ref("input", 1), out, 12), LoopStep((test,), flag, body))
    plan = LaunchPlan("l", (array(S32), vector(3)), (vector(3),), (), steps, (), 192)
    (result,) = Executable(plan, CODE, driver=machine[0]).run([np.int32(count), random(3)])
    np.testing.assert_array_equal(result, random(3) * np.float32(2 ** max(count, 0)))


@pytest.mark.parametrize(("outer", "inner"), [(0, 3), (1, 1), (2, 3), (5, 0)])
def test_counted_loops_do_not_wait(machine: tuple[Driver, Library], outer: int, inner: int) -> None:
    driver, library = machine
    out, flag = Ref("output", 0), Ref("const", 0)
    within = LoopStep((), flag, (step("twice", [out], [out], (3,)),), trips=inner)
    around = LoopStep((), flag, (within, step("add", [out, Ref("input", 0)], [out], (3,))), trips=outer)
    plan = LaunchPlan("l", (vector(3),), (vector(3),), (), (CopyStep(Ref("input", 0), out, 12), around), (b"\0",), 0)
    x = random(3)
    want = x
    for _ in range(outer):
        want = want * np.float32(2**inner) + x
    executable = Executable(plan_json.loads(plan_json.dumps(plan)), CODE, driver=driver)
    with executable.prepare([x]) as prepared:
        waits = library.calls["cuStreamSynchronize"]
        for _ in range(2):
            prepared.launch()
        assert library.calls["cuStreamSynchronize"] == waits
        np.testing.assert_array_equal(prepared.results()[0], want)


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


def test_a_size_that_an_instruction_produces(machine: tuple[Driver, Library]) -> None:
    executable = Executable(produced_plan(), CODE, driver=machine[0])
    for size in (0, 1, 8, 64):
        a = random(size, size)
        np.testing.assert_array_equal(executable.run([a])[0], 2 * a[a > 0])


def test_numbers_are_read_where_all_slots_are_taken(machine: tuple[Driver, Library]) -> None:
    driver, _ = machine
    executable = Executable(produced_plan(), CODE, driver=driver)
    driver.device(0).host_slots[:] = 0
    a = random(20)
    np.testing.assert_array_equal(executable.run([a])[0], 2 * a[a > 0])


def test_slots_are_put_back(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(produced_plan(), CODE, driver=driver)
    before = driver.device(0).host_slots.copy()
    executable.run([random(20)])
    library.failing["cuStreamSynchronize"] = (0, 700)
    with pytest.raises(TfxlaError):
        executable.run([random(20)])
    library.failing.clear()
    np.testing.assert_array_equal(np.sort(driver.device(0).host_slots), before)


def test_random_numbers_are_drawn_on_the_host(machine: tuple[Driver, Library]) -> None:
    draw = LibraryStep(random_state.ROUTINE, (), (Ref("output", 0),), (5,))
    plan = LaunchPlan("r", (), (array(S32, (4,)),), (), (draw,), (), 0)
    executable = Executable(plan, CODE, driver=machine[0])
    random_state.seed(3)
    first, second = (executable.run([])[0].view(np.uint64) for _ in range(2))
    random_state.seed(3)
    assert first[0] == second[0]
    assert (first[1], second[1]) == (0, 5)
    assert random_state.draw(1) == (first[0], 0)


def test_each_device_runs_in_its_own_context(machine: tuple[Driver, Library]) -> None:
    """The thread's context is what it was, whatever it was."""
    driver, library = machine
    both = [Executable(sum_plan(5, 2), CODE, number, driver=driver) for number in (0, 1)]
    a, b = random(10), random(10, 1)
    for context in (0, 1, 2):
        library.context = context
        for executable in both:
            np.testing.assert_array_equal(executable.run([a, b])[0], (a + b) * b)
            assert library.context == context
    with pytest.raises(UnsupportedError, match="no GPU 2"):
        Executable(sum_plan(5, 2), CODE, 2, driver=driver)


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


def placed(library: Library, data: np.ndarray, offset: int = 0) -> int:
    address = library.allocate(data.nbytes + offset, 0)
    library.at(address, 0)[offset:] = data.view(np.uint8)
    return address + offset


def test_the_entry_takes_the_callers_stream_and_memory(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    a, b = random(10), random(10, 1)
    out = library.allocate(40, 0)
    places = [placed(library, a), placed(library, b)]
    assert called(executable, library, places, [out], 1) == 0
    np.testing.assert_array_equal(library.at(out, 0).view(F), (a + b) * b)


@pytest.mark.parametrize("offset", [4, 8, 12])
def test_inputs_that_lie_between_multiples_of_16(machine: tuple[Driver, Library], offset: int) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    a, b = random(10), random(10, 1)
    out = library.allocate(40, 0)
    places = [placed(library, a, offset), placed(library, b)]
    assert called(executable, library, places, [out], 2) == 0
    np.testing.assert_array_equal(library.at(out, 0).view(F), (a + b) * b)
    assert called(executable, library, places, [out], 1) == -2


def test_no_memory_for_temporaries(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    data = random(10)
    out = library.allocate(40, 0)
    status = called(executable, library, [placed(library, data)] * 2, [out], 0)
    assert isinstance(status_error(status, "sum"), MemoryError)
    assert (library.at(out, 0) == POISON).all()
    library.memory = 0
    with pytest.raises(MemoryError):
        executable.run([data, data])
    library.memory = 1 << 30
    np.testing.assert_array_equal(executable.run([data, data])[0], 2 * data * data)


def test_no_memory_between_launches(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    data = random(10)
    with executable.prepare([data, data]) as prepared:
        library.failing["cuMemAllocAsync"] = (0, 2)
        with pytest.raises(MemoryError, match="sum"):
            prepared.launch()
        library.failing.clear()
        prepared.launch()
        np.testing.assert_array_equal(prepared.results()[0], 2 * data * data)


def test_a_failure_of_the_driver_is_told(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    data = random(10)
    library.failing["cuLaunchKernel"] = (2, 719)
    with pytest.raises(TfxlaError, match=r"sum on the GPU: CUDA error 719, CUDA_ERROR_OF_THE_DOUBLE: the double"):
        executable.run([data, data])
    library.failing["cuLaunchKernel"] = (0, 2)
    with pytest.raises(MemoryError):
        executable.run([data, data])
    library.failing.clear()
    np.testing.assert_array_equal(executable.run([data, data])[0], 2 * data * data)


def test_global_scratch_is_shared_and_grows(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    a, b, out = Ref("input", 0), Ref("input", 1), Ref("output", 0)
    steps = (
        step("add", [a, b], [out], (4,), 1, global_scratch_bytes=100),
        step("mul", [a, b], [out], (2,), 2, global_scratch_bytes=30),
        step("add", [a, b], [out], (1,), 4, global_scratch_bytes=100),
        step("twice", [a], [out], (4,), 1),
    )
    plan = LaunchPlan("g", (vector(4),) * 2, (vector(4),), (), steps, (), 0)
    executable = Executable(plan, CODE, driver=driver)
    np.testing.assert_array_equal(executable.run([random(4)] * 2)[0], random(4) * 2)
    one, two, three, four = (made.scratch for made in library.launches)
    assert one == two != three
    assert four == 0
    assert one % 128 == three % 128 == 0


def test_attributes_of_a_launch(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    plan = sum_plan(5, 3, num_ctas=2, launch_pdl=1, cooperative=1, shared_bytes=50_000, grid_y=3, grid_z=2)
    a = random(15)
    np.testing.assert_array_equal(Executable(plan, CODE, driver=driver).run([a, a])[0], 2 * a * a)
    made = library.launches[0]
    assert (made.blocks, made.grid, made.shared) == (6, (3, 2), 50_000)
    assert made.attributes == ((4, 2, 1, 1), (5, 1, 0, 0), (2, 1, 0, 0), (6, 1, 0, 0))
    assert ("add", 8, 50_000) in library.attributes_set


def test_a_grid_that_is_too_large(machine: tuple[Driver, Library]) -> None:
    n = dims.sym("n", 3)
    first = step("add", [Ref("input", 0)] * 2, [Ref("output", 0)], (1,), n * 2**30)
    plan = LaunchPlan("g", (vector(n),), (vector(n),), (SizeSource("n", 0, 0),), (first,), (), 0)
    executable = Executable(plan, CODE, driver=machine[0])
    for size in (2, 1000):
        with pytest.raises(UnsupportedError, match="blocks"):
            executable.run([random(size)])


def test_a_retired_record_says_so(machine: tuple[Driver, Library]) -> None:
    executable = Executable(sum_plan(1, 3), CODE, driver=machine[0])
    executable.close()
    with pytest.raises(InternalError, match="retired"):
        executable.run([random(3), random(3)])


def test_timings(machine: tuple[Driver, Library]) -> None:
    executable = Executable(sum_plan(4, 10), CODE, timings=True, driver=machine[0])
    for _ in range(2):
        executable.run([random(40), random(40)])
    assert executable.timings() == [("add", 2, 1_000_000), ("mul", 2, 1_000_000)]


def test_what_cannot_run_is_refused(machine: tuple[Driver, Library]) -> None:
    plan = LaunchPlan("t", (), (), (), (TfOpStep("CollectiveReduceV2", (), (), ()),), (), 0)
    with pytest.raises(UnsupportedError, match="CollectiveReduceV2"):
        Executable(plan, CODE, driver=machine[0])
    plan = LaunchPlan("m", (), (), (), (KernelStep("nowhere", (), (), (), 1),), (), 0)
    with pytest.raises(InternalError, match="nowhere"):
        Executable(plan, CODE, driver=machine[0])
    with pytest.raises(InternalError, match="2 kernels"):
        entry_of(image("a") + image("b"))


def test_many_threads_on_two_devices(machine: tuple[Driver, Library]) -> None:
    driver, _ = machine
    executables = [Executable(produced_plan(), CODE, number, driver=driver) for number in (0, 1)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for round_ in range(20):
            a = random(number + round_, round_)
            if not np.array_equal(executables[(number + round_) % 2].run([a])[0], 2 * a[a > 0]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_whether_a_gpu_is_there(machine: tuple[Driver, Library]) -> None:
    assert drivers.available(1, lambda: machine[0])
    said = drivers.available(5, lambda: machine[0])
    assert not said
    assert (said.rule, "no GPU 5" in said.reason) == ("gpu-driver", True)
    device = machine[0].device(1)
    assert (device.arch, device.multiprocessors) == ("sm_90", 132)


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "_LIBRARY", "libcuda-that-is-not-there.so")
    drivers.driver.cache_clear()
    assert "no CUDA driver" in drivers.available().reason
    library = Library()
    library.failing["cuInit"] = (0, 100)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert "CUDA error 100" in drivers.available().reason
    drivers.driver.cache_clear()
