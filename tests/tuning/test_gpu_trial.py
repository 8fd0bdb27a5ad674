"""A trial on the double of the CUDA driver: poison, zones, graphs, and plans that cannot be captured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.runtime import gpu_plans as gpu
from tests.runtime.gpu_double import Library, double
from tests.runtime.gpu_double_parts import Kernel
from tfxla_cluster.errors import TfxlaError
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.tuning.gpu_trial import GpuTrial
from tfxla_cluster.tuning.trial import trial

N = 700


@pytest.fixture
def machine() -> Iterator[tuple[Driver, Library]]:
    driver, library = double()
    library.kernels |= gpu.KERNELS
    yield driver, library
    assert not library.errors, library.errors[0]
    assert not library.blocks


def trial_of(driver: Driver) -> tuple[GpuTrial, np.ndarray, np.ndarray]:
    a, b = gpu.random(N), gpu.random(N, 1)
    made = trial(Executable(gpu.sum_plan(N, 1), gpu.CODE, driver=driver), [a, b])
    assert isinstance(made, GpuTrial)
    return made, a, b


def test_poison_and_results(machine: tuple[Driver, Library]) -> None:
    one, a, b = trial_of(machine[0])
    for value in (0xFF, 0):
        np.testing.assert_array_equal(one.outputs(value)[0], (a + b) * b)
    assert one.overrun() == ""
    one.close()


def test_what_is_not_written_shows(machine: tuple[Driver, Library]) -> None:
    """A kernel that does nothing leaves the poison."""
    driver, library = machine
    library.kernels["mul"] = Kernel(library.kernels["mul"].dtypes, 1, lambda arrays, sizes, tasks: None)
    one, *_ = trial_of(driver)
    assert np.isnan(one.outputs(0xFF)[0]).all()
    assert not one.outputs(0)[0].any()
    one.close()


@pytest.mark.parametrize(("argument", "place", "said"), [(2, N, "output 0"), (1, N, "input 1"), (1, 3, "input 1 was")])
def test_writing_where_it_must_not(machine: tuple[Driver, Library], argument: int, place: int, said: str) -> None:
    driver, library = machine
    right = library.kernels["mul"]

    def wrong(arrays: list[np.ndarray], sizes: list[int], tasks: int) -> None:
        right.run(arrays, sizes, tasks)
        arrays[argument][place] = 7

    library.kernels["mul"] = Kernel(right.dtypes, right.sizes, wrong)
    one, *_ = trial_of(driver)
    one.outputs(0xFF)
    assert said in one.overrun()
    one.close()


def test_time_is_that_of_graphs(machine: tuple[Driver, Library]) -> None:
    """Ten launches a graph, by the double's half a millisecond between any two events."""
    driver, library = machine
    one, a, b = trial_of(driver)
    assert one.seconds(20) == pytest.approx(0.5e-3 / 20)
    assert (library.calls["cuGraphInstantiateWithFlags"], library.calls["cuGraphLaunch"]) == (1, 2)
    one.seconds(30)
    assert (library.calls["cuGraphInstantiateWithFlags"], library.calls["cuGraphLaunch"]) == (1, 5)
    np.testing.assert_array_equal(one.outputs(0xFF)[0], (a + b) * b)
    one.close()
    assert library.calls["cuGraphExecDestroy"] == 1
    assert library.calls["cuEventCreate"] == library.calls["cuEventDestroy_v2"]


def test_a_plan_that_waits_for_the_host_is_timed_without_a_graph(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    one = trial(Executable(gpu.produced_plan(), gpu.CODE, driver=driver), [gpu.random(60)])
    assert one.seconds(4) == pytest.approx(0.5e-3 / 4)
    assert library.calls["cuGraphLaunch"] == 0
    assert one.overrun() == ""
    one.close()


def test_a_failing_launch_is_told(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    one, *_ = trial_of(driver)
    library.failing["cuLaunchKernel"] = (1, 700)
    with pytest.raises(TfxlaError, match="CUDA error 700"):
        one.outputs(0)
    library.failing.clear()
    one.close()
