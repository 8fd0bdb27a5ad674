"""Times what runs on a GPU by CUPTI: all kernels of a process, whoever launched them.

A sample is one call from an idle GPU: from the start of its first kernel or copy to the end of its last. Contenders
take turns, so that clocks and neighbours are the same for all. Those of one process are a side: `Side` here, through
PyTorch's profiler; gpu_tensorflow and gpu_peer_process have the others.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from .measure import Timing, summary

Contenders = Mapping[str, Callable[[], object]]
Samples = dict[str, list[float]]  # contender -> milliseconds
WARM_ROUNDS = 3
MARK = "tfxla-sample:"


class Side(Protocol):
    """The contenders of one process. `start`: warms them up and begins to record; `round`: a sample of each; `stop`:
    all samples; a contender without a kernel in one is an error of the caller's (AssertionError): its time would be
    that of nothing. `turn`: by the host's clock, milliseconds a call of each, of so many calls back to back."""

    def start(self) -> None: ...

    def round(self) -> None: ...

    def stop(self) -> Samples: ...

    def turn(self, calls: int) -> Mapping[str, float]: ...


class TorchSide:
    """Through PyTorch."""

    def __init__(self, contenders: Contenders) -> None:
        self._contenders = contenders
        self._profile: Any = None

    def start(self) -> None:
        import torch

        for _ in range(WARM_ROUNDS):
            for call in self._contenders.values():
                call()
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()

    def round(self) -> None:
        import torch

        for name, call in self._contenders.items():
            with torch.profiler.record_function(MARK + name):
                call()
                torch.cuda.synchronize()

    def stop(self) -> Samples:
        import torch

        self._profile.stop()
        return _of_torch(self._profile.events(), torch.autograd.DeviceType.CUDA)

    def turn(self, calls: int) -> Mapping[str, float]:
        import torch

        return turn(self._contenders, calls, torch.cuda.synchronize)


def turn(contenders: Contenders, calls: int, wait: Callable[[], object]) -> dict[str, float]:
    """What `Side.turn` gives; `wait` returns when the GPU is idle. As many calls before it are not timed: behind a
    contender that takes little power a GPU at its limit runs faster for a while."""
    found = {}
    for name, call in contenders.items():
        for _ in range(calls):
            call()
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        found[name] = (time.perf_counter() - start) * 1e3 / calls
    return found


def burst(sides: Sequence[Side], rounds: int) -> dict[str, Timing]:
    """Milliseconds of `rounds` samples of each contender, from an idle GPU."""
    for side in sides:
        side.start()
    for _ in range(rounds):
        for side in sides:
            side.round()
    return {name: summary(samples) for side in sides for name, samples in side.stop().items()}


def _of_torch(events: Any, on_device: Any) -> Samples:
    """What `spans` makes of a profile of PyTorch's."""
    marks, work = [], []
    for event in events:
        span, marked = (event.time_range.start, event.time_range.end), event.name.startswith(MARK)
        if marked and event.device_type != on_device:
            marks.append((event.name.removeprefix(MARK), *span))
        elif not marked and event.device_type == on_device:
            work.append(span)
    return spans(marks, work)


def spans(marks: Iterable[tuple[str, float, float]], work: Iterable[tuple[float, float]]) -> Samples:
    """Contender -> milliseconds of its samples; marks (contender, start, end) and work (start, end) in microseconds.
    What a GPU did belongs to the mark it started in."""
    ordered = sorted(marks, key=lambda mark: mark[1])
    starts = [start for _, start, _ in ordered]
    done: list[list[tuple[float, float]]] = [[] for _ in ordered]
    for start, end in work:
        number = bisect.bisect_right(starts, start) - 1
        if number >= 0 and start <= ordered[number][2]:
            done[number].append((start, end))
    found: Samples = {}
    for (name, _, _), parts in zip(ordered, done):
        assert parts, f"{name} ran nothing on the GPU"
        found.setdefault(name, []).append((max(end for _, end in parts) - min(start for start, _ in parts)) / 1e3)
    return found


def sustained(sides: Sequence[Side], rounds: int, warm_s: float = 2.0, calls: int = 20) -> dict[str, Timing]:
    """Milliseconds a call, of `rounds` turns of `calls` calls back to back, after `warm_s` seconds of all of them:
    what a GPU at its power limit does. By the host's clock; for calls of a millisecond or so."""
    stop = time.perf_counter() + warm_s
    while time.perf_counter() < stop:
        for side in sides:
            side.turn(calls)
    samples: Samples = {}
    for _ in range(rounds):
        for side in sides:
            for name, ms in side.turn(calls).items():
                samples.setdefault(name, []).append(ms)
    return {name: summary(found) for name, found in samples.items()}
