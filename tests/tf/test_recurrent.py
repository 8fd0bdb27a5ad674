"""Recurrent layers in one compiled function with gradients by inputs and variables: all of it native."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import rnn

import tfxla_cluster

X = tf.constant(np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32))
MASK = tf.constant(np.arange(5) < np.array([[5], [2]]))
W = tf.Variable(np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32) * 0.3)


class _Cell:
    state_size = output_size = 4

    def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
        state = tf.tanh(tf.concat([x, state], 1) @ W)
        return state, state

    def zero_state(self, batch: int, dtype: tf.DType) -> Any:
        return tf.zeros([batch, 4], dtype)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        return tf.zeros([batch_size, 4], dtype)


def _raw(x: Any) -> Any:
    """Its inputs come out of a branch; its lists grow."""
    inputs, lengths = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2])), tf.constant([4, 3])

    def step(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        done = time >= lengths
        read = tf.cond(tf.reduce_all(done), lambda: tf.zeros([2, 3]), lambda: inputs.read(time))
        return done, read, tf.zeros([2, 4]) if output is None else state, output, None

    outputs, state, _ = tf.compat.v1.nn.raw_rnn(_Cell(), step)
    return outputs.stack(), state


LAYERS: dict[str, Callable[[], Any]] = {
    "simple": lambda: keras.layers.SimpleRNN(4, go_backwards=True),
    "lstm": lambda: keras.layers.LSTM(4, return_sequences=True, return_state=True),
    "gru": lambda: keras.layers.GRU(4, reset_after=False),
    "bidirectional": lambda: keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True)),
    "stacked": lambda: keras.layers.RNN([keras.layers.LSTMCell(4), keras.layers.GRUCell(3)]),
}


def _layer(name: str, masked: bool) -> tuple[Callable[[Any], Any], list[Any]]:
    keras.utils.set_random_seed(3)
    layer = LAYERS[name]()
    layer(X)
    return (lambda x: layer(x, mask=MASK) if masked else layer(x)), [v.value for v in layer.trainable_variables]


def _dynamic(x: Any) -> Any:
    return rnn.dynamic_rnn(_Cell(), x, sequence_length=[5, 2], dtype=tf.float32)


def _step(program: Callable[[Any], Any], variables: list[Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            results = tf.nest.flatten(program(x))
            total = tf.add_n([tf.reduce_sum(tf.sin(y)) for y in results])
        return results, tape.gradient(total, [x, *variables])

    return run


def _assert_equal(run: Callable[[Any], Any], native: bool) -> None:
    want = tf.nest.flatten(tf.function(run)(X))
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise" if native else "xla"):
        before = tfxla_cluster.stats()
        got = tf.nest.flatten(tf.function(run, jit_compile=True)(X))
        after = tfxla_cluster.stats()
    assert (after["fallbacks"] == before["fallbacks"]) is native
    assert after["internal_errors"] == before["internal_errors"]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "masked"),
    [("simple", False), ("lstm", False), ("lstm", True), ("gru", True), ("bidirectional", True), ("stacked", False)],
)
def test_layers(name: str, masked: bool) -> None:
    _assert_equal(_step(*_layer(name, masked)), native=True)


def test_dynamic_rnn() -> None:
    _assert_equal(_step(_dynamic, [W]), native=True)


def test_raw_rnn_runs_as_ops() -> None:
    _assert_equal(_step(_raw, [W]), native=False)
