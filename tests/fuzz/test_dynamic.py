"""Drawn TensorFlow functions at drawn sizes (tests.fuzz.sized): one executable serves many of them, and none wrongly.

Each is called at eleven sizes, 0, 1 and primes too: as a must-compile function, by `jit`, by `jit` for all sizes at
once, in automatic clusters. `TFXLA_FUZZ=COUNT[:FIRST]` runs that many, from number FIRST.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.fuzz import sized
from tfxla_cluster import counters, flags

COUNT, _, FIRST = os.environ.get("TFXLA_FUZZ", "12:0").partition(":")
NUMBERS = range(int(FIRST or 0), int(FIRST or 0) + int(COUNT))
MOST_ROUNDED = 0.05
CLUSTERS = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 2}
MODES: dict[str, Callable[[Any], Any]] = {
    "must-compile": lambda function: tf.function(function, jit_compile=True),
    "jit": tfxla_cluster.jit,
    "jit for all": lambda function: tfxla_cluster.jit(function, dynamic=True),
    "clusters": tf.function,
}


def arguments(n: int, m: int, k: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng((n, m, k))
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, m), (k, m)))
    return tf.constant(x), tf.constant(y), tf.constant(rng.integers(0, 100, n).astype(np.int32))


def called(function: Any, variable: Any, args: tuple[Any, ...]) -> list[Any]:
    """Its results, and what it left in the variable."""
    variable.assign(tf.reshape(tf.linspace(-1.0, 1.0, 15), [5, 3]))
    return [*function(*args), variable.numpy()]


def tolerance(roundings: list[float], found: Any) -> float:
    """As a share of the largest element: where terms cancel, what was rounded before weighs more."""
    largest = np.max(np.abs(found), where=np.isfinite(found), initial=0)
    return 2e-5 + min(max(roundings, default=0.0) / largest if largest else 0.0, MOST_ROUNDED)


@pytest.mark.parametrize("number", NUMBERS)
def test_drawn_function(number: int) -> None:
    rng = random.Random(number)
    mode, nodes, sizes = list(MODES)[number % len(MODES)], sized.drawn(rng), sized.sizes(rng, 8)
    variable, roundings = tf.Variable(tf.zeros([5, 3])), []

    def function(x: Any, y: Any, z: Any) -> Any:
        found = sized.applied(x, sized.Case(y, z, variable, roundings), nodes)
        return found, tf.reduce_sum(tf.abs(x)), tf.reduce_sum(tf.abs(found), 0), z + found.shape[0]

    tf.get_logger().setLevel("ERROR")
    tfxla_cluster.disable()
    tf.config.run_functions_eagerly(True)  # else stock XLA runs those that are must-compile
    try:
        wanted, tolerances = [], []
        for size in sizes:
            roundings.clear()
            wanted.append(called(function, variable, arguments(*size)))
            tolerances.append(tolerance(roundings, wanted[-1][0]))
    finally:
        tf.config.run_functions_eagerly(False)
    more = CLUSTERS if mode == "clusters" else {}
    with flags.patch(tfxla_must_compile_fallback="raise", **more), tfxla_cluster.enable():
        compiled, before = MODES[mode](function), counters.snapshot()
        for size, values, near in zip(sizes, wanted, tolerances, strict=True):
            for k, (got, want) in enumerate(zip(called(compiled, variable, arguments(*size)), values, strict=True)):
                assert_near(got, want, near, f"{number}, {mode}: {nodes} at {size}, result {k}")
        after = counters.snapshot()
    assert after["internal_errors"] == before["internal_errors"]
    assert after["lowerings"] > before["lowerings"]
