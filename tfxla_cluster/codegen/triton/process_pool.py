"""Child processes that answer pickled jobs, kept from one use to the next.

A process ends when nothing was asked of it for IDLE_S, when this process is gone, and at its exit. A forked child has
none of its parent's: it starts its own.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...locks import ForkSafeLock

IDLE_S = 120.0  # a process holds some 300 MB, and starting one takes about a second
_LENGTH = 8  # bytes, before each message
_POLL_S = 2.0  # how often a process looks whether its parent is still there
_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


class ProcessPool:
    """Processes that run `python -m MODULE PARENT IDLE_S`, whose main calls `serve`. Thread-safe; as many processes
    run as threads ask at once."""

    def __init__(self, module: str, idle_s: float = IDLE_S) -> None:
        self._module, self._idle_s = module, idle_s
        self._lock = ForkSafeLock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        _pools.add(self)

    def ask(self, job: object) -> object:
        """The answer to `job`; `Lost` where the process ended over it.

        One that was kept may have ended since it was last used, so then a new one is asked.
        """
        kept = self._kept()
        if kept is not None:
            answer = self._exchange(kept, job)
            if not isinstance(answer, Lost):
                return answer
        return self._exchange(self._started(), job)

    def close(self) -> None:
        """Ends all processes, whatever they are at."""
        with self._lock:
            ending, self._idle, self._all = self._all, [], set()
        for worker in ending:
            worker.end()

    def forget(self) -> None:
        """In a forked child: the processes belong to the parent, and so do the ends of their pipes."""
        for worker in self._all:
            worker.abandon()
        self._idle, self._all = [], set()

    def pids(self) -> list[int]:
        """Of the processes that were started and not seen to end."""
        with self._lock:
            return [worker.process.pid for worker in self._all]

    def _kept(self) -> _Worker | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _started(self) -> _Worker:
        worker = _Worker(self._module, self._idle_s)
        with self._lock:
            self._all.add(worker)
        return worker

    def _exchange(self, worker: _Worker, job: object) -> object:
        answer: object = Lost()
        try:
            answer = worker.exchange(job)
        finally:  # also where this thread is interrupted: what the process would answer is not asked for any more
            with self._lock:
                if not isinstance(answer, Lost) and worker in self._all:
                    self._idle.append(worker)
                else:
                    self._all.discard(worker)
                    worker.end()
        return answer


class Lost:
    """Stands for the answer of a process that ended."""


class _Worker:
    """A process and its pipes, which are unbuffered: a fork must not copy half a message."""

    def __init__(self, module: str, idle_s: float) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment.pop("TFXLA_FLAGS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(os.getpid()), str(idle_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,  # an interrupt from the terminal is for this process to act on
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.write, self.read = self.process.stdin.fileno(), self.process.stdout.fileno()

    def exchange(self, job: object) -> object:
        try:
            _send(self.write, job)
            return _receive(self.read)
        except (EOFError, OSError):
            return Lost()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close()

    def abandon(self) -> None:
        self.process.returncode = 0  # nobody here waits for it
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def serve(answer: Callable[[Any], object], arguments: Sequence[str]) -> None:
    """In a process of a pool, started with `arguments`: answers jobs until nobody asks.

    What is printed meanwhile goes to standard error.
    """
    parent, idle_s = int(arguments[0]), float(arguments[1])
    asked, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with suppress(EOFError, BrokenPipeError):
        while _wait(asked, parent, idle_s):
            _send(answers, answer(_receive(asked)))


def _end_with(parent: int) -> None:
    """Ends this process and what it started, a session of their own, soon after its parent: a job can take minutes."""
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.killpg(0, signal.SIGKILL)


def _wait(pipe: int, parent: int, idle_s: float) -> bool:
    """Whether something can be read within `idle_s` seconds while the parent lives.

    The end of its pipe alone does not tell: a forked child of it may hold the other end.
    """
    left = idle_s
    while left > 0 and os.getppid() == parent:
        if select.select([pipe], [], [], min(left, _POLL_S))[0]:
            return True
        left -= _POLL_S
    return False


def _send(pipe: int, message: object) -> None:
    data = pickle.dumps(message)
    rest = memoryview(len(data).to_bytes(_LENGTH, "little") + data)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> object:
    length = int.from_bytes(_exactly(pipe, _LENGTH), "little")
    return pickle.loads(_exactly(pipe, length))


def _exactly(pipe: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = os.read(pipe, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
