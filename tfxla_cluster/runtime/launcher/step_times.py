"""How long a plan's steps take: machine code writes down the first executions, Python reads them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from .record_layout import RECORD, STEP_ROW, STEP_SAMPLES, STEP_TIME, STEP_TIMES
from .words import Function, Local, Word

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class TimedStep:
    """`instr` is '' where a step is of no instruction; `symbol`: of its code, 'copy' of a copy."""

    instr: str
    symbol: str

    @property
    def name(self) -> str:
        """For people."""
        return self.instr or self.symbol


@dataclass(frozen=True, slots=True)
class StepTime:
    """Nanoseconds of the calls of a step that were timed; `median` is that of the last STEP_SAMPLES of them."""

    step: TimedStep
    calls: int
    total: int
    least: int
    median: float


class StepTimes:
    """The words of STEP_TIMES: of `steps`, in the first `limit` executions. Alive as long as machine code may write."""

    def __init__(self, steps: Sequence[TimedStep], limit: int) -> None:
        self._steps = steps
        self._words = np.zeros(len(STEP_TIMES) + len(steps) * STEP_ROW, np.int64)
        self._words[STEP_TIMES["limit"]] = limit
        self._rows = self._words[len(STEP_TIMES) :].reshape(len(steps), STEP_ROW)
        self._rows[:, STEP_TIME["least"]] = NEVER

    @property
    def address(self) -> int:
        return int(self._words.ctypes.data)

    @property
    def executions(self) -> int:
        """How many were timed, or are."""
        return int(min(self._words[STEP_TIMES["begun"]], self._words[STEP_TIMES["limit"]]))

    def read(self) -> list[StepTime]:
        """Of each step that ran; executions may be under way."""
        return [_read(step, row) for step, row in zip(self._steps, self._rows.tolist()) if row[STEP_TIME["calls"]]]


def _read(step: TimedStep, row: Sequence[int]) -> StepTime:
    calls, total, least = (row[STEP_TIME[name]] for name in ("calls", "total", "least"))
    samples = row[len(STEP_TIME) :][:calls]
    return StepTime(step, calls, total, min(least, total), statistics.median(samples))


def times_of_execution(f: Function, record: Word) -> Local:
    """Counts an execution in: where its times go, 0 where it is not timed."""
    at, times = f.load(record, RECORD["timings"]), f.local(0)
    with f.if_(at.compare("!=", 0)):
        limit = f.load(at, STEP_TIMES["limit"])
        begun = at + 8 * STEP_TIMES["begun"]
        with f.if_(f.load(begun).compare("<", limit)), f.if_(f.atomic_add(begun, 1).compare("<", limit)):
            times.set(at)
    return times


def emit_note(module: ir.Module) -> Function:
    """step_time_note(times, ordinal, nanoseconds): one more call of a step."""
    f = Function(module, "step_time_note", 3)
    times, ordinal, spent = f.args
    row = times + (ordinal * STEP_ROW + len(STEP_TIMES)) * 8
    number = f.atomic_add(row + 8 * STEP_TIME["calls"], 1)
    f.atomic_add(row + 8 * STEP_TIME["total"], spent)
    f.atomic_min(row + 8 * STEP_TIME["least"], spent)
    f.store(row + 8 * len(STEP_TIME), number & (STEP_SAMPLES - 1), spent)
    f.return_()
    return f
