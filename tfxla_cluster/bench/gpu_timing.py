"""Times what runs on a GPU by CUPTI, through PyTorch's profiler: all kernels of the process, whoever launched them.

A sample is one call from an idle GPU: from the start of its first kernel or copy to the end of its last. Contenders
take turns, so that clocks and neighbours are the same for all.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Mapping
from typing import Any

from .measure import Timing, summary

Contenders = Mapping[str, Callable[[], object]]
WARM_ROUNDS = 3
_MARK = "tfxla-sample:"


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
                with torch.profiler.record_function(_MARK + name):
                    call()
                    torch.cuda.synchronize()
    spans = _spans(profile.events(), torch.autograd.DeviceType.CUDA)
    return {name: summary(spans[name]) for name in contenders}


def _spans(events: Any, on_device: Any) -> dict[str, list[float]]:
    """Contender -> milliseconds of its samples. What a GPU did belongs to the mark it started in."""
    marks = sorted(
        (e.time_range.start, e.time_range.end, e.name.removeprefix(_MARK))
        for e in events
        if e.name.startswith(_MARK) and e.device_type != on_device
    )
    starts = [start for start, _, _ in marks]
    work: list[list[tuple[float, float]]] = [[] for _ in marks]
    for event in events:
        if event.device_type == on_device and not event.name.startswith(_MARK):
            number = bisect.bisect_right(starts, event.time_range.start) - 1
            if number >= 0 and event.time_range.start <= marks[number][1]:
                work[number].append((event.time_range.start, event.time_range.end))
    spans: dict[str, list[float]] = {}
    for (_, _, name), done in zip(marks, work):
        assert done, f"{name} ran nothing on the GPU"
        spans.setdefault(name, []).append((max(end for _, end in done) - min(start for start, _ in done)) / 1e3)
    return spans


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
