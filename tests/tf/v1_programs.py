"""Programs in v1 control flow, and drawn ones: each takes a vector of three floats in a graph of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
Build = Callable[[Any], Any]
PROGRAMS: dict[str, Build] = {}


def program(build: Build) -> Build:
    PROGRAMS[build.__name__] = build
    return build


def _positive(x: Any) -> Any:
    return tf.reduce_sum(x) > 0


@program
def cond(x: Any) -> Any:
    return tf.cond(_positive(x), lambda: tf.exp(x * 0.1) + 1.0, lambda: tf.sin(x) - 2.0)


@program
def cond_of_several(x: Any) -> Any:
    a, b = tf.cond(
        _positive(x),
        lambda: (tf.exp(x * 0.1) * 2.0 + x, x * x + tf.sin(x)),
        lambda: (tf.cos(x) * 2.0 - x, x * 5.0 - tf.exp(x)),
    )
    return a * b + a - b * 2.0, tf.reduce_sum(a)


@program
def branch_that_passes_its_input(x: Any) -> Any:
    y = tf.tanh(x) * 2.0 + 1.0
    return tf.cond(_positive(x), lambda: y, lambda: tf.sin(y) * 2.0 - y) + y


@program
def branch_of_constants(x: Any) -> Any:
    return tf.cond(_positive(x), lambda: tf.fill([3], 2.0) * 3.0 + 1.0, lambda: x * 2.0 - tf.exp(x)) + x


@program
def case(x: Any) -> Any:
    total = tf.reduce_sum(x)
    return tf.case(
        [(total > 3.0, lambda: tf.exp(-x) * 2.0 + 1.0), (total > 0.0, lambda: x * x - 1.0)],
        default=lambda: tf.sin(x) * 2.0 + x,
    )


@program
def order_in_a_branch(x: Any) -> Any:
    """Work that waits for a check which runs in one branch only."""

    def checked() -> Any:
        with tf.control_dependencies([tf.debugging.assert_positive(tf.reduce_sum(x))]):
            return tf.exp(-x) * 2.0 + 1.0

    return tf.cond(_positive(x), checked, lambda: tf.sin(x) * 2.0 + x)


@program
def work_after_a_branch(x: Any) -> Any:
    """Work that waits for a branch and reads nothing of it."""
    chosen = tf.cond(_positive(x), lambda: tf.exp(x * 0.1) + 1.0, lambda: tf.sin(x) - 2.0)
    with tf.control_dependencies([chosen]):
        return tf.cos(x) * 2.0 - x * x + 1.0


@program
def loop(x: Any) -> Any:
    return tf.while_loop(lambda a: a[0] < 9.0, lambda a: (a + a + a * a + a,), [tf.abs(x)])


@program
def loop_of_one_value_kept(x: Any) -> Any:
    """A value from outside the loop is used in each iteration."""
    w = tf.tanh(x) * 2.0
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w + tf.sin(w) - a * 0.5), [0, x])


@program
def loop_never_entered(x: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, tf.exp(a) * 2.0 + a - 1.0), [0, x])


@program
def loop_in_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        inner = tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * 1.1 + tf.sin(b) - tf.cos(b) * 0.2), [0, a])
        return i + 1, inner[1] + tf.exp(-a * a) * 2.0

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])


@program
def cond_in_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        even = tf.equal(i % 2, 0)
        return i + 1, tf.cond(even, lambda: tf.exp(-a * a) * 2.0 + a - 1.0, lambda: tf.sin(a) * 3.0 - a * a)

    return tf.while_loop(lambda i, a: i < 4, body, [0, x])


@program
def loop_in_cond(x: Any) -> Any:
    def some() -> Any:
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.1 + tf.sin(a) - tf.cos(a)), [0, x])[1]

    return tf.cond(_positive(x), some, lambda: x * 2.0 + 1.0 - tf.exp(x) * tf.sin(x))


@program
def function_in_loop(x: Any) -> Any:
    """The function's branch is one op in a loop that TensorFlow has taken apart."""

    @tf.function
    def f(a: Any) -> Any:
        return tf.cond(a[0] > 2.0, lambda: tf.sin(a) * 2.0 + a - 1.0, lambda: a * a + tf.exp(-a * a) * 2.0)

    return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, f(a)), [0, x])


@tf.function(jit_compile=True)
def _compiled(a: Any) -> Any:
    return tf.sin(a) * 2.0 + tf.exp(-a * a) - 1.0


