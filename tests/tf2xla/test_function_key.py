"""Two functions have one key where one lowering serves both, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tfxla_cluster.tf2xla import bridge, function_calls, function_key

X = tf.TensorSpec([3, 3], tf.float32)


def definitions(function: Callable[..., Any], *specs: Any) -> list[Any]:
    traced = tf.function(function, autograph=True).get_concrete_function(*(specs or (X,)))
    name = traced._inference_function.name.decode()
    found = list(function_calls.reachable([name], bridge.library))
    kept.append(traced)  # TensorFlow removes the functions with it
    return found


kept: list[Any] = []


def rich(scale: float = 2.0, seed: int = 3, times: int = 3) -> Callable[..., Any]:
    """Calls, a branch, a loop, their gradients, a gradient of the user's, random numbers, a variable."""
    variable = tf.Variable(tf.ones([3, 3]))

    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.tanh(x), lambda d: d * scale

    inner = tf.function(lambda x: tf.nn.relu(x @ variable))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = inner(x)
            y = tf.cond(tf.reduce_sum(y) > 0, lambda: inner(y), lambda: y * 2.0)
            for _ in tf.range(times):
                y = y + own(inner(y))
            loss = tf.reduce_sum(y + tf.random.normal([3, 3], seed=seed))
        variable.assign_sub(tape.gradient(loss, variable))
        return loss

    return step


def test_a_function_traced_again_has_the_same_key() -> None:
    first = definitions(rich())
    definitions(lambda x: x + 1)  # its number takes part in later names
    again = definitions(rich())
    names = [{d.signature.name for d in found} for found in (first, again)]
    assert len(names[0]) == len(names[1]) > 5
    assert not names[0] & names[1]
    assert function_key.digest(first) == function_key.digest(again)
    assert function_key.keepable(first, bridge.library)


def _on_cpu(x: Any) -> Any:
    with tf.device("CPU:0"):
        return tf.sin(x)


def _ordered(x: Any, after: bool) -> Any:
    first = tf.identity(x, name="first")
    with tf.control_dependencies([first] if after else []):
        return tf.sin(x)


# Two functions that differ in one thing.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "op": (tf.sin, tf.cos),
    "constant": (lambda x: x * 2.0, lambda x: x * 2.0000002),
    "constant's type": (lambda x: tf.cast(x, tf.float16), lambda x: tf.cast(x, tf.bfloat16)),
    "attribute": (lambda x: tf.matmul(x, x), lambda x: tf.matmul(x, x, transpose_a=True)),
    "order of operands": (lambda x: x - tf.sin(x), lambda x: tf.sin(x) - x),
    "order of results": (lambda x: (tf.sin(x), tf.cos(x)), lambda x: tuple(reversed((tf.sin(x), tf.cos(x))))),
    "number of results": (lambda x: (tf.sin(x), tf.sin(x)), tf.sin),
    "an argument that is a result": (lambda x: (x, tf.sin(x)), lambda x: (tf.sin(x), x)),
    "constant in the gradient of the user's": (rich(2.0), rich(3.0)),
    "seed": (rich(seed=3), rich(seed=4)),
    "length of a loop": (rich(times=3), rich(times=4)),
    "called function": (
        lambda x: x * tf.function(lambda y: tf.sin(y) + 1.0)(x),
        lambda x: x * tf.function(lambda y: tf.sin(y) + 2.0)(x),
    ),
    "branches": (
        lambda x: tf.cond(x[0, 0] > 0, lambda: x + 1, lambda: x * 2),
        lambda x: tf.cond(x[0, 0] > 0, lambda: x * 2, lambda: x + 1),
    ),
    "large constant": (lambda x: x + np.zeros([3, 3], np.float32), lambda x: x + np.eye(3, dtype=np.float32)),
    "zeros of one sign": (lambda x: x + np.float32(0.0), lambda x: x + np.float32(-0.0)),
    "device": (tf.sin, _on_cpu),
    "control dependency": (lambda x: _ordered(x, True), lambda x: _ordered(x, False)),
}


@pytest.mark.parametrize("what", PAIRS)
def test_a_difference_that_lowering_may_see(what: str) -> None:
    one, two = (function_key.digest(definitions(function)) for function in PAIRS[what])
    assert one != two
    assert one == function_key.digest(definitions(PAIRS[what][0])), "not by chance"


def test_arguments_by_their_place() -> None:
    specs = (X, X)
    minus = function_key.digest(definitions(lambda x, y: x - y, *specs))
    assert minus == function_key.digest(definitions(lambda a, b: a - b, *specs))
    assert minus != function_key.digest(definitions(lambda x, y: y - x, *specs))
    typed = (X, tf.TensorSpec([3, 3], tf.float64))
    assert minus != function_key.digest(definitions(lambda x, y: x - tf.cast(y, tf.float32), *typed))


def test_an_argument_with_the_number_of_its_tensor() -> None:
    """As functions that TensorFlow did not trace may have it."""

    def subtraction(*names: str) -> Any:
        (made,) = definitions(lambda x, y: tf.subtract(x, y, name="n"), X, X)
        for arg, name in zip(made.signature.input_arg, names):
            arg.name = name
        next(n for n in made.node_def if n.name == "n").input[:] = ["a:0", "b:0"]
        return function_key.digest([made])

    assert subtraction("a", "b") != subtraction("b", "a")
    assert subtraction("a", "b") == subtraction("a", "b")


def test_variables_that_are_one_and_that_are_two() -> None:
    def pair(same: bool) -> str:
        a, b = tf.Variable(1.0), tf.Variable(1.0)
        found = definitions(lambda x: x + a + (a if same else b))
        return function_key.digest(found)

    assert pair(True) != pair(False)
    assert pair(False) == pair(False)


def test_settings_of_tensorflow_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_key.settings()
    config.enable_tensor_float_32_execution(False)
    try:
        assert function_key.settings()["tf32"] != before["tf32"]
    finally:
        config.enable_tensor_float_32_execution(True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true --xla_dump_to=somewhere")
    assert function_key.settings()["flags"] == "--xla_cpu_enable_fast_math=true"
    monkeypatch.delenv("XLA_FLAGS")
    assert function_key.settings() == before


@pytest.mark.parametrize(
    ("op", "keepable"), [("ZeroOut", False), ("SymbolicGradient", False), ("XlaDynamicSlice", True), ("_Arg", True)]
)
def test_ops_of_other_libraries_and_gradients_by_name_are_not_kept(op: str, keepable: bool) -> None:
    (definition,) = definitions(lambda x: tf.sin(x, name="n"))
    node = next(n for n in definition.node_def if n.name == "n")
    node.op = op
    said = function_key.keepable([definition], bridge.library)
    assert bool(said) == keepable
    assert keepable or "ZeroOut" in said.reason or "n is a gradient" in said.reason
