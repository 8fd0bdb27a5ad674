"""Times what runs on a GPU by CUPTI, through PyTorch's profiler: all kernels of the process, whoever launched them.

A sample is one call from an idle GPU: from the start of its first kernel or copy to the end of its last. Contenders
take turns, so that clocks and neighbours are the same for all.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .measure import Timing, summary

Contenders = Mapping[str, Callable[[], object]]
WARM_ROUNDS = 3
MARK = "tfxla-sample:"


def burst(contenders: Contenders, rounds: int) -> dict[str, Timing]:
    """Milliseconds of `rounds` samples of each contender; a contender without a kernel in a sample is an error of
    the caller's (AssertionError): its time would be that of nothing."""
    import torch

    for _ in range(WARM_ROUNDS):
        for call in contenders.values():
            call()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(rounds):
            for name, call in contenders.items():
                with torch.profiler.record_function(MARK + name):
                    call()
                    torch.cuda.synchronize()
    found = _of_torch(profile.events(), torch.autograd.DeviceType.CUDA)
    return {name: summary(found[name]) for name in contenders}


def _of_torch(events: Any, on_device: Any) -> dict[str, list[float]]:
    """What `spans` makes of a profile of PyTorch's."""
    marks, work = [], []
    for event in events:
        span, marked = (event.time_range.start, event.time_range.end), event.name.startswith(MARK)
        if marked and event.device_type != on_device:
            marks.append((event.name.removeprefix(MARK), *span))
        elif not marked and event.device_type == on_device:
            work.append(span)
    return spans(marks, work)


def spans(marks: Iterable[tuple[str, float, float]], work: Iterable[tuple[float, float]]) -> dict[str, list[float]]:
    """Contender -> milliseconds of its samples; marks (contender, start, end) and work (start, end) in microseconds.
    What a GPU did belongs to the mark it started in."""
    ordered = sorted(marks, key=lambda mark: mark[1])
    starts = [start for _, start, _ in ordered]
    done: list[list[tuple[float, float]]] = [[] for _ in ordered]
    for start, end in work:
        number = bisect.bisect_right(starts, start) - 1
        if number >= 0 and start <= ordered[number][2]:
            done[number].append((start, end))
    found: dict[str, list[float]] = {}
    for (name, _, _), parts in zip(ordered, done):
        assert parts, f"{name} ran nothing on the GPU"
        found.setdefault(name, []).append((max(end for _, end in parts) - min(start for start, _ in parts)) / 1e3)
    return found


def sustained(contenders: Contenders, rounds: int, warm_s: float = 2.0, calls: int = 20) -> dict[str, Timing]:
    """Milliseconds a call, of `rounds` turns of `calls` calls back to back, after `warm_s` seconds of all of them:
    what a GPU at its power limit does. By the host's clock; for calls of a millisecond or so."""
    import torch

    stop = time.perf_counter() + warm_s
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    warm = True
    while warm or min(map(len, samples.values())) < rounds:
        warm = time.perf_counter() < stop
        for name, call in contenders.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
            if not warm:
                samples[name].append((time.perf_counter() - start) * 1e3 / calls)
    return {name: summary(found) for name, found in samples.items()}
