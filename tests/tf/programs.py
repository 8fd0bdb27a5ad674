"""Programs with must-compile functions: each returns plain values, equal under stock TensorFlow and ours."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(fn: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def sum_of_products() -> Any:
    f = tf.function(lambda x, y, z: tf.reduce_sum(x + y * z), jit_compile=True)
    x = tf.reshape(tf.range(12.0), [3, 4])
    return [f(x, x + 1, x * 2).numpy() for _ in range(3)]


@program
def mlp_step() -> Any:
    w1 = tf.Variable(tf.random.stateless_normal([4, 8], [1, 2]))
    w2 = tf.Variable(tf.random.stateless_normal([8, 1], [1, 3]))

    @tf.function(jit_compile=True)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w1) @ w2 - y) ** 2)
        for v, d in zip([w1, w2], tape.gradient(loss, [w1, w2])):
            v.assign_sub(0.1 * d)
        return loss

    x = tf.random.stateless_normal([16, 4], [5, 5])
    losses = [step(x, x[:, :1]).numpy() for _ in range(5)]
    return losses, w1.numpy(), w2.numpy()


@program
def optimizer_step() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((6,)), layers.Dense(5, "relu"), layers.Dense(3)])
    optimizer = tf.keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=True)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    x, y = tf.random.stateless_normal([12, 6], [5, 5]), tf.range(12) % 3
    return [step(x, y).numpy() for _ in range(4)], int(optimizer.iterations.numpy())


@program
def keras_fit() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], jit_compile=True)
    rng = np.random.RandomState(0)
    x, y = rng.randn(70, 8, 8, 1).astype("f"), rng.randint(0, 10, 70)
    history = model.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False)
    return history.history, model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)


@program
def variable_created_on_first_call() -> Any:
    class Module(tf.Module):
        def __init__(self) -> None:
            self.v: Any = None

        @tf.function(jit_compile=True)
        def __call__(self, x: Any) -> Any:
            if self.v is None:
                self.v = tf.Variable(tf.ones([3]) * 2)
            self.v.assign_add(x)
            return self.v * x

    module = Module()
    return [module(tf.ones([3])).numpy() for _ in range(3)]


@program
def two_signatures() -> Any:
    f = tf.function(lambda x: tf.nn.softmax(x) + tf.reduce_sum(x), jit_compile=True)
    return [f(tf.ones([1, n])).numpy() for n in (10, 100, 10)]


@program
def unknown_dimension() -> Any:
    signature = [tf.TensorSpec([None, 10])]
    f = tf.function(lambda x: tf.nn.softmax(x) * tf.cast(tf.shape(x)[0], tf.float32), signature, jit_compile=True)
    return [f(tf.ones([n, 10])).numpy() for n in (1, 3, 0, 3)]


@program
def shape_from_argument() -> Any:
    f = tf.function(lambda x, n: (tf.reshape(x, [n, -1]), n + 1), jit_compile=True)
    return [[r.numpy() for r in f(tf.range(12.0), tf.constant(k))] for k in (2, 3, 2, 4)]


@program
def shape_from_variable() -> Any:
    n = tf.Variable(2)

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        y = tf.reshape(x, [n, -1])
        n.assign_add(1)
        return y

    return [f(tf.range(12.0)).numpy() for _ in range(3)], n.numpy()


@program
def shape_inside_nested_call() -> Any:
    inner = tf.function(lambda x, n: tf.tile(x, [n]))
    f = tf.function(lambda x, n: inner(x, n * 2), jit_compile=True)
    return [f(tf.range(3.0), tf.constant(k)).numpy() for k in (1, 2)]


@program
def gradients_through() -> Any:
    v = tf.Variable([1.0, 2.0])
    f = tf.function(lambda x: tf.sin(x * v) * x, jit_compile=True)
    x = tf.constant([1.0, 3.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(f(x)) + tf.reduce_sum(f(2 * x))
    return y.numpy(), g.numpy(), outer.gradient(g, x).numpy(), tape.gradient(loss, v).numpy()


@program
def assignments_in_branches_and_loops() -> Any:
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(1)

    @tf.function(jit_compile=True)
    def f(flag: Any, x: Any) -> Any:
        if flag:
            v.assign(x)
        else:
            w.assign_add(2)
        i = 0
        while i < w:
            v.assign_add([1.0, 1.0])
            i += 1
        return v.read_value()

    results = [f(tf.constant(flag), tf.constant([5.0, 6.0])).numpy() for flag in (True, False, True)]
    return results, v.numpy(), w.numpy()


@program
def two_functions_one_variable() -> Any:
    v = tf.Variable(1.0)
    f = tf.function(lambda: v.assign_add(1.0), jit_compile=True)
    g = tf.function(lambda x: v.assign(v * x), jit_compile=True)
    return f().numpy(), g(tf.constant(3.0)).numpy(), f().numpy(), v.numpy()


@program
def variables_as_arguments() -> Any:
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=True)
    def f(a: Any, b: Any) -> Any:
        a.assign_add(b)
        b.assign(a * 2.0)
        return a + b

    return f(v, w).numpy(), f(v, v).numpy(), v.numpy(), w.numpy()


@program
def structures() -> Any:
    @tf.function(jit_compile=True)
    def f(d: Any, pair: Any, scale: float = 2.0, *, shift: float = 0.0) -> Any:
        return {"sum": d["b"] + d["a"] * scale, "pair": (pair[1], [pair[0] + shift]), "none": None}

    a, b = tf.constant(1.0), tf.constant([2.0, 3.0])
    found = [
        f({"b": b, "a": a}, (a, b)),
        f({"a": a, "b": b}, (a, b), 3.0),
        f({"b": b, "a": a}, (b, a), shift=1.0),
        f({"b": b, "a": a}, (a, b)),
        f({"a": b, "b": a}, (a, b), 3),
    ]
    return [tf.nest.map_structure(lambda t: None if t is None else t.numpy(), r) for r in found]


@program
def no_outputs_and_no_inputs() -> Any:
    v = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def bump() -> None:
        v.assign_add(1.0)

    empty = tf.function(lambda x: None, jit_compile=True)
    constant = tf.function(lambda: tf.constant([1.0, 2.0]), jit_compile=True)
    return bump(), bump(), v.numpy(), empty(tf.ones([2])), constant().numpy()


@program
def eight_threads() -> Any:
    f = tf.function(lambda x: tf.reduce_sum(x * 2), jit_compile=True)
    xs = [tf.ones([i % 5 + 1]) for i in range(25)]
    found: list[Any] = [None] * 8

    def work(k: int) -> None:
        found[k] = [f(x).numpy() for x in xs]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@program
def lstm_fit() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((5, 3)), layers.LSTM(4), layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
    rng = np.random.RandomState(0)
    history = model.fit(rng.randn(20, 5, 3).astype("f"), rng.randn(20, 1), 10, epochs=2, verbose=0, shuffle=False)
    return history.history["loss"]


@program
def saved_model() -> Any:
    class Module(tf.Module):
        def __init__(self) -> None:
            self.v = tf.Variable(2.0)

        @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
        def f(self, x: Any) -> Any:
            self.v.assign_add(1.0)
            return x * self.v

    with tempfile.TemporaryDirectory() as directory:
        module = Module()
        first = module.f(tf.ones([3])).numpy()
        tf.saved_model.save(module, directory)
        saved = Path(directory, "saved_model.pb").read_bytes()
        assert b"TfxlaRun" not in saved
        assert b"TfxlaReady" not in saved
        assert b"__tfxla" not in saved
        loaded = tf.saved_model.load(directory)
        return first, loaded.f(tf.ones([2])).numpy(), loaded.f(tf.ones([4])).numpy(), loaded.v.numpy()


@program
def functions_run_eagerly() -> Any:
    f = tf.function(lambda x: x + 1, jit_compile=True)
    tf.config.run_functions_eagerly(True)
    try:
        eager = f(tf.ones([2])).numpy()
    finally:
        tf.config.run_functions_eagerly(False)
    return eager, f(tf.ones([2])).numpy()
