"""Loops that hand values on to loops and branches, and gradients of gradients of loops: against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster

X = tf.constant([1.0, 2.0, 3.0])


def _loop(p: Any, c: Any) -> Any:
    return tf.while_loop(lambda p, c: tf.reduce_any(p < 12.0), lambda p, c: (p + 1.0, c), (p * 2.0, c))


def _thrice(p: Any, c: Any = 5) -> Any:
    for _ in range(3):
        p, c = _loop(p, c)
    return p, c


def _same(p: Any) -> Any:
    """Three times the same loop, beside each other."""
    return [_loop(p, 5) for _ in range(3)]


def _nested(p: Any) -> Any:
    def body(k: Any, p: Any, c: Any) -> Any:
        return k + 1, _thrice(p * 0.25, c)[0], c

    for _ in range(3):
        _, p, c = tf.while_loop(lambda k, p, c: k < 2, body, (0, p, 3))
    return p, c


def _called(p: Any) -> Any:
    """Constants through functions that hand them on."""
    call = tf.function(lambda p, c: (*_loop(p, tf.identity(c)), c))
    c, d = tf.constant(5), tf.constant(6)
    for _ in range(3):
        p, c, d = call(p + tf.cast(d, p.dtype), c)
    return p, c, d


def _into_branch(p: Any) -> Any:
    p, c = _loop(p, 5)
    p, c = _loop(p, c)
    return tf.cond(tf.reduce_sum(p) > 0.0, lambda: _thrice(p * 0.1, c), lambda: (p, c + 1))


def _into_case(p: Any) -> Any:
    p, c = _thrice(p)
    return tf.switch_case(tf.cast(p[0], tf.int32) % 3, [lambda k=k: _thrice(p * 0.1 * k, c) for k in range(3)])


def _swapped(p: Any) -> Any:
    """Values that come out at another place than they went in change."""

    def body(k: Any, a: Any, b: Any, c: Any) -> Any:
        return k + 1, b, a, c

    a, b, c = 1.0, 2.0, 3.0
    for _ in range(3):
        _, a, b, c = tf.while_loop(lambda k, a, b, c: k < 3, body, (0, a, b, c))
    return p * a, p - b, p + c


def _gradient(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(inner(x))
        return tape.gradient(y, x)

    return run


def _power(x: Any) -> Any:
    body = lambda i, p, q: (i + 1, tf.sin(p * q), q)
    for _ in range(3):
        _, x, _ = tf.while_loop(lambda i, p, q: i < 2, body, (0, x, x), maximum_iterations=2)
    return x


def _power_nested(x: Any) -> Any:
    def body(i: Any, p: Any) -> Any:
        step = lambda j, q: (j + 1, q * tf.cos(x))
        return i + 1, tf.while_loop(lambda j, q: j < 2, step, (0, p), maximum_iterations=2)[1]

    for _ in range(3):
        _, x = tf.while_loop(lambda i, p: i < 2, body, (0, x), maximum_iterations=2)
    return x


_second = _gradient(lambda x: _gradient(_power)(x) ** 2)


def _second_in_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: _second(x), lambda: x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "one after the other": _thrice,
    "beside each other": _same,
    "nested": _nested,
    "through calls": _called,
    "into a branch": _into_branch,
    "into a case": _into_case,
    "swapped": _swapped,
    "gradient of nested loops": _gradient(_power_nested),
    "second derivative": _second,
    "second derivative in a branch": _second_in_branch,
    "third derivative": _gradient(lambda x: _second(x) ** 2),
}


@pytest.mark.parametrize("jit_compile", [True, None], ids=["must", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_repeated_loops(name: str, jit_compile: bool | None) -> None:
    run = PROGRAMS[name]
    options = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
    want = tf.nest.flatten(run(X))
    with tfxla_cluster.config.patch(**options), tfxla_cluster.enable():
        tfxla_cluster.clear_cache()
        before = tfxla_cluster.stats()
        got = tf.nest.flatten(tf.function(run, jit_compile=jit_compile)(X))
        after = tfxla_cluster.stats()
    assert after["fallbacks"] == before["fallbacks"]
    if jit_compile:  # which loops are clustered is decided elsewhere
        assert after["compilations"] > before["compilations"]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
