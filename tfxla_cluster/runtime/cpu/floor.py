"""What this CPU does at best, measured once a process: copies of many sizes, and products of small matrices."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

import numpy as np

from ..floor import Floor
from . import host

_SIZES = [1 << power for power in range(16, 27, 2)]  # bytes moved: from what a near cache holds to what none does
_SHARED = 1 << 20  # bytes from which threads may take less
_SIDES = (48, 64, 96)  # of products: so small that a BLAS runs them in one thread, so large that it nears its best
_SECONDS = 4e-3  # to find the fastest call in: other work on the machine leaves some alone
_LEAST_CALLS = 3


@functools.cache
def floor() -> Floor:
    """By all cores that this process may use. It takes 0.08 s on two quiet cores, 0.2-0.3 s beside four busy processes,
    and 64 MiB for as long."""
    cores = host.usable_cores()
    source, target = (np.ones(_SIZES[-1] // 2, np.uint8) for _ in range(2))
    copies = tuple((moved, _copy(source[: moved // 2], target[: moved // 2], cores)) for moved in _SIZES)
    return Floor(copies, cores * max(map(_products, _SIDES)))


def _copy(source: np.ndarray, target: np.ndarray, cores: int) -> float:
    """Milliseconds: by one thread, or by all, whichever takes less."""
    alone = _least(lambda: np.copyto(target, source))
    if cores == 1 or 2 * len(source) < _SHARED:
        return alone
    return min(alone, _least(lambda: _shared(source, target, cores)))


def _shared(source: np.ndarray, target: np.ndarray, cores: int) -> None:
    parts = list(zip(np.array_split(target, cores), np.array_split(source, cores)))
    others = [threading.Thread(target=np.copyto, args=part) for part in parts[1:]]
    for thread in others:
        thread.start()
    np.copyto(*parts[0])
    for thread in others:
        thread.join()


def _products(side: int) -> float:
    """Scalar operations in a millisecond of one core."""
    matrix = np.ones((side, side), np.float32)
    result = np.empty_like(matrix)
    return 2 * side**3 / _least(lambda: np.matmul(matrix, matrix, out=result))


def _least(call: Callable[[], object]) -> float:
    """Milliseconds of the fastest call."""
    began, least, calls = time.perf_counter(), float("inf"), 0
    while calls < _LEAST_CALLS or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
        calls += 1
    return max(least * 1e3, 1e-6)
