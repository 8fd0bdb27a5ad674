"""The programs. Each returns a dict of NumPy results; `jit` is what the program passes as jit_compile.

They know nothing of this package: what compiles them is decided by the environment of the process.
Weights come from NumPy, since initialisers may draw other numbers when clustered.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
Results = dict[str, Any]
PROGRAMS: dict[str, Callable[[Any], Results]] = {}


def program(fn: Callable[[Any], Results]) -> Callable[[Any], Results]:
    PROGRAMS[fn.__name__] = fn
    return fn


def rng(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def labels(count: int, classes: int = 10) -> np.ndarray:
    return np.random.default_rng(1).integers(0, classes, count).astype(np.int32)


def set_weights(model: keras.Model, scale: float = 1.0) -> None:
    """He-scaled kernels from NumPy; biases, offsets and statistics keep their initial values."""
    draw = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            fan_in = np.prod(variable.shape[:-1])
            variable.assign((draw.standard_normal(variable.shape) * scale / np.sqrt(fan_in)).astype(np.float32))


def step_results(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    jit: Any,
    tape_inside: bool = True,
    steps: int = 2,
    optimizer: Any = None,
) -> Results:
    """Forward pass, then `steps` steps (Adam) by hand; losses, predictions and a weight after them, some gradients.

    Of the gradients, those of some kernels in the last step: that of a bias before a normalisation is only rounding.
    """
    optimizer = optimizer or keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    forward = tf.function(lambda a: model(a, training=False), jit_compile=jit)

    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_fn(b, model(a, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss, kernels_of(grads)

    def kernels_of(grads: Any) -> dict[str, Any]:
        found = {v.path: g for v, g in zip(model.trainable_variables, grads) if v.path.endswith("kernel")}
        return {path: tf.convert_to_tensor(found[path]) for path in list(found)[:: max(1, len(found) // 4)]}

    if tape_inside:
        train = tf.function(step, jit_compile=jit)
    else:
        inner = tf.function(lambda a, b: loss_fn(b, model(a, training=True)), jit_compile=jit)

        def train(a: Any, b: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = inner(a, b)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))
            return loss, kernels_of(grads)

    xs, ys = tf.constant(x), tf.constant(y)
    before = forward(xs)
    trained = [train(xs, ys) for _ in range(steps)]
    return {
        "before": before.numpy(),
        "losses": [float(loss) for loss, _ in trained],
        "after": forward(xs).numpy(),
        "weight": model.trainable_variables[0].numpy(),
        **{f"gradient of {number}": grad.numpy() for number, grad in enumerate(trained[-1][1].values())},
    }


def mlp_model() -> keras.Model:
    model = keras.Sequential(
        [layers.Input((64,)), layers.Dense(48, "relu"), layers.Dense(32, "gelu"), layers.Dense(10)]
    )
    set_weights(model)
    return model


def cnn_model() -> keras.Model:
    model = keras.Sequential(
        [
            layers.Input((12, 12, 3)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(24, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(32, "relu"),
            layers.Dense(10),
        ]
    )
    set_weights(model)
    return model


@program
def fused_sum(jit: Any) -> Results:
    f = tf.function(lambda x, y, z: tf.reduce_sum(x + y * z), jit_compile=jit)
    args = [tf.constant(rng(33, 70, seed=i)) for i in range(3)]
    return {"sum": f(*args).numpy(), "empty": f(*[tf.zeros([0, 3])] * 3).numpy(), "scalar": f(1.0, 2.0, 3.0).numpy()}


@program
def two_lengths(jit: Any) -> Results:
    f = tf.function(lambda x: tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0), jit_compile=jit)
    return {str(n): f(tf.constant(rng(1, n))).numpy() for n in (10, 100, 10, 1)}


def _fit(model: keras.Model, x: np.ndarray, y: np.ndarray, jit: Any) -> Results:
    model.compile(
        keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=jit
    )
    history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return {
        "losses": history.history["loss"],
        "evaluate": model.evaluate(x, y, verbose=0),
        "predict": model.predict(x, verbose=0),
    }


@program
def keras_mlp(jit: Any) -> Results:
    return _fit(mlp_model(), rng(72, 64), labels(72), jit)


@program
def keras_cnn(jit: Any) -> Results:
    return _fit(cnn_model(), rng(72, 12, 12, 3), labels(72), jit)


@program
def loop_tape_inside(jit: Any) -> Results:
    return step_results(cnn_model(), rng(8, 12, 12, 3), labels(8), jit)


@program
def loop_tape_outside(jit: Any) -> Results:
    return step_results(mlp_model(), rng(8, 64), labels(8), jit, tape_inside=False)


def _recurrent(layer: type, jit: Any) -> Results:
    model = keras.Sequential([layers.Input((12, 8)), layer(16), layers.Dense(10)])
    set_weights(model)
    return step_results(model, rng(6, 12, 8), labels(6), jit)


@program
def lstm(jit: Any) -> Results:
    return _recurrent(layers.LSTM, jit)


@program
def gru(jit: Any) -> Results:
    return _recurrent(layers.GRU, jit)


@program
def transformer_block(jit: Any) -> Results:
    ids = layers.Input((16,), dtype="int32")
    x = layers.Embedding(50, 32)(ids)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(64, "gelu")(x)))
    model = keras.Model(ids, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    set_weights(model)
    tokens = np.random.default_rng(3).integers(0, 50, (4, 16)).astype(np.int32)
    return step_results(model, tokens, labels(4), jit)


@program
def mobilenet_v2(jit: Any) -> Results:
    model = keras.applications.MobileNetV2(
        weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None
    )
    set_weights(model)
    # Adam's first step is the sign of the gradient, which rounding decides where it is near zero.
    return step_results(model, rng(4, 64, 64, 3), labels(4), jit, steps=1, optimizer=keras.optimizers.SGD(1e-4))


@program
def resnet50(jit: Any) -> Results:
    model = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None)
    set_weights(model)
    # Adam's first step is the sign of the gradient, which rounding decides where it is near zero.
    return step_results(model, rng(4, 64, 64, 3), labels(4), jit, steps=1, optimizer=keras.optimizers.SGD(1e-4))


def _mixed(policy: str, jit: Any) -> Results:
    keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential(
        [
            layers.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(16, "relu"),
            layers.Dense(10, dtype="float32"),
        ]
    )
    set_weights(model)
    return step_results(model, rng(8, 8, 8, 3), labels(8), jit, steps=1)


@program
def mixed_bfloat16(jit: Any) -> Results:
    return _mixed("mixed_bfloat16", jit)


@program
def mixed_float16(jit: Any) -> Results:
    return _mixed("mixed_float16", jit)


class Saved(tf.Module):
    """A module with a variable, for saving."""

    def __init__(self, jit: Any) -> None:
        super().__init__()
        self.weight = tf.Variable(rng(5, 3), name="weight")
        self.count = tf.Variable(0.0, name="count")
        self.serve = tf.function(self._serve, jit_compile=jit, input_signature=[tf.TensorSpec([None, 5])])

    def _serve(self, x: Any) -> Any:
        self.count.assign_add(1.0)
        return tf.nn.softmax(tf.matmul(x, self.weight) + self.count)


@program
def saved_model(jit: Any) -> Results:
    """Saved and served in this process; `TFXLA_TEST_SAVED` names a directory saved by another one."""
    path = os.environ.get("TFXLA_TEST_SAVED") or tempfile.mkdtemp()
    if not os.listdir(path):
        tf.saved_model.save(Saved(jit), path)
    loaded = tf.saved_model.load(path)
    return {f"call {n}": loaded.serve(tf.constant(rng(n, 5))).numpy() for n in (2, 7)}


@program
def control_flow(jit: Any) -> Results:
    """A data-dependent while loop, a cond, and a variable assigned in one branch."""
    total = tf.Variable(0.0)

    @tf.function(jit_compile=jit)
    def f(x: Any, flag: Any) -> Any:
        i = tf.constant(0)
        while tf.reduce_sum(x) < 100.0:
            x = x * 1.5 + 1.0
            i += 1
        if flag:
            total.assign_add(tf.reduce_sum(x))
        return x, i

    out = [f(tf.constant(np.abs(rng(6))), tf.constant(flag)) for flag in (True, False, True)]
    return {"x": out[0][0].numpy(), "i": out[0][1].numpy(), "total": total.numpy()}


@program
def mnist_style_step(jit: Any) -> Results:
    """tape.gradient and optimizer.apply_gradients inside one must-compile function."""
    return step_results(mlp_model(), rng(16, 64), labels(16), True)
