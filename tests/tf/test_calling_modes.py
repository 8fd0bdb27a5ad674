"""Ways of calling and differentiating functions, must-compile and clustered, against stock TensorFlow."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config as framework_config

import tfxla_cluster
from tests.close import assert_near

Make = Callable[..., Any]  # tf.function, with or without jit_compile=True


def _x() -> Any:
    return tf.constant([[0.1, -0.5, 0.3], [0.4, 0.05, -0.25]])


def _body(a: Any) -> Any:
    return tf.reduce_sum(tf.tanh(a * 2.0 + 0.5) * a, axis=1)


def run_functions_eagerly(make: Make) -> Any:
    f = make(_body)
    out = [f(_x())]
    tf.config.run_functions_eagerly(True)
    try:
        out.append(f(_x()))
    finally:
        tf.config.run_functions_eagerly(False)
    return [*out, f(_x())]


def op_determinism(make: Make) -> Any:
    tf.config.experimental.enable_op_determinism()
    try:
        return make(lambda a: (_body(a), tf.math.unsorted_segment_sum(a, [0, 0], 2)))(_x())
    finally:
        framework_config.disable_op_determinism()


def _under(strategy: Any, make: Make) -> Any:
    with strategy.scope():
        v = tf.Variable([1.0, 2.0, 3.0])
    inner = make(lambda a: _body(a * v))

    def step(a: Any) -> Any:
        y = inner(a)
        v.assign_add([1.0, 1.0, 1.0])
        return y

    outer = tf.function(lambda a: strategy.reduce("SUM", strategy.run(step, args=(a,)), axis=None))
    whole = make(lambda a: strategy.run(lambda b: tf.reduce_mean(_body(b * v)), args=(a,)))
    return [outer(_x()), outer(_x()), strategy.run(inner, args=(_x(),)), whole(_x()), v.read_value()]


def mirrored_strategy(make: Make) -> Any:
    return _under(tf.distribute.MirroredStrategy(["CPU:0"]), make)


def one_device_strategy(make: Make) -> Any:
    return _under(tf.distribute.OneDeviceStrategy("/CPU:0"), make)


def device(make: Make) -> Any:
    def placed(a: Any) -> Any:
        with tf.device("/device:CPU:0"):
            return _body(a) + tf.reduce_sum(a)

    f = make(_body)
    with tf.device("/CPU:0"):
        first = f(_x())
    return first, make(placed)(_x()), f(_x())


def _gradient(f: Callable[..., Any], a: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = f(a)
    return tape.gradient(y, a)


def _twice(f: Callable[..., Any], a: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(a)
        g = _gradient(f, a)
    return g, outer.gradient(g, a)


def second_order(make: Make) -> Any:
    return _twice(make(_body), _x()), make(lambda a: _twice(_body, a))(_x())


def hessian(make: Make) -> Any:
    f, a = make(lambda a: tf.reduce_sum(_body(a))), _x()
    with tf.GradientTape() as outer:
        outer.watch(a)
        g = _gradient(f, a)
    return outer.jacobian(g, a)


def _jvp(f: Callable[..., Any], a: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(a, tf.ones_like(a) * 0.5) as forward:
        y = f(a)
    return y, forward.jvp(y)


def forward_accumulator(make: Make) -> Any:
    return _jvp(make(_body), _x()), make(lambda a: _jvp(_body, a))(_x())


def hessian_vector_product(make: Make) -> Any:
    f, a = make(_body), _x()
    with tf.autodiff.ForwardAccumulator(a, tf.ones_like(a)) as forward:
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = f(a)
        g = tape.gradient(y, a)
    return g, forward.jvp(g)


def persistent_tape(make: Make) -> Any:
    f, a = make(lambda a: (_body(a), a * a)), _x()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y, z = f(a)
        w = f(z)[0]
    return tape.gradient(y, a), tape.gradient(z, a), tape.gradient(w, a), tape.gradient(y, a), tape.jacobian(y, a)


def input_signature(make: Make) -> Any:
    f = make(_body, input_signature=[tf.TensorSpec([None, None])])
    return f(_x()), f(tf.ones([1, 4])), f(tf.ones([0, 2])), f(_x()[:, :2]), f.get_concrete_function()(_x())


def reduce_retracing(make: Make) -> Any:
    f = make(_body, reduce_retracing=True)
    return [f(tf.ones([n, 3]) * 0.1) for n in (1, 2, 3, 4, 2)] + [f.experimental_get_tracing_count()]


def relax_shapes(make: Make) -> Any:
    f = make(_body, experimental_relax_shapes=True)
    return [f(tf.ones([n, n]) * 0.1) for n in (1, 2, 3, 4)]


def methods(make: Make) -> Any:
    class Module(tf.Module):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.w = tf.Variable([k, 2.0, 3.0])

        @make
        def __call__(self, a: Any, scale: float = 2.0) -> Any:
            self.w.assign_add([1.0, 0.0, 0.0])
            return _body(a * self.w) * scale

        @classmethod
        @make
        def of_class(cls, a: Any) -> Any:
            return _body(a)

        @staticmethod
        @make
        def static(a: Any) -> Any:
            return _body(a) + 1.0

    m, n = Module(1.0), Module(5.0)
    bound = m.__call__
    return (
        m(_x()),
        n(_x()),
        m(_x(), scale=3.0),
        bound(_x()),
        Module.of_class(_x()),
        m.static(_x()),
        m.w.read_value(),
        n.w.read_value(),
    )


def deep_copied_model(make: Make) -> Any:
    compiled = make is _must
    tf.keras.utils.set_random_seed(2)
    model = tf.keras.Sequential(
        [tf.keras.layers.Input([3]), tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", jit_compile=compiled)
    x, y = _x().numpy(), np.ones([2, 1], np.float32)
    model.fit(x, y, verbose=0)
    copied = copy.deepcopy(model)
    copied.compile("sgd", "mse", jit_compile=compiled)
    copied.fit(x, y, verbose=0)
    return model.get_weights(), copied.get_weights(), copied.predict_on_batch(x)


def custom_gradient(make: Make) -> Any:
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.custom_gradient
    def plain(a: Any) -> Any:
        y = tf.tanh(a)
        return y, lambda up: up * 3.0 * y

    @tf.custom_gradient
    def with_variable(a: Any) -> Any:
        def gradient(up: Any, variables: Any = ()) -> Any:
            return up * v, [tf.reduce_sum(up, 0) for _ in variables]

        return a * v, gradient

    f, g, a = make(lambda a: plain(a) * 2.0), make(lambda a: with_variable(a) * 2.0), _x()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y, z = f(a), g(a)
    return y, z, tape.gradient(y, a), tape.gradient(z, [a, v]), make(lambda b: _twice(plain, b))(a)


def recompute_grad(make: Make) -> Any:
    v = tf.Variable([1.0, 2.0, 3.0])
    again = tf.recompute_grad(lambda a: tf.tanh(a * v) * a)

    def both(f: Callable[..., Any], a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = f(a)
        return y, tape.gradient(y, [a, v])

    return make(lambda a: both(again, a))(_x()), both(make(again), _x())


def passed_through(make: Make) -> Any:
    f, a = make(lambda a, b: tf.stop_gradient(a) * a + tf.grad_pass_through(tf.round)(a)), _x()
    with tf.GradientTape() as tape:
        tape.watch([a, b := _x()])
        y = f(a, b)
    return y, tape.gradient(y, [a, b], unconnected_gradients="zero")


def nested_and_mapped(make: Make) -> Any:
    inner = make(_body)
    outer = make(lambda a: inner(a) + inner(a * 2.0))
    rows = make(lambda a: tf.vectorized_map(lambda r: tf.tanh(r) * r, a))
    return tf.function(lambda a: outer(a) * inner(a)[0])(_x()), rows(_x()), tf.map_fn(lambda r: inner(r[None])[0], _x())


def _must(f: Any, **options: Any) -> Any:
    return tf.function(f, jit_compile=True, **options)


MODES = (
    run_functions_eagerly,
    op_determinism,
    mirrored_strategy,
    one_device_strategy,
    device,
    second_order,
    hessian,
    forward_accumulator,
    hessian_vector_product,
    persistent_tape,
    input_signature,
    reduce_retracing,
    relax_shapes,
    methods,
    deep_copied_model,
    custom_gradient,
    recompute_grad,
    passed_through,
    nested_and_mapped,
)


@pytest.mark.parametrize("make", [_must, tf.function], ids=["must", "auto"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_is_as_stock(mode: Callable[[Make], Any], make: Make) -> None:
    want = [np.asarray(t) for t in tf.nest.flatten(mode(make))]
    with (
        tfxla_cluster.config.patch(
            tf_xla_auto_jit="2",
            tf_xla_cpu_global_jit=True,
            tf_xla_min_cluster_size=2,
            tfxla_must_compile_fallback="raise",
        ),
        tfxla_cluster.enable(),
    ):
        before = tfxla_cluster.stats()
        got = [np.asarray(t) for t in tf.nest.flatten(mode(make))]
        after = tfxla_cluster.stats()
    assert after["executions"] > before["executions"]
    assert after["fallbacks"] == before["fallbacks"]
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype
        assert_near(a, b, 1e-6)
