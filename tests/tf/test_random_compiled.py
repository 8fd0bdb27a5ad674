"""Random ops in compiled functions: counter-based ones give eager's numbers, stateful ones never repeat."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import counters

SHAPES = ([], [0], [1], [5, 3], [1025])
NORMAL_ULPS = {"float32": 4e-7, "float64": 2e-15, "float16": 0, "bfloat16": 0}  # absolute; values are below 7


def natively(fn, *args):
    """The compiled function's results; nothing may fall back."""
    before = counters.snapshot()["fallbacks"]
    got = tfxla_cluster.jit(fn)(*args)
    assert counters.snapshot()["fallbacks"] == before
    return got


@pytest.mark.parametrize("dtype", list(NORMAL_ULPS))
def test_stateless(dtype: str) -> None:
    def draw(seed):
        return [
            (tf.random.stateless_uniform(s, seed, dtype=dtype), tf.random.stateless_normal(s, seed, dtype=dtype))
            for s in SHAPES
        ]

    seed = tf.constant([3, -4])
    for (uniform, normal), (u, n) in zip(draw(seed), natively(draw, seed)):
        np.testing.assert_array_equal(tf.cast(uniform, tf.float64), tf.cast(u, tf.float64))
        difference = np.abs(tf.cast(normal, tf.float64) - tf.cast(n, tf.float64))
        assert difference.max(initial=0) <= NORMAL_ULPS[dtype]


def test_integers_and_functions_called() -> None:
    @tf.function
    def inner(seed):
        return tf.random.stateless_uniform([7], seed, minval=-3, maxval=100, dtype=tf.int32)

    def draw(seed):
        start = [0, tf.zeros([7], tf.int32)]
        return tf.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + inner(seed + i)), start)[1]

    seed = tf.constant([3, 4])
    np.testing.assert_array_equal(sum(inner(seed + i).numpy() for i in range(3)), natively(draw, seed))


def test_branches_and_loops_called() -> None:
    def draw(seed, k):
        one = tf.switch_case(k, [lambda n=n: tf.random.stateless_uniform([3], seed + n) for n in range(3)])
        two = tf.cond(k > 1, lambda: tf.random.stateless_uniform([], seed), lambda: 0.0)
        return one, two, tf.map_fn(lambda n: tf.random.stateless_uniform([2], [n, 1]), seed, "float32")

    for k in range(3):
        args = tf.constant([3, 4]), tf.constant(k)
        for want, got in zip(draw(*args), natively(draw, *args)):
            np.testing.assert_array_equal(want, got)


def test_generator() -> None:
    ours, stock = (tf.random.Generator.from_seed(5) for _ in range(2))

    def draw(generator):
        return generator.uniform([5]), generator.normal([4]), generator.uniform([3], maxval=10, dtype=tf.int32)

    compiled = tfxla_cluster.jit(lambda: draw(ours))
    for _ in range(3):
        for want, got in zip(draw(stock), compiled()):
            np.testing.assert_allclose(want, got, rtol=0, atol=4e-7)
    np.testing.assert_array_equal(ours.state, stock.state)


def test_dropout() -> None:
    ours, stock = (keras.layers.Dropout(0.5, seed=7) for _ in range(2))
    x = tf.ones([4, 33])
    compiled = tfxla_cluster.jit(lambda x: ours(x, training=True))
    for _ in range(3):
        np.testing.assert_array_equal(stock(x, training=True), compiled(x))


def test_stateful() -> None:
    def draw():
        return (
            tf.random.uniform([9]),
            tf.random.uniform([9]),
            tf.random.normal([9]),
            tf.random.truncated_normal([9]),
            tf.cast(tf.random.uniform([9], maxval=2**30, dtype=tf.int32), tf.float32),
        )

    compiled = tfxla_cluster.jit(draw)
    before = counters.snapshot()["fallbacks"]
    tf.random.set_seed(5)
    first = [x.numpy() for x in (*compiled(), *compiled())]
    tf.random.set_seed(5)
    again = [x.numpy() for x in (*compiled(), *compiled())]
    assert counters.snapshot()["fallbacks"] == before
    np.testing.assert_array_equal(first, again)
    assert len({x.tobytes() for x in first}) == len(first)
    assert all(x.min() >= 0 and x.max() < 1 for x in (*first[:2], *first[5:7]))
    assert np.abs(first[3]).max() <= 2
