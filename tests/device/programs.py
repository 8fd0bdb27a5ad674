"""TensorFlow programs on a machine with an accelerator, as users write them; no word of this package.

Each program takes the accelerator's device name and returns what it computed, tensors as they are (their devices
count too). It makes its functions and variables anew, so that it can run with and without the package.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

CPU = "/CPU:0"
Run = Callable[[str], Any]


@dataclass(frozen=True)
class Program:
    """run: the program. native: what this package is to run of it where the accelerator has no backend, 'some' or
    'none'; `stand_in` the same where it is a second CPU, on which nothing lies that does not ask for it."""

    run: Run
    native: str
    stand_in: str = ""

    def expected(self, stand_in: bool, backend: bool = False) -> str:
        """`backend`: the accelerator has one, and then runs some of every program."""
        if backend:
            return "some"
        return self.stand_in or self.native if stand_in else self.native


PROGRAMS: dict[str, Program] = {}


def program(native: str, stand_in: str = "") -> Callable[[Run], Run]:
    """Register a program under its name; see Program."""

    def register(run: Run) -> Run:
        PROGRAMS[run.__name__] = Program(run, native, stand_in)
        return run

    return register


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def mixed(a: Any) -> Any:
    """Some ops, more than the smallest cluster holds."""
    return tf.reduce_sum(tf.tanh(a * 2.0 + 1.0) - tf.exp(-a * a), axis=-1) * 3.0


def _cnn(jit_compile: Any) -> Any:
    tf.keras.utils.set_random_seed(5)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((12, 12, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=jit_compile)
    return model


def _fit(jit_compile: Any) -> Any:
    images, labels = numbers(64, 12, 12, 1), np.arange(64) % 10
    model = _cnn(jit_compile)
    history = model.fit(images, labels, batch_size=16, epochs=2, shuffle=False, verbose=0).history
    return history["loss"], model.evaluate(images, labels, verbose=0), model.predict(images[:5], verbose=0)


@program("none", "some")
def keras_plain(accelerator: str) -> Any:
    return _fit(False)


@program("none", "some")
def keras_auto(accelerator: str) -> Any:
    return _fit("auto")


@program("none", "some")
def keras_must_compile(accelerator: str) -> Any:
    return _fit(True)


@program("some")
def keras_on_the_cpu(accelerator: str) -> Any:
    with tf.device(CPU):
        return _fit(False)


@program("none")
def must_compile_not_placed(accelerator: str) -> Any:
    f = tf.function(mixed, jit_compile=True)
    x = tf.constant(numbers(4, 5))
    return f(x), f(x)


@program("none")
def must_compile_on_the_accelerator(accelerator: str) -> Any:
    f = tf.function(mixed, jit_compile=True)
    with tf.device(accelerator):
        return f(tf.constant(numbers(4, 5)))


@program("some")
def must_compile_here_and_there(accelerator: str) -> Any:
    """One function called on both, each twice: a call on one says nothing about the other."""
    f = tf.function(mixed, jit_compile=True)
    results = []
    for device in (CPU, accelerator) * 2:
        with tf.device(device):
            results.append(f(tf.constant(numbers(4, 5))))
    return results


@program("none")
def must_compile_variable(accelerator: str) -> Any:
    with tf.device(accelerator):
        v = tf.Variable(numbers(5))

        @tf.function(jit_compile=True)
        def f(a: Any) -> Any:
            v.assign_add(tf.reduce_sum(a, 0))
            return mixed(a + v)

        return f(tf.constant(numbers(4, 5))), v.read_value()


@program("some")
def must_compile_variable_on_the_cpu(accelerator: str) -> Any:
    with tf.device(CPU):
        v = tf.Variable(numbers(5))

        @tf.function(jit_compile=True)
        def f(a: Any) -> Any:
            v.assign_add(tf.reduce_sum(a, 0))
            return mixed(a + v)

        return f(tf.constant(numbers(4, 5))), v.read_value()


@program("none")
def nested_on_the_accelerator(accelerator: str) -> Any:
    with tf.device(accelerator):
        v = tf.Variable(numbers(5))

        @tf.function(jit_compile=True)
        def inner(a: Any) -> Any:
            v.assign_add(tf.reduce_sum(a, 0))
            return mixed(a * v)

        @tf.function
        def outer(a: Any) -> Any:
            return inner(a) + 1.0

        return outer(tf.constant(numbers(4, 5))), outer(tf.constant(numbers(3, 5))), v.read_value()


@program("some")
def nested_on_the_cpu(accelerator: str) -> Any:
    inner = tf.function(mixed, jit_compile=True)

    @tf.function
    def outer(a: Any) -> Any:
        with tf.device(CPU):
            on_cpu = inner(a)
        # After it: TensorFlow's bridge may hang where two threads lower one function for the first time at once, one
        # of them stock XLA's (each waits for the other's lock: that of Python, that of the function's stack traces).
        with tf.device(accelerator), tf.control_dependencies([on_cpu]):
            return inner(a) + on_cpu

    return outer(tf.constant(numbers(4, 5)))


@program("some")
def parts_of_a_function(accelerator: str) -> Any:
    """The parts on the CPU are compiled, those on the accelerator are not, and values go both ways."""

    @tf.function
    def f(a: Any) -> Any:
        with tf.device(CPU):
            b = tf.tanh(a * 2.0 + 1.0) - tf.exp(-a)
        with tf.device(accelerator):
            c = tf.sin(b * 2.0) - tf.cos(b + a) * 3.0
        with tf.device(CPU):
            return mixed(c) + tf.reduce_sum(b)

    return f(tf.constant(numbers(4, 5)))


@program("none")
def function_on_the_accelerator(accelerator: str) -> Any:
    f = tf.function(mixed)
    with tf.device(accelerator):
        return f(tf.constant(numbers(4, 5)))


@program("some")
def function_on_the_cpu(accelerator: str) -> Any:
    f = tf.function(mixed)
    with tf.device(CPU):
        return f(tf.constant(numbers(4, 5)))


@program("none")
def shapes_on_the_accelerator(accelerator: str) -> Any:
    """Small integers of an accelerator's ops lie in the host's memory."""

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def f(a: Any) -> Any:
        rows = tf.shape(a)[0]
        wide = tf.reshape(a, [rows * 2, -1]) + tf.cast(tf.range(rows * 2)[:, None], tf.float32)
        return tf.concat([wide, tf.fill(tf.shape(wide), 2.0)], 0), rows * 3 - 1

    with tf.device(accelerator):
        return f(tf.constant(numbers(4, 6)))


@program("none")
def loops_on_the_accelerator(accelerator: str) -> Any:
    @tf.function
    def f(a: Any) -> Any:
        for k in tf.range(3):
            a = tf.tanh(a * 1.5 + tf.cast(k, tf.float32)) - tf.exp(-a)
        if tf.reduce_sum(a) > 0:
            a = tf.sin(a) * 2.0 - tf.cos(a) + 1.0
        return tf.map_fn(lambda row: tf.nn.softmax(row * 2.0), a)

    with tf.device(accelerator):
        return f(tf.constant(numbers(4, 5)))


@program("some")
def loops_on_the_cpu(accelerator: str) -> Any:
    @tf.function
    def f(a: Any) -> Any:
        with tf.device(CPU):
            for k in tf.range(3):
                a = tf.tanh(a * 1.5 + tf.cast(k, tf.float32)) - tf.exp(-a)
            return a

    with tf.device(CPU):
        return f(tf.constant(numbers(4, 5)))


@program("none")
def random_on_the_accelerator(accelerator: str) -> Any:
    @tf.function
    def f(seed: Any) -> Any:
        drawn = tf.random.stateless_uniform([4, 5], seed) + tf.random.stateless_normal([4, 5], seed)
        return mixed(drawn * 2.0)

    with tf.device(accelerator):
        return f(tf.constant([3, 4]))


@program("some")
def tf_data(accelerator: str) -> Any:
    data = tf.data.Dataset.from_tensor_slices(numbers(8, 5)).map(mixed).batch(4)
    return [batch.numpy() for batch in data]


@program("none")
def saved_model(accelerator: str) -> Any:
    class Module(tf.Module):
        def __init__(self) -> None:
            self.w = tf.Variable(numbers(5))

        @tf.function(input_signature=[tf.TensorSpec([None, 5])])
        def __call__(self, a: Any) -> Any:
            return mixed(a * self.w)

        @tf.function(input_signature=[tf.TensorSpec([None, 5])], jit_compile=True)
        def compiled(self, a: Any) -> Any:
            return mixed(a - self.w)

    with tempfile.TemporaryDirectory() as directory, tf.device(accelerator):
        tf.saved_model.save(Module(), directory)
        ours = b"Tfxla" in b"".join(tf.io.read_file(directory + "/saved_model.pb").numpy().splitlines())
        loaded = tf.saved_model.load(directory)
        return loaded(tf.constant(numbers(4, 5))), loaded.compiled(tf.constant(numbers(4, 5))), np.array(ours)


def _gradients(device: str, jit_compile: bool) -> Any:
    with tf.device(device):
        f = tf.function(mixed, jit_compile=jit_compile)
        x = tf.Variable(numbers(4, 5))
        with tf.GradientTape() as outer, tf.GradientTape() as tape:
            y = tf.reduce_sum(f(x) ** 2)
        first = tape.gradient(y, x)
        with outer:
            size = tf.reduce_sum(first)
        return y, first, size


@program("none")
def gradients(accelerator: str) -> Any:
    return _gradients(accelerator, False), _gradients(accelerator, True)


@program("some")
def gradients_on_the_cpu(accelerator: str) -> Any:
    return _gradients(CPU, False), _gradients(CPU, True)


@program("none")
def mirrored_strategy(accelerator: str) -> Any:
    strategy = tf.distribute.MirroredStrategy([accelerator])
    with strategy.scope():
        w = tf.Variable(numbers(5))

    @tf.function
    def step(a: Any) -> Any:
        def replica(b: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(mixed(b * w))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(a,)), axis=None)

    return [step(tf.constant(numbers(4, 5))).numpy() for _ in range(2)], w.numpy()


@program("some")
def session(accelerator: str) -> Any:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4, 5])
        with tf.device(CPU):
            a = mixed(x)
        with tf.device(accelerator):
            b = mixed(x * 2.0)
        count = {"CPU": len(tf.config.list_logical_devices("CPU"))}
        with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count=count)) as opened:
            return opened.run([a, b, tf.reduce_sum(a + b)], {x: numbers(4, 5)})
