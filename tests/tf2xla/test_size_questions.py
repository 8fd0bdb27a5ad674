"""What functions ask about sizes, and what only looks so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import tensorflow as tf

from tfxla_cluster.tf2xla import bridge, size_questions

SPEC = tf.TensorSpec([None, None], tf.float32)


def rows(x: Any) -> Any:
    return tf.shape(x)[0]


def asked(function: Callable[..., Any], *more: Any, constants: Collection[int] = ()) -> set[str]:
    """The ops that ask, of a function traced with open sizes."""
    traced = tf.function(function, autograph=False).get_concrete_function(SPEC, SPEC, *more)
    name = traced.function_def.signature.name
    return {question.op for question in size_questions.questions(name, constants, bridge.library)}


ASKING: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "less": (lambda x, y: tf.cond(rows(x) < 10, lambda: x, lambda: -x), "Less"),
    "where": (lambda x, y: tf.where(rows(x) > 10, x, -x), "Greater"),
    "two sizes": (lambda x, y: tf.where(tf.equal(rows(x), rows(y)), x, -x), "Equal"),
    "of all": (lambda x, y: tf.where(tf.size(x) >= 100, x, -x), "GreaterEqual"),
    "remainder": (lambda x, y: tf.pad(x, [[0, -rows(x) % 8], [0, 0]]), "FloorMod"),
    "division": (lambda x, y: x[: rows(x) // 3], "FloorDiv"),
    "rounded": (lambda x, y: x[: tf.cast(tf.sqrt(tf.cast(rows(x), tf.float32)), tf.int32)], "Cast"),
    "truth": (lambda x, y: tf.where(tf.cast(rows(x) - 8, tf.bool), x, -x), "Cast"),
    "an element": (lambda x, y: tf.where(tf.range(rows(x))[-1] == 9, x, -x), "Equal"),
    "any element": (lambda x, y: tf.where(tf.reduce_max(tf.range(rows(x))) == 9, x, -x), "Equal"),
    "the larger": (lambda x, y: tf.cast(tf.argmax(tf.stack([rows(x), rows(y)])), tf.float32) + x, "ArgMax"),
    "a case": (lambda x, y: tf.switch_case(rows(x) - 5, [lambda: x, lambda: -x]), "StatelessCase"),
    "called": (lambda x, y: tf.function(lambda n: tf.where(n == 9, x, -x))(rows(x)), "Equal"),
    "in a loop": (
        lambda x, y: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.where(rows(y) == 9, v, -v)), [0, x])[1],
        "Equal",
    ),
    "handed to a loop": (
        lambda x, y: tf.while_loop(
            lambda i, n, v: i < 3, lambda i, n, v: (i + 1, n, tf.where(n == 9, v, -v)), [0, rows(y), x]
        )[2],
        "Equal",
    ),
    "resized": (lambda x, y: tf.image.resize(x[None, :, :, None], [8, 8])[0, :, :, 0], "ResizeBilinear"),
}


@pytest.mark.parametrize("name", ASKING)
def test_questions(name: str) -> None:
    function, op = ASKING[name]
    assert op in asked(function)


def _gradient(x: Any, y: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_mean(tf.tanh(x)) + tf.reduce_sum(tf.nn.softmax(x) * y)
    return tape.gradient(loss, x)


SILENT: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, y: tf.reshape(x, [rows(x) * tf.shape(x)[1] + 0]) / tf.cast(rows(x) + 1, tf.float32),
    "a gradient": _gradient,
    "a mask of positions": lambda x, y: tf.where(tf.range(rows(x))[:, None] >= tf.range(tf.shape(x)[1]), x, 0.0),
    "trips of a loop": lambda x, y: tf.while_loop(lambda i, v: i < rows(x), lambda i, v: (i + 1, v * 0.5), [0, x])[1],
    "parity of a trip": lambda x, y: tf.while_loop(
        lambda i, v: i < rows(x), lambda i, v: (i + 1, tf.where(i % 2 == 0, v, -v)), [0, x]
    )[1],
    "rows one by one": lambda x, y: tf.map_fn(tf.tanh, x),
    "numbers drawn": lambda x, y: tf.where(tf.random.stateless_uniform(tf.shape(x), [1, 2]) > 0.5, x, 0.0),
    "data": lambda x, y: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: y[:1, :1] + x),
    "filled": lambda x, y: tf.where(tf.fill(tf.shape(x), 2.0) > x, x, 0.0),
}


@pytest.mark.parametrize("name", SILENT)
def test_no_question(name: str) -> None:
    assert asked(SILENT[name]) == set()


def test_arguments_that_are_constants_when_it_is_lowered() -> None:
    scalar = tf.TensorSpec([], tf.int32)
    function = lambda x, y, k: tf.pad(x, [[0, -rows(x) % k], [0, 0]])
    assert asked(function, scalar) == set()
    assert asked(function, scalar, constants={2}) == {"FloorMod"}


def test_where_it_asks() -> None:
    traced = tf.function(lambda x: tf.where(rows(x) == 9, x, -x)).get_concrete_function(SPEC)
    (found,) = size_questions.questions(traced.function_def.signature.name, (), bridge.library)
    assert (found.function, found.op) == (traced.function_def.signature.name, "Equal")
