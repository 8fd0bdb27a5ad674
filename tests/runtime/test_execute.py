"""The interpreter and the pool: hand-made plans, every kind of step, many threads, forks."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tfxla_cluster.errors import InternalError, TfxlaError, UsageError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dtype import F32, S32, S64, from_numpy
from tfxla_cluster.ir.shape import array
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.cpu import native
from tfxla_cluster.runtime.cpu.executable import Executable, trim_memory
from tfxla_cluster.runtime.launcher.record_layout import STEP_ROW, STEP_SAMPLES, STEP_TIMES
from tfxla_cluster.runtime.launcher.step_times import StepTime, StepTimes, TimedStep
from tfxla_cluster.runtime.plan import BranchStep, CopyStep, KernelStep, LaunchPlan, LoopStep, Ref, SizeSource, SizeStep

from .hand import HandCode, kernel, sum_plan, vector


@pytest.fixture(scope="module")
def code() -> HandCode:
    return HandCode()


def random(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


@pytest.mark.parametrize(("tasks", "per_task"), [(0, 5), (1, 0), (1, 1), (3, 7), (64, 1000), (500, 1001)])
def test_two_kernels_and_a_temporary(code: HandCode, tasks: int, per_task: int) -> None:
    executable = Executable(sum_plan(tasks, per_task), code)
    a, b = random(tasks * per_task), random(tasks * per_task, 1)
    for _ in range(5):
        (out,) = executable.run([a, b])
        np.testing.assert_array_equal(out, (a + b) * b)


def test_constants_and_copies(code: HandCode) -> None:
    data = random(600_000)
    n = len(data)
    steps = (CopyStep(Ref("const", 1), Ref("output", 0), 4 * n), CopyStep(Ref("input", 0), Ref("output", 1), 4))
    plan = LaunchPlan("c", (vector(1),), (vector(n), vector(1)), (), steps, (b"abcd", data.tobytes()), 0)
    big, small = Executable(plan, code).run([random(1, 3)])
    np.testing.assert_array_equal(big, data)
    np.testing.assert_array_equal(small, random(1, 3))


@pytest.mark.parametrize(
    ("value", "is_pred", "expected"),
    [(0, False, 0), (1, False, 1), (2, False, 2), (-1, False, 2), (9, False, 2), (True, True, 0), (False, True, 1)],
)
def test_branch(code: HandCode, value: int, is_pred: bool, expected: int) -> None:
    branches = tuple((CopyStep(Ref("const", n), Ref("output", 0), 4),) for n in range(3))
    step = BranchStep(Ref("input", 0), is_pred, branches[:2] if is_pred else branches)
    constants = tuple(np.int32(n).tobytes() for n in range(3))
    dtype = np.asarray(value, np.bool_ if is_pred else np.int32)

    plan = LaunchPlan("b", (array(from_numpy(dtype.dtype)),), (array(S32),), (), (step,), constants, 0)
    (out,) = Executable(plan, code).run([dtype])
    assert out == expected


@pytest.mark.parametrize("count", [-3, 0, 1, 5])
def test_loop(code: HandCode, count: int) -> None:
    """state: counter (temp 0), flag (64), accumulator (output 0): twice an iteration."""
    counter, flag, next_ = Ref("temp", 0, 0), Ref("temp", 0, 64), Ref("temp", 0, 128)
    out = Ref("output", 0)
    test = KernelStep("count_down", (counter,), (next_, flag), (), 1)
    body = (CopyStep(next_, counter, 4), kernel("twice", [out], [out], 3, 1))
    steps = (CopyStep(Ref("input", 0), counter, 4), CopyStep(Ref("input", 1), out, 12), LoopStep((test,), flag, body))
    plan = LaunchPlan("l", (array(S32), vector(3)), (vector(3),), (), steps, (), 192)
    (result,) = Executable(plan, code).run([np.int32(count), random(3)])
    np.testing.assert_array_equal(result, random(3) * np.float32(2 ** max(count, 0)))


def test_symbolic_sizes(code: HandCode) -> None:
    n = dims.sym("n", 100)
    temp = Ref("temp", 0, n * 4 // 64 * 64 + 64)
    steps = (
        kernel("add", [Ref("input", 0), Ref("input", 1)], [temp], n, 1, n),
        kernel("mul", [temp, Ref("input", 1)], [Ref("output", 0)], n, 1, n),
    )
    sizes = (SizeSource("n", 0, 0),)
    plan = LaunchPlan("s", (vector(n), vector(n)), (vector(n),), sizes, steps, (), n * 8 + 128)
    executable = Executable(plan, code)
    for size in (0, 1, 17, 100_003, 5, 1_000_003):
        a, b = random(size), random(size, 1)
        np.testing.assert_array_equal(executable.run([a, b])[0], (a + b) * b)
    with pytest.raises(UsageError, match="input 1"):
        executable.run([random(3), random(4)])


def test_a_size_out_of_its_range_is_refused(code: HandCode) -> None:
    n = dims.sym("n", 100, 2, 64)
    steps = (kernel("twice", [Ref("input", 0)], [Ref("output", 0)], n, 1),)
    plan = LaunchPlan("r", (vector(n),), (vector(n),), (SizeSource("n", 0, 0),), steps, (), 0)
    for executable in (Executable(plan, code), Executable(plan_json.loads(plan_json.dumps(plan)), code)):
        assert executable.run([random(64)])[0].shape == (64,)
        for size in (1, 65):
            with pytest.raises(UsageError, match=f"the size n is {size}, but must be at least 2 and at most 64"):
                executable.run([random(size)])


@pytest.mark.parametrize(
    ("op", "expected"), [("add", 7 + 3), ("mul", 7 * 3), ("floordiv", 2), ("mod", 1), ("max", 7), ("min", 3)]
)
def test_size_expressions(code: HandCode, op: str, expected: int) -> None:
    a, b = dims.sym("a", 1), dims.sym("b", 1)
    count = dims.make(op, a, b)
    sizes = (SizeSource("a", 0, 0), SizeSource("b", 1, 0))
    steps = (kernel("twice", [Ref("input", 0)], [Ref("output", 0)], dims.make("min", count, a), 1),)
    plan = LaunchPlan("e", (vector(a), vector(b)), (vector(count),), sizes, steps, (), 0)
    (out,) = Executable(plan, code).run([random(7), random(3)])
    assert out.shape == (expected,)
    assert (out[: min(expected, 7)] == 2 * random(7)[:expected]).all()


def test_negative_floor_division(code: HandCode) -> None:
    """max(0, (n - 5) // 4 + 2) at n = 2: (-3) // 4 is -1 as in Python."""
    n = dims.sym("n", 1)
    count = dims.make("max", (n - 5) // 4 + 2, 0)
    steps = (kernel("twice", [Ref("input", 0)], [Ref("output", 0)], count, 1),)
    plan = LaunchPlan("e", (vector(n),), (vector(count),), (SizeSource("n", 0, 0),), steps, (), 0)
    assert Executable(plan, code).run([random(2)])[0].shape == (1,)


def test_a_size_that_an_instruction_produces(code: HandCode) -> None:
    """The positive elements, then twice each of them: the second kernel's size is known after the first."""
    n, k = dims.sym("n", 8), dims.bounded("k", 64)
    packed, number = Ref("temp", 0, 0), Ref("temp", 0, 256)
    steps = (
        KernelStep("positive_count", (Ref("input", 0),), (packed, number), (n,), 1),
        SizeStep("k", number),
        kernel("twice", [packed], [Ref("output", 0)], k, 1),
    )
    sizes = (SizeSource("n", 0, 0), SizeSource("k", bound=64))
    executable = Executable(LaunchPlan("p", (vector(n),), (vector(k),), sizes, steps, (), 320), code)
    for size in (0, 1, 8, 64):
        a = random(size, size)
        np.testing.assert_array_equal(executable.run([a])[0], 2 * a[a > 0])


def test_scratch_of_every_thread(code: HandCode) -> None:
    step = KernelStep("scratch_index", (), (Ref("output", 0),), (100_000,), 1, 1, 800_000)
    plan = LaunchPlan("x", (), (array(S64, (1,)),), (), (step,) * 3, (), 64)
    assert Executable(plan, code).run([])[0] == 0


def test_a_kernel_that_fails_stops_the_plan(code: HandCode) -> None:
    steps = (KernelStep("fail", (), (), (), 1), CopyStep(Ref("input", 0), Ref("output", 0), 4))
    plan = LaunchPlan("f", (vector(1),), (vector(1),), (), steps, (), 0)
    with pytest.raises(TfxlaError, match="status 7"):
        Executable(plan, code).run([random(1)])


def test_missing_machine_code_is_an_error(code: HandCode) -> None:
    plan = LaunchPlan("m", (), (), (), (KernelStep("nowhere", (), (), (), 1),), (), 0)
    with pytest.raises(InternalError, match="nowhere"):
        Executable(plan, code)


def test_a_retired_record_says_so(code: HandCode) -> None:
    executable = Executable(sum_plan(1, 3), code)
    executable.close()
    with pytest.raises(InternalError, match="retired"):
        executable.run([random(3), random(3)])


def test_timings(code: HandCode) -> None:
    executable = Executable(sum_plan(4, 10), code, timed=3)
    for executions in range(6):
        times = executable.times()
        assert times is not None
        assert times.executions == min(executions, 3)
        assert [(t.step.name, t.calls) for t in times.read()] == [(n, min(executions, 3)) for n in ("add", "mul")][
            : 2 * (executions > 0)
        ]
        for time in times.read():
            assert 0 < time.least <= time.median <= time.total
            assert time.calls * time.least <= time.total
        executable.run([random(40), random(40)])


def test_the_median_is_of_the_last_calls(code: HandCode) -> None:
    times = StepTimes([TimedStep("a", "k"), TimedStep("", "copy")], 100)
    rows = (ctypes.c_int64 * (len(STEP_TIMES) + 2 * STEP_ROW)).from_address(times.address)
    row = rows[len(STEP_TIMES) : len(STEP_TIMES) + STEP_ROW]
    row[:] = [40, 1000, 7, *range(100, 100 + STEP_SAMPLES)]
    rows[len(STEP_TIMES) : len(STEP_TIMES) + STEP_ROW] = row
    assert times.read() == [StepTime(TimedStep("a", "k"), 40, 1000, 7, 115.5)]


def test_executions_that_are_not_timed_leave_no_time(code: HandCode) -> None:
    executable = Executable(sum_plan(4, 10), code)
    executable.run([random(40), random(40)])
    assert executable.times() is None


def test_denormals_flush_and_the_caller_keeps_its_mode(code: HandCode) -> None:
    tiny = np.full(3, 1e-40, np.float32)
    plan = sum_plan(1, 3)
    (out,) = Executable(plan, code).run([tiny, np.ones(3, np.float32) * np.float32(1e-30)])
    assert (tiny * np.float32(1.0) != 0).all()
    steps = (kernel("twice", [Ref("input", 0)], [Ref("output", 0)], 3, 1),)
    (out,) = Executable(LaunchPlan("t", (vector(3),), (vector(3),), (), steps, (), 0), code).run([tiny])
    assert (out == 0).all()


Case = tuple[Executable, list[np.ndarray], np.ndarray]


def _hammer(executables: list[Case], rounds: int, bad: list[int]) -> None:
    for n in range(rounds):
        executable, inputs, expected = executables[n % len(executables)]
        if not np.array_equal(executable.run(inputs)[0], expected):
            bad.append(n)


def test_many_threads_share_four_executables(code: HandCode) -> None:
    """Right answers, and memory does not grow."""
    cases = []
    for tasks, per in ((1, 3), (7, 111), (64, 300), (100, 1001)):
        a, b = random(tasks * per), random(tasks * per, 1)
        cases.append((Executable(sum_plan(tasks, per), code), [a, b], (a + b) * b))
    bad: list[int] = []

    def run_all(rounds: int) -> int:
        threads = [threading.Thread(target=_hammer, args=(cases, rounds, bad)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run_all(200)
    after = run_all(1000)
    assert not bad
    assert after - before < 20_000  # KiB
    trim_memory()


def test_executables_come_and_go_while_others_run(code: HandCode) -> None:
    bad: list[int] = []
    stop = threading.Event()
    a, b = random(150), random(150, 1)

    def churn() -> None:
        while not stop.is_set():
            executable = Executable(sum_plan(3, 50), code)
            _hammer([(executable, [a, b], (a + b) * b)], 3, bad)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    threading.Timer(1.5, stop.set).start()
    for thread in threads:
        thread.join()
    assert not bad


_FORK = """
import os, numpy as np
from tests.runtime.hand import HandCode, sum_plan
from tfxla_cluster.runtime.cpu import native
from tfxla_cluster.runtime.cpu.executable import Executable
a, b = np.random.default_rng(0).normal(size=(2, 500_500)).astype(np.float32)
executable = Executable(sum_plan(500, 1001), HandCode())
native.runtime().setting("threads").value = 3
right = lambda: np.array_equal(executable.run([a, b])[0], (a + b) * b)
assert right() and native.runtime().setting("workers").value == 2
child = os.fork()
if child == 0:
    fresh = native.runtime().setting("workers").value == 0
    os._exit(0 if fresh and all(right() for _ in range(20)) else 1)
assert os.waitpid(child, 0)[1] == 0
assert right()
"""


def test_a_forked_child_runs_and_starts_its_own_workers() -> None:
    """In a process of its own: other tests have threads that do not survive a fork."""
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=60, cwd=Path(__file__).parents[2])


def test_a_lock_held_by_another_thread_is_free_in_a_forked_child() -> None:
    script = """
import os, threading
from tfxla_cluster.locks import ForkSafeLock
lock = ForkSafeLock()
holder = threading.Thread(target=lock.acquire)
holder.start()
holder.join()
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(blocking=False) else 1)
assert os.waitpid(child, 0)[1] == 0
assert not lock.acquire(blocking=False)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=Path(__file__).parents[2])


def test_more_threads_than_cores(code: HandCode) -> None:
    threads = native.runtime().setting("threads")
    before = threads.value
    threads.value = 6
    try:
        a, b = random(500_500), random(500_500, 1)
        executable = Executable(sum_plan(500, 1001), code)
        for _ in range(50):
            np.testing.assert_array_equal(executable.run([a, b])[0], (a + b) * b)
    finally:
        threads.value = before


def test_pred_and_float_inputs_are_checked(code: HandCode) -> None:
    executable = Executable(sum_plan(1, 3), code)
    with pytest.raises(UsageError, match="takes 2 inputs"):
        executable.run([random(3)])
    with pytest.raises(UsageError, match="must be f32"):
        executable.run([random(3).astype(np.float64), random(3)])
    assert executable.plan.inputs[0].dtype is F32
