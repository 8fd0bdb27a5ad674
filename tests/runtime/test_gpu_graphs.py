"""Executions as CUDA graphs, on the double of the driver: which are, what they compute, what becomes of failures."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tfxla_cluster import trace
from tfxla_cluster.backends import gpu
from tfxla_cluster.dump.schema import RECORD_KINDS
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.options import ALL_EXECUTIONS, CompileOptions
from tfxla_cluster.runtime import random_state
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.gpu.graphs import MOST_NODES, can_capture
from tfxla_cluster.runtime.gpu.prepared import Prepared
from tfxla_cluster.runtime.gpu.record_layout import MOST_FAILURES
from tfxla_cluster.runtime.plan import CopyStep, LaunchPlan, LibraryStep, LoopStep, Ref, SizeSource

from .gpu_double import Library
from .gpu_plans import CODE, in_threads, produced_plan, random, step, sum_plan, sum_steps
from .hand import vector


def launched(prepared: Prepared, inputs: list[np.ndarray], times: int = 1) -> None:
    """Launch and compare with (a + b) * b."""
    for _ in range(times):
        prepared.launch()
        (found,) = prepared.results()
        np.testing.assert_array_equal(found, (inputs[0] + inputs[1]) * inputs[1])
        for address, count in prepared.written():
            prepared.device.driver.call("cuMemsetD8_v2", address, 0, count)


def symbolic_plan() -> LaunchPlan:
    n = dims.sym("n", 3)
    steps = (*sum_steps(1, n, Ref("temp", 0, 0)),)
    return LaunchPlan("s", (vector(n),) * 2, (vector(n),), (SizeSource("n", 0, 0),), steps, (), n * 4)


def test_equal_addresses_are_one_graph(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver, least_graph=2)
    inputs = [random(10), random(10, 1)]
    library.context = 1
    with executable.prepare(inputs) as prepared:
        launched(prepared, inputs, 7)
    assert executable.graphs() == {"replayed": 4, "updated": 0, "made": 1, "busy": 0, "failed": 0}
    assert len(library.launches) == 2 * 3
    assert library.calls["cuGraphLaunch"] == 5
    assert library.calls["cuGraphDestroy"] == 1


def test_a_few_sets_of_addresses_have_a_graph_each(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(symbolic_plan(), CODE, driver=driver, least_graph=2)
    sets = [[random(n, n), random(n, n + 1)] for n in (3, 8, 8, 20)]
    library.context = 1
    prepared = [executable.prepare(inputs) for inputs in sets]
    for _ in range(4):
        for one, inputs in zip(prepared, sets):
            launched(one, inputs)
    assert executable.graphs() == {"replayed": 10, "updated": 0, "made": 4, "busy": 0, "failed": 0}
    for one in prepared:
        one.close()


def test_more_addresses_take_graphs_over(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(symbolic_plan(), CODE, driver=driver, least_graph=2)
    sets = [[random(n, n), random(n, n + 1)] for n in (3, 8, 0, 20, 5, 7)]
    library.context = 1
    prepared = [executable.prepare(inputs) for inputs in sets]
    for _ in range(5):
        for one, inputs in zip(prepared, sets):
            launched(one, inputs)
    counts = executable.graphs()
    assert counts["replayed"] == 0
    assert counts["made"] + counts["updated"] == 28
    assert counts["made"] > 4  # where there is nothing, nothing is launched: another graph
    assert counts["updated"] > 10
    for one in prepared:
        one.close()


def test_counted_loops_and_copies_lie_in_the_graph(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    out = Ref("output", 0)
    loop = LoopStep((), Ref("const", 0), (step("twice", [out], [out], (3,)),), trips=6)
    plan = LaunchPlan("l", (vector(3),), (vector(3),), (), (CopyStep(Ref("input", 0), out, 12), loop), (b"\0",), 0)
    executable = Executable(plan, CODE, driver=driver, least_graph=7)
    x = random(3)
    with executable.prepare([x]) as prepared:
        for _ in range(5):
            prepared.launch()
            np.testing.assert_array_equal(prepared.results()[0], x * 64)
    assert executable.graphs()["replayed"] == 2
    assert len(library.launches) == 18


def test_scratch_belongs_to_each_execution(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    plan = sum_plan(5, 2, global_scratch_bytes=64)
    executable = Executable(plan, CODE, driver=driver, least_graph=2)
    inputs = [random(10), random(10, 1)]
    library.context = 1
    with executable.prepare(inputs) as prepared:
        launched(prepared, inputs, 9)
    assert executable.graphs() == {"replayed": 0, "updated": 3, "made": 4, "busy": 0, "failed": 0}


@pytest.mark.parametrize(
    "function",
    ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "no stream", "cuLaunchKernel"],
)
def test_what_cannot_be_captured_is_launched(machine: tuple[Driver, Library], function: str) -> None:
    """After some failures nobody tries any more."""
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver, least_graph=2)
    inputs = [random(10), random(10, 1)]
    library.context = 1
    if function == "no stream":
        driver.device(0).capture_streams[:] = 0
    with executable.prepare(inputs) as prepared:
        for number in range(10):
            if function == "cuLaunchKernel" and 2 <= number < 6:
                library.failing[function] = (library.calls[function] + 1, 900)
                library.fails_once.add(function)
            elif function != "cuLaunchKernel":
                library.failing[function] = (0, 901)
            launched(prepared, inputs)
    assert executable.graphs() == {"replayed": 0, "updated": 0, "made": 0, "busy": 0, "failed": 4}


def test_no_memory_for_a_graph_is_no_failure_of_the_execution(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver, least_graph=2)
    inputs = [random(10), random(10, 1)]
    library.context = 1
    with executable.prepare(inputs) as prepared:
        launched(prepared, inputs, 2)
        library.failing["cuGraphInstantiateWithFlags"] = (0, 2)
        launched(prepared, inputs)
        library.failing.clear()
        launched(prepared, inputs, 2)
    assert executable.graphs() == {"replayed": 1, "updated": 0, "made": 1, "busy": 0, "failed": 1}


@pytest.mark.parametrize("times", [1, 20])
def test_a_graph_that_the_driver_does_not_launch(machine: tuple[Driver, Library], times: int) -> None:
    """Its steps run one by one, each once; soon no graph is tried any more."""
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver, least_graph=2)
    inputs = [random(10), random(10, 1)]
    library.context = 1
    with executable.prepare(inputs) as prepared:
        launched(prepared, inputs, 3)
        before = len(library.launches)
        library.failing["cuGraphLaunch"] = (0, 2)
        launched(prepared, inputs, times)
        assert len(library.launches) == before + 2 * times
        library.failing.clear()
        launched(prepared, inputs, 3)
    counts = executable.graphs()
    assert counts["failed"] == min(times, MOST_FAILURES)
    assert library.calls["cuGraphLaunch"] == 1 + (times + 3 if times < MOST_FAILURES else MOST_FAILURES)


@pytest.mark.parametrize("has_load", [True, False])
def test_a_kernel_that_first_runs_in_a_capture(machine: tuple[Driver, Library], has_load: bool) -> None:
    """It is loaded before; drivers that cannot do so launch it by itself."""
    driver, library = machine
    if not has_load:
        del library.cuFuncLoad  # type: ignore[attr-defined]
    executable = Executable(symbolic_plan(), CODE, driver=driver, least_graph=2)
    empty, full = [random(0), random(0, 1)], [random(4), random(4, 1)]
    library.context = 1
    for inputs, times in ((empty, 2), (full, 3)):
        with executable.prepare(inputs) as prepared:
            launched(prepared, inputs, times)
    counts = executable.graphs()
    assert (counts["failed"], counts["made"]) == ((0, 1) if has_load else (1, 1))


def test_graphs_go_with_their_executable(machine: tuple[Driver, Library]) -> None:
    driver, library = machine
    executable = Executable(symbolic_plan(), CODE, driver=driver, least_graph=2)
    inputs = [random(4), random(4, 1)]
    library.context = 1
    with executable.prepare(inputs) as prepared:
        launched(prepared, inputs, 4)
    assert library.graphs() == 1
    del executable, prepared
    gc.collect()
    assert library.graphs() == 0


def test_many_threads_and_few_graphs(machine: tuple[Driver, Library]) -> None:
    driver, _ = machine
    executable = Executable(symbolic_plan(), CODE, driver=driver, least_graph=2)

    def work(number: int) -> None:
        a, b = random(number + 1, number), random(number + 1, number + 50)
        with executable.prepare([a, b]) as prepared:
            for _ in range(15):
                prepared.launch()
                np.testing.assert_array_equal(prepared.results()[0], (a + b) * b)

    in_threads(work)
    counts = executable.graphs()
    assert counts["failed"] == 0
    assert counts["replayed"] + counts["updated"] + counts["made"] + counts["busy"] == 6 * 15 - 2


def test_the_backend_of_this_machine_makes_graphs_by_option(
    machine: tuple[Driver, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "driver", lambda: machine[0])
    told: list[dict[str, object]] = []
    monkeypatch.setattr(trace, "wants", lambda kind: kind == "graph")
    monkeypatch.setattr(trace, "record", lambda kind, **fields: told.append(fields) if kind == "graph" else None)
    backend = gpu.this_machine(1)
    assert (backend.target.arch, backend.target.cores, backend.device) == ("sm_90", 132, 1)
    inputs = [random(10), random(10, 1)]
    for least, graphs in ((2, 1), (3, 0)):
        launcher = backend.load(sum_plan(5, 2), CODE, CompileOptions(least_graph=least))
        assert isinstance(launcher, Executable)
        assert launcher.device.ordinal == 1
        assert (launcher.graphs().get("failed") == 0) == bool(graphs)
        np.testing.assert_array_equal(launcher.run(inputs)[0], (inputs[0] + inputs[1]) * inputs[1])
    assert [(t["module"], t["ok"], t["rule"]) for t in told] == [("sum", True, ""), ("sum", False, "graph-size")]
    assert all(set(t) == {*RECORD_KINDS["graph"].fields} for t in told)


def test_which_plans_are_graphs(machine: tuple[Driver, Library]) -> None:
    plan = sum_plan(5, 2)
    assert can_capture(plan, 2)
    assert can_capture(plan, 3).rule == "graph-size"
    assert can_capture(plan, 0).rule == "graph-size"
    assert can_capture(produced_plan(), 1).rule == "graph-host"
    draw = LibraryStep(random_state.ROUTINE, (), (Ref("output", 0),), (5,))
    assert can_capture(LaunchPlan("r", (), (), (), (draw,), (), 0), 1).rule == "graph-host"
    loop = LoopStep((), Ref("const", 0), plan.steps, trips=MOST_NODES)
    assert can_capture(LaunchPlan("l", (), (), (), (loop,), (), 0), 1).rule == "graph-size"
    uncounted = LoopStep((), Ref("temp"), plan.steps)
    assert can_capture(LaunchPlan("l", (), (), (), (uncounted,), (), 0), 1).rule == "graph-host"
    timed = Executable(plan, CODE, timed=ALL_EXECUTIONS, driver=machine[0], least_graph=1)
    assert timed.captured.rule == "graph-timed"
    assert timed.graphs() == {}
