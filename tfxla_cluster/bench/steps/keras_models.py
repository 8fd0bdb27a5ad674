"""Training steps of Keras' models in f32 with Keras' optimizers: the suite's steps for CPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .task import Step, Task

Model = Any
Shape = tuple[int, ...]


def task(make: Callable[[], Model], image: Shape, classes: int, batch: int, optimizer: Callable[[], Any]) -> Task:
    """A step of the model that `make` gives, which has logits of `classes` for inputs of the shape `image`."""

    def data(count: int) -> list[tf.Tensor]:
        rng = np.random.default_rng(1)
        drawn = rng.standard_normal((count, *image)).astype("f")
        return [tf.constant(drawn), tf.constant(rng.integers(0, classes, count).astype("i4"))]

    return Task(lambda: _step(make, optimizer), data, batch)


def _step(make: Callable[[], Model], optimizer: Callable[[], Any]) -> Step:
    tf.keras.utils.set_random_seed(0)
    model, updates = make(), optimizer()
    updates.build(model.trainable_variables)

    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(inputs, training=True))
            loss = tf.reduce_mean(losses)
        updates.apply(tape.gradient(loss, model.trainable_variables))
        return loss

    return step


def _adam() -> Any:
    return tf.keras.optimizers.Adam(1e-3)


def _sgd() -> Any:
    return tf.keras.optimizers.SGD(0.01, momentum=0.9)


def mlp() -> Task:
    layers = tf.keras.layers

    def make() -> Model:
        widths = [layers.Dense(512, activation="relu"), layers.Dense(512, activation="relu"), layers.Dense(10)]
        return tf.keras.Sequential([layers.Input((784,)), *widths])

    return task(make, (784,), 10, 64, _adam)


def cnn(side: int) -> Task:
    """The demo's network on images of `side` x `side`."""
    from ...demo import digits

    return task(lambda: digits.build(side), (side, side, 1), 10, 64, _adam)


def lstm() -> Task:
    layers = tf.keras.layers

    def make() -> Model:
        return tf.keras.Sequential([layers.Input((64, 32)), layers.LSTM(128), layers.Dense(10)])

    return task(make, (64, 32), 10, 32, _adam)


def transformer(blocks: int = 2, width: int = 256, heads: int = 4, tokens: int = 128) -> Task:
    layers = tf.keras.layers

    def block(x: Any) -> Any:
        seen = layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = layers.LayerNormalization()(x + seen)
        inner = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(x))
        return layers.LayerNormalization()(x + inner)

    def make() -> Model:
        x = given = tf.keras.Input((tokens, width))
        for _ in range(blocks):
            x = block(x)
        return tf.keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))

    return task(make, (tokens, width), 10, 16, _adam)


def images(application: str) -> Task:
    """A network of keras.applications on images of 224 x 224."""

    def make() -> Model:
        built = getattr(tf.keras.applications, application)
        return built(weights=None, input_shape=(224, 224, 3), classes=1000, classifier_activation=None)

    return task(make, (224, 224, 3), 1000, 8, _sgd)
