"""A training step of Keras' ResNet50 under the policy mixed_bfloat16: images 224x224, SGD by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .task import Step, Task

SIDE, CLASSES = 224, 1000


def resnet50() -> Any:
    return tf.keras.applications.ResNet50(weights=None, input_shape=(SIDE, SIDE, 3), classes=CLASSES)


def training_step(made: Callable[[], Any] = resnet50) -> Step:
    """(images, labels) -> loss; it updates the weights of a model of its own."""
    policy = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    tf.keras.utils.set_random_seed(0)
    model = made()
    tf.keras.mixed_precision.set_global_policy(policy)
    speeds = [tf.Variable(tf.zeros_like(v)) for v in model.trainable_variables]

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            chances = tf.cast(model(images, training=True), tf.float32)
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, chances))
        weights = model.trainable_variables
        for weight, speed, slope in zip(weights, speeds, tape.gradient(loss, weights), strict=True):
            speed.assign(0.9 * speed + slope)
            weight.assign(weight - 0.01 * speed)
        return loss

    return step


def data(batch: int, side: int = SIDE, classes: int = CLASSES) -> list[tf.Tensor]:
    """Drawn (images, labels)."""
    rng = np.random.default_rng(1)
    images = rng.standard_normal((batch, side, side, 3)).astype("f")
    return [tf.constant(images), tf.constant(rng.integers(0, classes, batch).astype("i4"))]


def task() -> Task:
    return Task(training_step, data, 256)
