"""Drawn TensorFlow functions at drawn sizes: one executable serves many of them, and none of them wrongly.

Each is a chain of ops over an argument of two dimensions, Python that reads shapes among them, called at ten sizes, 0,
1 and primes too. `TFXLA_FUZZ=COUNT[:FIRST]` runs that many, from number FIRST.
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
from tfxla_cluster import counters, flags

Step = Callable[[Any], Any]
SIZES = (2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 24, 31, 33, 40)
COUNT, _, FIRST = os.environ.get("TFXLA_FUZZ", "12:0").partition(":")
NUMBERS = range(int(FIRST or 0), int(FIRST or 0) + int(COUNT))


def _attend(x: Any) -> Any:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / float(x.shape[1] or 1)) @ x


def _banded(x: Any) -> Any:
    return x * tf.constant(np.tri(x.shape[0], x.shape[1], 1, dtype=np.float32))


def _loop(x: Any) -> Any:
    return tf.while_loop(lambda i, v: i < x.shape[0] % 4, lambda i, v: (i + 1, v * 0.5 + x), [0, x])[1]


def _branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: x + float(x.shape[0]), lambda: x * 2.0)


def _part(x: Any) -> Any:
    return x[x.shape[0] // 2 :] if x.shape[0] > 1 else x


def _halves(x: Any) -> Any:
    half = x.shape[0] // 2 * 2
    return tf.reshape(x[:half], [-1, 2, x.shape[1]])[:, 0] if half else x


STEPS: dict[str, Step] = {
    "tanh": tf.tanh,
    "scaled": lambda x: x / float(x.shape[0] + 1),
    "root": lambda x: x * (float(x.shape[1]) ** -0.5 if x.shape[1] else 1.0),
    "transposed": tf.transpose,
    "softmax": tf.nn.softmax,
    "centred": lambda x: x - tf.reduce_mean(x, 0, keepdims=True),
    "norm": lambda x: x * tf.math.rsqrt(tf.reduce_mean(x * x, 1, keepdims=True) + 0.1),
    "shifted": lambda x: tf.concat([x[1:], x[:1]], 0),
    "doubled": lambda x: tf.concat([x, -x], 1),
    "padded": lambda x: tf.pad(x, [[1, 2], [0, 1]]),
    "flat": lambda x: tf.reshape(tf.reshape(x, [-1]), [x.shape[1], x.shape[0]]),
    "counted": lambda x: x + tf.cast(tf.range(x.shape[0])[:, None], tf.float32),
    "odd": lambda x: x[::2],
    "repeated": lambda x: tf.repeat(x, 2, 0),
    "sorted": lambda x: tf.sort(x, 0),
    "reversed": lambda x: tf.reverse(x, [1]),
    "gram": lambda x: tf.matmul(x, x, transpose_a=True) * 0.1,
    "eye": lambda x: x + tf.eye(x.shape[0], x.shape[1]),
    "first": lambda x: tf.gather(x, tf.range(x.shape[0] - 1, -1, -1)),
    "rolled": lambda x: tf.roll(x, 2, 0),
    "specialised": lambda x: x * (2.0 if x.shape[0] == 13 else 3.0),
    "limited": lambda x: x + float(min(x.shape[0], 12)),
    "residue": lambda x: x if x.shape[0] % 3 else tf.abs(x),
    "attend": _attend,
    "banded": _banded,
    "loop": _loop,
    "branch": _branch,
    "part": _part,
    "halves": _halves,
}


def drawn(number: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Names of the steps, and sizes: one or both dimensions vary, at times together."""
    rng = random.Random(number)
    names = [rng.choice(list(STEPS)) for _ in range(rng.randint(2, 5))]
    fixed, kind = rng.choice(SIZES[:8]), rng.choice(("rows", "columns", "both", "tied"))
    sizes = []
    for _ in range(8):
        n, m = rng.choice(SIZES), rng.choice(SIZES[:9])
        sizes.append({"rows": (n, fixed), "columns": (fixed, m), "both": (n, m), "tied": (n, n)}[kind])
    return names, [*sizes, (1, fixed), (0, fixed)]


@pytest.mark.parametrize("number", NUMBERS)
def test_drawn_function(number: int) -> None:
    names, sizes = drawn(number)

    def function(x: Any) -> Any:
        total = tf.reduce_sum(tf.abs(x))
        for name in names:
            x = STEPS[name](x)
        return x, total, tf.reduce_sum(tf.abs(x), 0)

    tf.get_logger().setLevel("ERROR")
    with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        jitted = tfxla_cluster.jit(function)
        before = counters.snapshot()
        for n, m in sizes:
            x = tf.constant(np.random.default_rng(n * 100 + m).standard_normal((n, m)).astype(np.float32))
            for k, (got, want) in enumerate(zip(jitted(x), function(x), strict=True)):
                assert_near(got, want, 1e-5, f"{number}: {names} at {n}, {m}, result {k}")
        after = counters.snapshot()
    assert after["internal_errors"] == before["internal_errors"]
    assert after["lowerings"] > before["lowerings"]
