"""Interleaved timing: every round calls each contender once; rounds disturbed by other processes are dropped."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Union

WARM_ROUNDS = 5  # Until then the C library gives large results fresh pages, whose faults cost more than the row.
OTHERS_LIMIT = 0.1  # Cores that other processes may use in a round that counts.


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of the rounds that count: median, and quartiles as the spread."""

    median: float
    low: float
    high: float
    rounds: int


class Elsewhere(Protocol):
    """A contender in another process, which has the clock; `cpu_s`: seconds of processors that it has taken."""

    cpu_s: float

    def milliseconds(self) -> float: ...


Contender = Union[Callable[[], object], Elsewhere]


class _Cpu:
    """Core seconds used by the contenders' processes and by the whole machine."""

    def __init__(self, elsewhere: Sequence[Elsewhere]) -> None:
        self.elsewhere = elsewhere
        self.tick = os.sysconf("SC_CLK_TCK")
        self.mark = self._read()

    def _read(self) -> tuple[float, float, float]:
        fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        busy = (sum(fields) - fields[3] - fields[4]) / self.tick  # all but idle and iowait
        own = resource.getrusage(resource.RUSAGE_SELF)
        theirs = sum(contender.cpu_s for contender in self.elsewhere)
        return time.perf_counter(), busy, own.ru_utime + own.ru_stime + theirs

    def others(self) -> float:
        """Cores others used since the last call; /proc/stat counts in ticks, so short spans are coarse."""
        now = self._read()
        wall, busy, own = (a - b for a, b in zip(now, self.mark))
        self.mark = now
        return max(0.0, busy - own) / wall if wall > 0 else 0.0


def interleave(
    contenders: Mapping[str, Contender], rounds: int = 25, budget_s: float = 20.0
) -> tuple[dict[str, Timing], int]:
    """Time each contender once a round after WARM_ROUNDS untimed ones; (timings, rounds dropped).

    At least five rounds are run however long they take. Where more than half of the rounds were disturbed,
    all count: the caller sees it in the number dropped (-1) and in the spread.
    """
    for _ in range(WARM_ROUNDS):
        for call in contenders.values():
            _milliseconds(call)
    samples: list[tuple[float, dict[str, float]]] = []
    begin, cpu = time.perf_counter(), _Cpu([c for c in contenders.values() if not callable(c)])
    while len(samples) < rounds and (len(samples) < 5 or time.perf_counter() - begin < budget_s):
        row = {name: _milliseconds(call) for name, call in contenders.items()}
        samples.append((cpu.others(), row))
    quiet = [row for others, row in samples if others <= OTHERS_LIMIT]
    dropped = len(samples) - len(quiet)
    if len(quiet) * 2 < len(samples):
        quiet, dropped = [row for _, row in samples], -1
    return {name: summary([row[name] for row in quiet]) for name in contenders}, dropped


def _milliseconds(call: Contender) -> float:
    if not callable(call):
        return call.milliseconds()
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def summary(values: list[float]) -> Timing:
    """Of samples in milliseconds."""
    ordered, count = sorted(values), len(values)
    return Timing(statistics.median(ordered), ordered[count // 4], ordered[3 * count // 4], count)
