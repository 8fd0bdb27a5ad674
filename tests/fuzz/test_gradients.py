"""Random small networks with loops and branches in each other: values, first and second derivatives against eager.

An exception inside the compiler would be hidden by the fall-back to stock XLA: it is counted, and the count is
compared. `TFXLA_FUZZ=COUNT[:FIRST]` runs that many, from number FIRST.
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

COUNT, _, FIRST = os.environ.get("TFXLA_FUZZ", "4:0").partition(":")
NUMBERS = range(int(FIRST or 0), int(FIRST or 0) + int(COUNT))
SIDE = 4
Layer = Callable[[Any, list[Any]], Any]
ACTIVATIONS = (tf.tanh, tf.nn.softplus, tf.sin, tf.nn.gelu, lambda x: x * tf.sigmoid(x), tf.nn.softmax)


def layer(rng: random.Random, depth: int) -> Layer:
    """x [n, SIDE], weights [SIDE, SIDE] -> [n, SIDE]; smooth, so that all derivatives exist."""
    kinds = [dense, dense, norm, residual] if depth == 0 else [dense, norm, branch, branch, loop, residual, split]
    return rng.choice(kinds)(rng, depth - 1)


def dense(rng: random.Random, depth: int) -> Layer:
    act, number, turned = rng.choice(ACTIVATIONS), rng.randrange(3), rng.random() < 0.3
    return lambda x, w: act(tf.matmul(x, w[number], transpose_b=turned) + w[number][0])


def norm(rng: random.Random, depth: int) -> Layer:
    axis = rng.choice((0, 1))

    def apply(x: Any, w: list[Any]) -> Any:
        mean = tf.reduce_mean(x, axis, keepdims=True)
        return (x - mean) * tf.math.rsqrt(tf.reduce_mean((x - mean) ** 2, axis, keepdims=True) + 0.5)

    return apply


def residual(rng: random.Random, depth: int) -> Layer:
    first, second = layer(rng, max(depth, 0)), layer(rng, 0)
    return lambda x, w: first(x, w) + 0.5 * second(x, w)


def split(rng: random.Random, depth: int) -> Layer:
    inner = layer(rng, depth)

    def apply(x: Any, w: list[Any]) -> Any:
        left, right = tf.split(x, 2, axis=1)
        return inner(tf.concat([right, left * right], 1), w)

    return apply


def branch(rng: random.Random, depth: int) -> Layer:
    """Branches that return tuples of tuples."""
    first, second, limit = layer(rng, depth), layer(rng, depth), rng.choice((-1.0, 0.0, 1.0))

    def apply(x: Any, w: list[Any]) -> Any:
        a, (b, c) = tf.cond(
            tf.reduce_sum(x) > limit, lambda: (x, (first(x, w), w[0])), lambda: (second(x, w), (x * 2.0, w[1]))
        )
        return a * 0.5 + b + tf.reduce_mean(c)

    return apply


def loop(rng: random.Random, depth: int) -> Layer:
    inner, count = layer(rng, depth), rng.choice((1, 2, 3))

    def apply(x: Any, w: list[Any]) -> Any:
        def body(i: Any, both: Any) -> Any:
            old, new = both
            return i + 1, (new, inner(new, w) + 0.1 * old)

        start = (tf.constant(0), (x, x * 0.5))
        return tf.while_loop(lambda i, both: i < count, body, start, maximum_iterations=count)[1][1]

    return apply


def network(number: int) -> Callable[..., Any]:
    """The program of that number: loss, gradients, gradients of the gradients' norm."""
    rng = random.Random(number)
    layers = [layer(rng, 2) for _ in range(rng.randint(1, 3))]

    def run(x: Any, *weights: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(weights)
            with tf.GradientTape() as tape:
                tape.watch(weights)
                y = x
                for one in layers:
                    y = one(y, list(weights))
                loss = tf.reduce_mean(y * y + y)
            first = tape.gradient(loss, weights, unconnected_gradients="zero")
            size = tf.add_n([tf.reduce_sum(g * g + g) for g in first])
        return loss, first, outer.gradient(size, weights, unconnected_gradients="zero")

    return run


def compiled(run: Callable[..., Any], args: list[Any]) -> list[Any] | None:
    """What `run` gives compiled; None where the bridge refuses a list in a loop in a loop, whose size it cannot see."""
    try:
        return tf.nest.flatten(tfxla_cluster.jit(run)(*args))
    except tf.errors.InvalidArgumentError as error:
        if "input 1 of op EmptyTensorList must be a compile-time constant" not in error.message:
            raise
        return None


@pytest.mark.parametrize("number", NUMBERS)
def test_network(number: int) -> None:
    seed = np.random.RandomState(number)
    args = [tf.constant(seed.uniform(-1, 1, shape), tf.float64) for shape in [(3, SIDE)] + [(SIDE, SIDE)] * 3]
    run = network(number)
    want = tf.nest.flatten(run(*args))
    before = tfxla_cluster.stats()
    got = compiled(run, args)
    after = tfxla_cluster.stats()
    new = {r for r, n in after["internal_error_reasons"].items() if n != before["internal_error_reasons"].get(r, 0)}
    assert not new
    if got is None:  # then stock XLA refuses it too
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be a compile-time constant"):
            tf.function(run, jit_compile=True)(*args)
        return
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * (1.0 + float(tf.reduce_max(tf.abs(b)))))
