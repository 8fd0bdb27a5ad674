"""The GPU's launcher on a double of the driver: hand-made plans, every kind of step, several devices, failures."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tfxla_cluster.errors import TfxlaError, UnsupportedError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dtype import S32, from_numpy
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime import plan_json, random_state
from tfxla_cluster.runtime.gpu.driver import Driver
from tfxla_cluster.runtime.gpu.executable import Executable
from tfxla_cluster.runtime.plan import BranchStep, CopyStep, LaunchPlan, LibraryStep, LoopStep, Ref, SizeSource

from .gpu_double import Library
from .gpu_plans import CODE, F, called, placed, produced_plan, random, step, sum_plan, sum_steps
from .hand import vector


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


def test_literals_are_held_on_the_device_while_something_has_them(machine: tuple[Driver, Library]) -> None:
    """As executables for many sizes take them: inputs that are the same at each call."""
    driver, library = machine
    executable = Executable(sum_plan(5, 2), CODE, driver=driver)
    before, waits = len(library.blocks), library.calls["cuStreamSynchronize"]
    assert executable.hold([]) == ()
    assert library.calls["cuStreamSynchronize"] == waits
    literals = [random(10, seed).tobytes() for seed in (3, 4, 3)]
    held = executable.hold(literals)
    assert library.calls["cuStreamSynchronize"] > waits
    assert held[0].address == held[2].address != held[1].address
    assert len(library.blocks) == before + 2
    for one, literal in zip(held, literals):
        assert library.at(one.address, 0)[: len(literal)].tobytes() == literal
    del one, held
    gc.collect()
    assert len(library.blocks) == before
