"""The launcher of GPUs where something is missing, fails or is too large, and its attributes, timings and threads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tfxla_cluster.errors import InternalError, TfxlaError, UnsupportedError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable, status_error
from tfxla_cluster.runtime.gpu.loaded import entry_of
from tfxla_cluster.runtime.plan import KernelStep, LaunchPlan, Ref, SizeSource, TfOpStep

from .gpu_double import POISON, Library
from .gpu_double_parts import image
from .gpu_plans import CODE, called, in_threads, placed, produced_plan, random, step, sum_plan
from .hand import vector


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
    executable = Executable(sum_plan(4, 10), CODE, timed=2, driver=machine[0])
    for _ in range(3):
        executable.run([random(40), random(40)])
    times = executable.times()
    assert times is not None
    assert [(t.step.name, t.calls, t.total, t.least, t.median) for t in times.read()] == [
        (name, 2, 1_000_000, 500_000, 500_000) for name in ("add", "mul")
    ]
    assert machine[1].calls["cuEventCreate"] == machine[1].calls["cuEventDestroy_v2"] == 4


@pytest.mark.parametrize("event", [1, 2])
def test_without_events_an_execution_is_not_timed(machine: tuple[Driver, Library], event: int) -> None:
    machine[1].failing["cuEventCreate"] = event, 2
    executable = Executable(sum_plan(4, 10), CODE, timed=2, driver=machine[0])
    data = [random(40), random(40)]
    np.testing.assert_array_equal(
        executable.run(data)[0], Executable(sum_plan(4, 10), CODE, driver=machine[0]).run(data)[0]
    )
    times = executable.times()
    assert times is not None
    assert times.read() == []
    assert machine[1].calls["cuEventDestroy_v2"] == event - 1


def test_after_the_timed_executions_come_graphs(machine: tuple[Driver, Library]) -> None:
    executable = Executable(sum_plan(4, 10), CODE, timed=2, driver=machine[0], least_graph=1)
    data = [random(40), random(40)]
    for _ in range(6):
        executable.run(data)
    times = executable.times()
    assert times is not None
    assert {t.calls for t in times.read()} == {2}
    assert sum(executable.graphs()[how] for how in ("replayed", "updated", "made")) == 2


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

    def work(number: int) -> None:
        for round_ in range(20):
            a = random(number + round_, round_)
            np.testing.assert_array_equal(executables[(number + round_) % 2].run([a])[0], 2 * a[a > 0])

    in_threads(work)


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
