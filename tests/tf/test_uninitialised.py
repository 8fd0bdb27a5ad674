"""Must-compile functions that meet a variable without a value, against stock TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import UninitializedVariable

import tfxla_cluster
from tests.tf import double
from tfxla_cluster.errors import UnsupportedError

ONES = [1.0, 1.0]


def _read(v: Any, x: Any) -> Any:
    return v + x


def _gather(v: Any, x: Any) -> Any:
    """Indices out of bounds are clamped by XLA: a wrong value where no error comes."""
    return tf.gather(v, tf.cast(x, tf.int32))


def _add(v: Any, x: Any) -> Any:
    v.assign_add(x)
    return x


def _first_write(v: Any, x: Any) -> Any:
    v.assign(x)
    return v + 1.0


def _cond(v: Any, x: Any) -> Any:
    return tf.cond(x[0] > 5.0, lambda: v + x, lambda: x)


def _loop(v: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + v), (0, x))[1]


def _gradient(v: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(v * x)
    return tape.gradient(y, x)


def _slice(v: Any, x: Any) -> Any:
    v[0:1].assign(x[:1])
    return x


BODIES = (_read, _gather, _add, _first_write, _cond, _loop, _gradient, _slice)


def _direct(f: Callable[..., Any]) -> Any:
    return tf.function(f, jit_compile=True)


def _nested(f: Callable[..., Any]) -> Any:
    inner = tf.function(f, jit_compile=True)
    return tf.function(lambda v, x: inner(v, x) * 2.0)


def _captured(f: Callable[..., Any]) -> Any:
    """A function of each variable: it is captured, not passed."""
    return lambda v, x: tf.function(lambda y: f(v, y), jit_compile=True)(x)


def _outcomes(made: Any, shape: list[int | None]) -> list[object]:
    """What two calls on one uninitialised variable give, what one with a value gives, and the variables after."""
    empty, full, other = (UninitializedVariable(dtype=tf.float32, shape=shape) for _ in range(3))
    full.assign([3.0, 4.0])
    found: list[object] = []
    for variable in (empty, empty, full, other):
        try:
            found.append(made(variable, tf.constant(ONES)).numpy().tolist())
        except tf.errors.OpError as error:
            found.append(type(error))
        found.append(variable.numpy().tolist())
    return found


@pytest.mark.parametrize("shape", [[2], [None]], ids=str)
@pytest.mark.parametrize("how", [_direct, _nested, _captured])
@pytest.mark.parametrize("body", BODIES)
def test_is_as_stock(body: Callable[..., Any], how: Callable[..., Any], shape: list[int | None]) -> None:
    want = _outcomes(how(body), shape)
    with tfxla_cluster.enable():
        before = tfxla_cluster.stats()["executions"]
        assert _outcomes(how(body), shape) == want
        # A variable with a value runs natively in every case.
        assert tfxla_cluster.stats()["executions"] > before


def test_an_empty_vector_is_a_value() -> None:
    v = tf.Variable(tf.zeros([0]), shape=[None])
    f = tf.function(lambda x: tf.concat([v, x], 0), jit_compile=True)
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        for value in ([], [3.0], []):
            v.assign(value)
            assert f(tf.constant(ONES)).numpy().tolist() == value + ONES


def test_nested_strict_says_what_stock_says() -> None:
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        v = UninitializedVariable(dtype=tf.float32, shape=[2])
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            _nested(_gather)(v, tf.constant(ONES))


def test_a_nested_function_with_variables_that_falls_back() -> None:
    """The graph branches to stock XLA; that branch is not made native again, without end."""
    v, ours = tf.Variable([3.0, 4.0]), double.Ours(UnsupportedError("not today"))
    ours.enable()
    try:
        f = _nested(_first_write)
        for _ in range(2):
            assert f(v, tf.constant(ONES)).numpy().tolist() == [4.0, 4.0]
            assert v.numpy().tolist() == ONES
    finally:
        ours.disable()
    assert tfxla_cluster.stats()["fallback_reasons"]["not today"] == 1