@program
def must_compile_in_cond(x: Any) -> Any:
    return tf.cond(_positive(x), lambda: _compiled(x), lambda: x * 2.0 - tf.sin(x)) + 1.0


@program
def gradient_of_cond(x: Any) -> Any:
    y = tf.cond(_positive(x), lambda: tf.exp(x * 0.1) * x + 1.0, lambda: tf.sin(x) - 2.0 * x)
    return v1.gradients(y, x)


@program
def gradient_of_loop(x: Any) -> Any:
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.1 + tf.sin(a) + a * a * 0.01 + x), [0, x])[1]
    return v1.gradients(y, x)


@program
def gradient_of_cond_in_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.exp(-a) + a, lambda: a * 2.0 - 1.0)

    y = tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]
    return y, tf.gradients(y, x)[0]


@program
def gradient_of_a_gradient(x: Any) -> Any:
    y = tf.cond(_positive(x), lambda: tf.exp(x * 0.1) * x * x, lambda: tf.sin(x) * x - 2.0 * x)
    return v1.gradients(v1.gradients(y, x), x)


@program
def array(x: Any) -> Any:
    def body(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, tf.sin(x[i]) * 2.0 + x[i] * x[i] - tf.cast(i, tf.float32))

    return tf.while_loop(lambda i, _: i < 3, body, [0, tf.TensorArray(tf.float32, 3)])[1].stack()


@program
def map_fn(x: Any) -> Any:
    return tf.map_fn(lambda e: tf.sin(e) * 2.0 + e * e - 1.0, x)


@program
def scan(x: Any) -> Any:
    return tf.scan(lambda a, e: tf.sin(e) * 2.0 + a * e - 1.0 + a, x)


@program
def gradient_of_scan(x: Any) -> Any:
    return v1.gradients(tf.scan(lambda a, e: tf.sin(e) * 2.0 + a * e - 1.0 + a, x), x)


def _variable(x: Any, use_resource: bool) -> Any:
    v = v1.get_variable("v", [3], tf.float32, v1.zeros_initializer(), use_resource=use_resource)
    with tf.control_dependencies([v1.assign_add(v, x)]):
        chosen = tf.cond(
            _positive(x), lambda: v1.assign_add(v, tf.exp(x) * 2.0 + tf.sin(x) - 1.0), lambda: v1.assign_sub(v, x)
        )
    with tf.control_dependencies([chosen]):
        return tf.identity(v) * 2.0 + tf.sin(x) - x


@program
def variable(x: Any) -> Any:
    return _variable(x, True)


@program
def reference_variable(x: Any) -> Any:
    return _variable(x, False)


_UNARY = (tf.sin, tf.tanh, lambda a: tf.exp(-a * a), lambda a: a * 0.5 + 1.0, lambda a: tf.abs(a) * 0.3)


def drawn(seed: int) -> Build:
    """Work, branches and bounded loops, nested at most three deep; values of outer levels are used inside."""

    def block(draw: random.Random, values: list[Any], depth: int) -> Any:
        values = list(values)
        for _ in range(draw.randint(1, 3)):
            kind = draw.choice(["work", "work", "cond", "loop"] if depth < 3 else ["work"])
            a, b = draw.choice(values), draw.choice(values)
            if kind == "work":
                values.append(draw.choice(_UNARY)(a) + draw.choice([0.5, 1.0]) * tf.tanh(b))
            else:
                seeds = draw.random(), draw.random()
                inner = _cond if kind == "cond" else _loop
                values.append(inner(seeds, values, a, depth))
        return values[-1]

    def _cond(seeds: tuple[float, float], values: list[Any], a: Any, depth: int) -> Any:
        yes, no = (lambda s=s: block(random.Random(s), values, depth + 1) + 0.5 for s in seeds)
        return tf.cond(tf.reduce_sum(tf.sin(a * 5.0)) > 0, yes, no)

    def _loop(seeds: tuple[float, float], values: list[Any], a: Any, depth: int) -> Any:
        def body(i: Any, carried: Any) -> Any:
            return i + 1, tf.tanh(block(random.Random(seeds[0]), [*values, carried], depth + 1))

        return tf.while_loop(lambda i, _: i < int(seeds[1] * 4), body, [0, a])[1]

    return lambda x: block(random.Random(seed), [x, tf.sin(x)], 0)
