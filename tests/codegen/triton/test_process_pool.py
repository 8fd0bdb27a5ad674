"""Processes that are kept: shared by threads, replaced when they end, not a forked child's, gone with the parent."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.codegen.triton import echo_process
from tfxla_cluster.codegen.triton.process_pool import Lost, ProcessPool

MODULE = echo_process.__name__


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    made = ProcessPool(MODULE)
    yield made
    made.close()


def asked(pool: ProcessPool, job: object) -> tuple[int, object]:
    answer = pool.ask(job)
    assert isinstance(answer, tuple)
    return answer


def alive(pid: int) -> bool:
    """A process that ended and that nobody waited for (a zombie) is not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, seconds: float = 20) -> bool:
    stop = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < stop:
        time.sleep(0.05)
    return not alive(pid)


def test_one_process_answers_one_after_the_other(pool: ProcessPool) -> None:
    large = os.urandom(3_000_000)  # more than a pipe holds, both ways
    first, second = asked(pool, large), asked(pool, "more")
    assert (first[1], second[1]) == (large, "more")
    assert first[0] == second[0] != os.getpid()


def test_threads_that_ask_at_once_have_a_process_each(pool: ProcessPool) -> None:
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda job: asked(pool, job), [1.0, 1.5, 2.0]))
    assert [job for _, job in answers] == [1.0, 1.5, 2.0]
    assert len({pid for pid, _ in answers}) == len(pool.pids()) == 3
    asked(pool, "again")
    assert len(pool.pids()) == 3


def test_a_process_that_ends_over_its_job_costs_that_job(pool: ProcessPool) -> None:
    asked(pool, "first")
    assert isinstance(pool.ask("end"), Lost)
    assert asked(pool, "next")[1] == "next"
    assert len(pool.pids()) == 1


def test_a_process_that_was_killed_meanwhile_is_replaced(pool: ProcessPool) -> None:
    pid, _ = asked(pool, "first")
    os.kill(pid, signal.SIGKILL)
    other, job = asked(pool, "second")
    assert (other != pid, job) == (True, "second")


def test_an_idle_process_ends() -> None:
    pool = ProcessPool(MODULE, idle_s=0.1)
    pid, _ = asked(pool, "first")
    assert ends(pid)
    assert asked(pool, "second")[0] != pid
    pool.close()


def test_a_job_that_cannot_be_sent_raises_and_leaves_no_process(pool: ProcessPool) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pool.ask(lambda: None)
    assert pool.pids() == []


def test_closing_ends_what_runs(pool: ProcessPool) -> None:
    pid, _ = asked(pool, "first")
    pool.close()
    assert ends(pid)


# Each prints what the test compares; in a process of its own, since forking one with threads is not for a test runner.
_FORKED = f"""
import os
from tfxla_cluster.codegen.triton.process_pool import ProcessPool
pool = ProcessPool({MODULE!r})
first, _ = pool.ask("parent")
child = os.fork()
if not child:
    other, job = pool.ask("child")
    os._exit(0 if other != first and job == "child" and pool.pids() == [other] else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), pool.ask("parent again")[0] == first)
"""
_KILLED = f"""
import os, signal, time
from tfxla_cluster.codegen.triton.process_pool import ProcessPool
pool = ProcessPool({MODULE!r})
pid, _ = pool.ask("parent")
import ctypes
child = ctypes.CDLL(None).fork()  # no handler of Python runs: the child holds the pipes
if not child:
    time.sleep(60)
    os._exit(0)
print(pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


_KILLED_AT_WORK = f"""
import os, signal, threading, time
from tfxla_cluster.codegen.triton.process_pool import ProcessPool
pool = ProcessPool({MODULE!r})
pid, _ = pool.ask("first")
threading.Thread(target=pool.ask, args=(600.0,), daemon=True).start()
time.sleep(0.5)
print(pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_at_work_ends_too() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED_AT_WORK], capture_output=True, text=True, check=False)
    assert ends(int(done.stdout))


def test_a_forked_child_starts_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "True"], done.stderr


def test_a_process_ends_with_a_parent_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, child = map(int, parent.stdout.readline().split())
        parent.wait()
        try:
            assert ends(pid)
        finally:
            os.kill(child, signal.SIGKILL)
