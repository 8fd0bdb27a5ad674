"""What a first call costs: `python -m tests.tf2xla.first_call NAME [stock]`.

NAME: a number of elementwise operations, or a training step: transformer (of tests.dynamic.measure), resnet50, lstm.
Prints seconds of processors, of the trace and of the call after it, compiled by this package or by TensorFlow's XLA.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.dynamic import measure

Program = tuple[Callable[..., Any], Sequence[Any]]
"""A function, and what it is called with."""


def elementwise(count: int) -> Program:
    ops: list[Callable[[Any], Any]] = [
        *(tf.tanh, tf.exp, lambda x: x * 1.001, lambda x: x + 0.1, tf.nn.relu),
        *(tf.sigmoid, lambda x: tf.minimum(x, 3.0), tf.abs, tf.sqrt, lambda x: x / 2.0),
    ]

    def chain(x: Any) -> Any:
        y = x
        for number in range(count):
            y = ops[number % len(ops)](y) if number % 7 else y - x
        return y

    return chain, [tf.random.uniform([100, 100])]


def transformer() -> Program:
    rng = np.random.default_rng(0)
    tokens = tf.constant(rng.integers(0, measure.WORDS, (32, measure.LENGTH)).astype(np.int32))
    return measure.transformer(), [tokens, tf.constant(rng.integers(0, measure.WORDS, 32).astype(np.int32))]


def resnet50() -> Program:
    import keras

    model = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    return _step(model, tf.random.normal([2, 64, 64, 3]))


def lstm() -> Program:
    from keras import Sequential, layers

    both = [layers.LSTM(64, return_sequences=True), layers.LSTM(64)]
    return _step(Sequential([layers.Input((32, 16)), *both, layers.Dense(10)]), tf.random.normal([8, 32, 16]))


def _step(model: Any, x: Any) -> Program:
    """A step of gradient descent of a Keras model."""

    def step(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = [variable.value for variable in model.trainable_variables]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.001 * gradient)
        return loss

    return step, [x, tf.range(len(x))]


def main(name: str, mode: str = "") -> None:
    if mode != "stock":
        tfxla_cluster.enable(tfxla_must_compile_fallback="raise")
    named = {"transformer": transformer, "resnet50": resnet50, "lstm": lstm}
    function, args = elementwise(int(name)) if name.isdigit() else named[name]()
    tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1.0))  # TensorFlow has started
    compiled = tf.function(function, jit_compile=True, autograph=False)
    at = [time.process_time()]
    compiled.get_concrete_function(*args)
    at.append(time.process_time())
    compiled(*args)
    print(f"{name} {mode}: trace {at[1] - at[0]:.2f} s, first call {time.process_time() - at[1]:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
