"""Records of executions: how often each executable ran, and how long its steps took in the executions that were timed.

They are written while the program runs, by a thread that looks now and then, so that a program killed at any moment
leaves them; a later record of an executable takes the place of an earlier one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import trace
from .loaded import Loaded
from .locks import ForkSafeLock
from .runtime.launcher.step_times import StepTime

PERIOD = 2.0
"""Seconds between two looks."""


class ExecutionRecords:
    """loaded(): the executables in memory. usage(): how often each ran, by id."""

    def __init__(self, loaded: Callable[[], Iterable[Loaded]], usage: Callable[[], Mapping[int, int]]) -> None:
        self._loaded, self._usage = loaded, usage
        self._lock = ForkSafeLock()
        self._written: dict[int, int] = {}  # by record, which is never another executable's
        self._watched = 0  # the process that has the thread

    def watch(self) -> None:
        """From now on look now and then, where there is a dump."""
        with self._lock:
            if self._watched == os.getpid() or not trace.directory():
                return
            self._watched = os.getpid()
        threading.Thread(target=self._look, name="tfxla-executions", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(PERIOD)
            self.write_grown()

    def write_grown(self) -> None:
        """Of each that ran twice as often as when it was last written: so few that the trace stays short."""
        usage = self._usage()
        for one in self._loaded():
            count = usage.get(id(one), 0)
            with self._lock:
                grown = count >= max(2 * self._written.get(one.record, 0), 1)
            if grown:
                self._write(one, count)

    def write_all(self) -> None:
        """Of each that ran, as it is now."""
        usage = self._usage()
        for one in self._loaded():
            self._write(one, usage.get(id(one), 0))

    def write_dropped(self, one: Loaded) -> None:
        """The last one of an executable that leaves memory."""
        if trace.wants("execution"):  # else no program is asked how often it ran
            self._write(one, self._usage().get(id(one), 0))
        with self._lock:
            self._written.pop(one.record, None)

    def _write(self, one: Loaded, count: int) -> None:
        times = one.executable.times() if trace.wants("execution") else None
        steps = [] if times is None else times.read()
        if times is None or not steps:
            return
        with self._lock:
            self._written[one.record] = count
        trace.record(
            "execution",
            module=one.module,
            id=one.id,
            count=count,
            timed=times.executions,
            ms=sum(step.total for step in steps) / 1e6,
            steps=list(map(_row, steps)),
        )


def _row(spent: StepTime) -> dict[str, Any]:
    return {
        "instr": spent.step.instr,
        "symbol": spent.step.symbol,
        "count": spent.calls,
        "ms": spent.total / 1e6,
        "min_ms": spent.least / 1e6,
        "median_ms": spent.median / 1e6,
    }
