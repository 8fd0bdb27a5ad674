"""Fuzz: drawn functions of open sizes, which ask about these in many ways, against TensorFlow run eagerly, where sizes
run unproven (--tfxla_dynamic_verify=first|off).

`TFXLA_FUZZ=COUNT[:FIRST]` runs that many, from number FIRST.
"""

from __future__ import annotations

import operator
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.fuzz.test_dynamic import CLUSTERS
from tfxla_cluster import counters, flags

COUNT, _, FIRST = os.environ.get("TFXLA_FUZZ", "12:0").partition(":")
NUMBERS = range(int(FIRST or 0), int(FIRST or 0) + int(COUNT))
SIZES = (2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 24, 31, 32, 33, 40, 48, 64, 65)
COMPARED = (operator.gt, operator.ge, operator.lt, operator.le, tf.equal, tf.not_equal)
Step = Callable[[Any, Any], Any]


def _size(rng: random.Random) -> Callable[[Any, Any], Any]:
    """A number that sizes make."""
    limit, part = rng.choice(SIZES), rng.choice((2, 3, 4))
    return rng.choice(
        [
            lambda x, y: tf.shape(x)[0],
            lambda x, y: tf.shape(y)[0],
            lambda x, y: tf.shape(x)[0] + tf.shape(y)[0],
            lambda x, y: tf.shape(x)[0] * 2 - tf.shape(y)[0],
            lambda x, y: tf.size(x),
            lambda x, y: tf.minimum(tf.shape(x)[0], limit),
            lambda x, y: tf.maximum(tf.shape(x)[0], tf.shape(y)[0]),
            lambda x, y: tf.shape(x)[0] % part,
            lambda x, y: tf.shape(x)[0] // part,
        ]
    )


def _asking(rng: random.Random) -> Step:
    left, compare = _size(rng), rng.choice(COMPARED)
    other, number = _size(rng), rng.choice(SIZES)
    right = other if rng.random() < 0.3 else lambda x, y: number
    asks = lambda x, y: compare(left(x, y), right(x, y))
    return rng.choice(
        [
            lambda x, y: tf.cond(asks(x, y), lambda: x * 0.5, lambda: x + 1.0),
            lambda x, y: tf.where(asks(x, y), x * 0.5, x + 1.0),
            lambda x, y: x + tf.cast(left(x, y), tf.float32) * 0.25,
            tf.function(lambda x, y: tf.where(asks(x, y), x * 0.5, x + 1.0)),
            lambda x, y: tf.while_loop(
                lambda i, v: i < 3, lambda i, v: (i + 1, tf.where(asks(v, y), v * 0.5, v + 1.0)), [0, x]
            )[1],
        ]
    )


def _shaping(rng: random.Random) -> Step:
    limit, step = rng.choice(SIZES), rng.choice((1, 2, 3, 4))
    return rng.choice(
        [
            lambda x, y: tf.nn.softmax(x, 0),
            lambda x, y: x - tf.reduce_mean(x, 0, keepdims=True),
            lambda x, y: x + tf.reduce_sum(y) * 0.01,
            lambda x, y: tf.concat([x, y], 0),
            lambda x, y: tf.concat([y[:limit], x], 0),
            lambda x, y: x[:limit],
            lambda x, y: tf.concat([x[limit:], x[:1]], 0),
            lambda x, y: x[::step],
            lambda x, y: tf.pad(x, [[0, -tf.shape(x)[0] % step], [0, 0]]),
            lambda x, y: x[: tf.shape(x)[0] // step * step + 1],
            lambda x, y: tf.nn.max_pool2d(x[None, :, :, None], (2, 1), (step, 1), "SAME")[0, :, :, 0],
            lambda x, y: tf.nn.avg_pool2d(x[None, :, :, None], (3, 1), (step, 1), "SAME")[0, :, :, 0],
            lambda x, y: tf.image.resize(x[None, :, :, None], [limit, 3], "nearest")[0, :, :, 0],
            lambda x, y: tf.where(tf.range(tf.shape(x)[0])[:, None] < limit, x, -x),
            lambda x, y: tf.roll(x, limit, 0),
            lambda x, y: x * (y @ tf.ones([3, 1]))[:1],
        ]
    )


def _function(rng: random.Random) -> Callable[[Any, Any], Any]:
    steps = [rng.choice((_asking, _shaping, _shaping))(rng) for _ in range(rng.randint(1, 3))]

    def function(x: Any, y: Any) -> Any:
        for step in steps:
            x = step(x, y)
        return x * 2.0

    return function


def _sizes(rng: random.Random, count: int) -> list[tuple[int, int]]:
    """(x's, y's) rows of each call."""
    kind, n = rng.choice(("one", "same", "two")), rng.choice(SIZES)
    pairs = [(rng.choice(SIZES), rng.choice(SIZES)) for _ in range(count)]
    return [(a, n if kind == "one" else a if kind == "same" and k % 5 else b) for k, (a, b) in enumerate(pairs)]


@pytest.mark.parametrize("number", NUMBERS)
def test_drawn_function_of_open_sizes(number: int) -> None:
    rng = random.Random(number)
    function, sizes, spec = _function(rng), _sizes(rng, 12), [tf.TensorSpec([None, 3])] * 2
    is_must = number % 3 < 2
    more = {} if is_must else CLUSTERS
    tf.get_logger().setLevel("ERROR")
    with (
        flags.patch(tfxla_must_compile_fallback="raise", tfxla_dynamic_verify=("first", "off")[number % 2], **more),
        tfxla_cluster.enable(),
    ):
        compiled = tf.function(function, input_signature=spec, jit_compile=is_must or None)
        before = counters.snapshot()
        for n, m in sizes:
            draw = np.random.default_rng((n, m))
            x, y = (tf.constant(draw.standard_normal((size, 3)), tf.float32) for size in (n, m))
            found, wanted = compiled(x, y), function(x, y)
            assert_near(found, wanted, 1e-5, f"{number} at {n}, {m} of {sizes}")
        after = counters.snapshot()
    assert after["internal_errors"] == before["internal_errors"]
    assert after["lowerings"] > before["lowerings"]
