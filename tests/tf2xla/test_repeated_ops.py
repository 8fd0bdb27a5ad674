"""Ops that are lowered once for all nodes that are alike: module, constants and what is refused are as without."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tfxla_cluster
from tests.close import assert_near
from tfxla_cluster.errors import LoweringError
from tfxla_cluster.ir import proto, text
from tfxla_cluster.tf.rewrites import rewritten_functions
from tfxla_cluster.tf2xla import bridge, repeated_ops, sources
from tfxla_cluster.tf2xla.function_def import library
from tfxla_cluster.tf2xla.repeated_ops import MARK, SLOW, Repeated

HOSTILE = np.float32([[np.nan, np.inf, -np.inf, -0.0, 0.0], [1.0, -1.0, 1e-30, -88.5, 89.0]])
PLAIN = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)


def chain(x: Any) -> Any:
    for _ in range(3):
        x = tf.nn.relu(tf.tanh(x)) + tf.exp(tf.sqrt(tf.abs(x)))
    return tf.nn.softmax(x), tf.nn.softmax(tf.transpose(x)), tf.math.is_nan(x), tf.math.is_nan(tf.reduce_sum(x, 0))


def gradients(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.relu(tf.nn.bias_add(x, x[0])), x[1]))
        loss = tf.reduce_sum(tf.einsum("ij,kj->ik", y, y)) + tf.reduce_sum(tf.einsum("ij,kj->ik", y[:1], y))
    return loss, tape.gradient(loss, x)


def loop(x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(i > 1, lambda: tf.tanh(y), lambda: tf.tanh(y) + tf.exp(y))

    return tf.while_loop(lambda i, y: i < 4, body, [0, x])[1]


def called(x: Any) -> Any:
    inner = tf.function(lambda y: tf.exp(tf.tanh(y)))
    return inner(x) + inner(x[:1]) + inner(x)


def normalised(x: Any) -> Any:
    images, one = tf.reshape(x, [1, 2, 5, 1]), tf.ones([1])
    for _ in range(2):
        images, mean, variance = tf.compat.v1.nn.fused_batch_norm(images, one, one)
        images += mean * variance
    return images


def of_constants(x: Any) -> Any:
    """What has constants alone is computed by the bridge, which needs one of them."""
    size = tf.cast(tf.exp(tf.constant(0.0)) + tf.exp(tf.constant([0.0]))[0], tf.int32)
    return tf.reshape(x, [size, -1]) + tf.tanh(x) + tf.tanh(tf.tanh(x))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    program.__name__: program for program in (chain, gradients, loop, called, normalised, of_constants)
}


def traced(program: Callable[..., Any], *specs: tf.TensorSpec) -> str:
    concrete = tf.function(program, autograph=False).get_concrete_function(*specs)
    KEPT.append(concrete)
    return str(concrete.name.decode())


# Names, parameters of a computation, layouts, the function's own node before a `;`.
_DROPPED = re.compile(r"%[\w.-]+|HloModule \S+|\.\d+\b|[\w.-]+(?=: )|(?<=\])\{[\d,]*\}|(?<=op_name=\")[^\";]*;")
KEPT: list[Any] = []  # a function lives as long as what was traced


def lowered(name: str, args: list[bridge.Arg], once: bool) -> bridge.Lowered:
    if once:
        return rewritten_functions.lowered(name, lambda copy: bridge.lower(copy, args), checks=False)
    with rewritten_functions.expanded(name) as copy:
        return bridge.lower(copy, args)


def words(module: bytes) -> list[str]:
    """The lines of a module, sorted, without names and layouts; values tell whether each reads the right ones.

    Of a node that was inlined MLIR names the function's own node too: `Exp;PartitionedCall/Exp`."""
    rendered = text.render(proto.read(module))
    return sorted(_DROPPED.sub("", line) for line in rendered.splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_module_is_as_without(name: str) -> None:
    function, args = traced(PROGRAMS[name], tf.TensorSpec([2, 5])), [bridge.Arg(tf.float32.as_datatype_enum, (2, 5))]
    once, each = (lowered(function, args, how) for how in (True, False))
    assert words(once.proto) == words(each.proto)
    assert MARK.encode() not in once.proto
    assert replace(once, proto=b"", name="") == replace(each, proto=b"", name="")


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_as_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for slow in (SLOW, frozenset()):
        monkeypatch.setattr(repeated_ops, "SLOW", slow)
        program = tf.function(PROGRAMS[name], jit_compile=True, autograph=False)
        with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
            results.append([[x.numpy() for x in tf.nest.flatten(program(tf.constant(v)))] for v in (HOSTILE, PLAIN)])
    np.testing.assert_equal(*results)
    for got, want in zip(results[0][1], tf.nest.flatten(PROGRAMS[name](tf.constant(PLAIN))), strict=True):
        assert_near(got, want, 1e-5, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_something_is_lowered_once(name: str) -> None:
    """Or the tests above compare nothing; nothing of it stays registered."""
    function = traced(PROGRAMS[name], tf.TensorSpec([2, 5]))
    repeated = Repeated(function, library)
    with rewritten_functions.expanded(function, repeated) as copy:
        bodies = {n.op for d in sources.reachable(copy) for n in d.node_def if MARK in n.op}
        assert bool(repeated)
    repeated.close()
    assert bodies
    assert not any(context.context().has_function(body.encode()) for body in bodies)


def test_what_there_is_once_stays() -> None:
    function = traced(lambda x: tf.tanh(tf.exp(x)), tf.TensorSpec([2]))
    repeated = Repeated(function, library)
    with rewritten_functions.expanded(function, repeated) as copy:
        assert {n.op for n in library(copy).node_def} >= {"Tanh", "Exp"}
    assert not repeated


def test_values_that_sizes_are_computed_from_are_the_same_constants() -> None:
    """Also through a function that is called; others are not asked for."""
    inner = tf.function(tf.abs)

    def program(x: Any, n: Any, m: Any, k: Any) -> Any:
        return tf.reshape(x, [tf.abs(n), inner(m), -1]) * tf.cast(tf.abs(k) + tf.abs(k * 2), tf.float32)

    function = traced(program, tf.TensorSpec([12]), *[tf.TensorSpec([], tf.int32)] * 3)
    number = tf.int32.as_datatype_enum
    values = [bridge.Arg(number, (), value=lambda v=v: np.int32(v)) for v in (-3, -2, 5)]
    args = [bridge.Arg(tf.float32.as_datatype_enum, (12,)), *values]
    once, each = (lowered(function, args, how) for how in (True, False))
    assert set(once.constants) == {1, 2}
    assert (once.constants, once.parameters) == (each.constants, each.parameters)
    assert words(once.proto) == words(each.proto)


def test_sizes_that_a_run_produces() -> None:
    def program(x: Any) -> Any:
        some = tf.boolean_mask(x, x > 0.0)
        return tf.tanh(tf.exp(tf.tanh(tf.exp(some)))), tf.tanh(tf.exp(x)), tf.reduce_mean(tf.sqrt(some))

    x = tf.constant([1.0, -2.0, 3.0, -4.0, 5.0])
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        got = tf.function(program, jit_compile=True)(x)
    for one, want in zip(got, program(x), strict=True):
        assert one.shape == want.shape
        assert_near(one, want, 1e-5)


def test_what_is_refused_is_refused_in_the_same_words() -> None:
    function = traced(lambda x: tf.strings.as_string(tf.tanh(tf.tanh(x))), tf.TensorSpec([2]))
    errors = []
    for once in (True, False):
        with pytest.raises(LoweringError) as info:
            lowered(function, [bridge.Arg(tf.float32.as_datatype_enum, (2,))], once)
        errors.append(str(info.value))
    assert errors[0] == errors[1]
    assert MARK not in errors[0]


def test_slow_ops_are_ops() -> None:
    assert all(hasattr(tf.raw_ops, op) for op in SLOW), repeated_ops.__doc__
