"""The least time that bytes and operations take on this machine, by a copy and a product measured here."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from .contenders import copier

_SAMPLES = 5
_SIDE = {"CPU": 1024, "GPU": 8192}  # of the product: large enough for the peak


def milliseconds(moved: int, operations: int, device: str) -> float:
    """The larger of a copy that moves `moved` bytes (read and written) and `operations` at the rate of a product of
    f32 (bf16 on a GPU) with all threads."""
    if moved == 0 and operations == 0:
        return 0.0
    return max(_copy(moved, device), operations / _rate(device) * 1e3 if operations else 0.0)


def _copy(moved: int, device: str) -> float:
    if moved == 0:
        return 0.0
    if device.startswith("GPU"):
        with tf.device(device):
            source = tf.ones([max(moved // 8, 1)])
        return _median(lambda: tf.raw_ops.DeepCopy(x=source))
    return _median(copier(moved))


@functools.cache
def _rate(device: str) -> float:
    """Operations a second of the fastest of the libraries that are there."""
    side = _SIDE[device.partition(":")[0]]
    operations = 2.0 * side**3
    with tf.device(device):
        a = tf.random.stateless_normal([side, side], [1, 2])
        if device.startswith("GPU"):
            a = tf.cast(a, tf.bfloat16)
            return operations / _median(lambda: tf.matmul(a, a)) * 1e3
    b = a.numpy()
    return operations / min(_median(lambda: tf.matmul(a, a)), _median(lambda: np.matmul(b, b))) * 1e3


def _median(call: Callable[[], object]) -> float:
    """Milliseconds."""
    found = []
    for _ in range(_SAMPLES + 1):
        start = time.perf_counter()
        call()
        tf.test.experimental.sync_devices()
        found.append((time.perf_counter() - start) * 1e3)
    return statistics.median(found[1:])
