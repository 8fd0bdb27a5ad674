"""Functions in the form that benchmarks take, and the data for inputs of which only the size is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tfxla_cluster.bench.standardize import MODES, standardize_function
from tfxla_cluster.errors import UsageError

X = np.linspace(-1.0, 2.0, 6, dtype=np.float32).reshape(2, 3)


def layer(x: Any, weights: Any, power: int, scale: Any = 1.0) -> dict[str, Any]:
    return {"y": tf.tanh(tf.matmul(x, weights) * scale) ** power, "count": tf.shape(x)[0]}


def gradient(x: Any, w: Any, cotangent: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = layer(x, w, 3)["y"]
    return tape.gradient(y, [x, w], cotangent)


def test_tensors_anywhere_are_arguments_and_the_rest_is_closed_over() -> None:
    f, tensors = standardize_function(layer, X, kwargs={"weights": tf.ones([3, 4]), "power": 2, "scale": np.float32(2)})
    assert [tuple(t.shape) for t in tensors] == [(2, 3), (), (3, 4)]  # by the names of the keywords
    want = layer(X, tf.ones([3, 4]), 2, 2.0)
    for found in (f(tensors), f(*tensors)):
        assert_near(found["y"], want["y"], 1e-5)
        assert int(found["count"]) == 2


def test_variables_are_closed_over() -> None:
    w = tf.Variable(tf.ones([3, 4]))
    f, tensors = standardize_function(lambda x: tf.matmul(x, w), tf.TensorSpec([2, 3]), mode="forward_and_vjp")
    out, (to_x, to_w) = tf.function(f, jit_compile=True)(tensors)
    assert len(tensors) == 1
    assert_near(out, tf.matmul(tensors[0], w), 1e-5)
    assert_near(to_x, tf.matmul(out, w, transpose_b=True), 1e-5)
    assert_near(to_w, tf.matmul(tensors[0], out, transpose_a=True), 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_halves_agree_with_the_whole(compiled: bool) -> None:
    """What is not differentiable goes through all modes."""
    weights = tf.constant(np.random.default_rng(1).standard_normal((3, 4)), tf.float32)
    made = {mode: standardize_function(layer, X, weights, 3, mode=mode) for mode in MODES}

    def call(mode: str) -> Any:
        f, tensors = made[mode]
        return (tfxla_cluster.jit(f) if compiled else f)(*tensors)

    want = layer(X, weights, 3)
    assert_near(call("forward")["y"], want["y"], 1e-5)
    both = call("forward_and_vjp")
    assert_near(both[0]["y"], want["y"], 1e-5)
    for found, expected in zip(both[1], gradient(tf.constant(X), weights, want["y"]), strict=True):
        assert_near(found, expected, 1e-5)
    results = call("forward_res")
    assert len(results) > 2
    assert sum(r.shape == want["y"].shape and np.allclose(r, want["y"], 1e-6) for r in results) >= 1
    (cotangent,) = made["vjp"][1]
    for found, expected in zip(call("vjp"), gradient(tf.constant(X), weights, cotangent), strict=True):
        assert_near(found, expected, 1e-5)


def test_random_data_is_that_of_tokamax() -> None:
    specs = {
        "f": tf.TensorSpec([4000]),
        "h": tf.TensorSpec([4000], tf.bfloat16),
        "b": tf.TensorSpec([4000], tf.bool),
        "i": tf.TensorSpec([4000], tf.int64),
        "s": tf.TensorSpec([4000], tf.int8),
        "u": tf.TensorSpec([4000], tf.uint16),
        "c": tf.TensorSpec([4000], tf.complex64),
        "e": tf.TensorSpec([0, 3]),
    }
    _, tensors = standardize_function(lambda **given: given, kwargs=specs)
    found = {name: np.asarray(tf.cast(t, tf.complex128)) for name, t in zip(sorted(specs), tensors, strict=True)}
    for name in "fhc":
        assert abs(found[name].real.mean()) < 0.1
        assert abs(found[name].real.std() - 1) < 0.1
    assert abs(found["b"].mean() - 0.5) < 0.1
    for name, low in (("i", -128), ("s", -128), ("u", 0)):
        assert (found[name].real.min(), found[name].real.max()) == (low, 127)
    again = standardize_function(lambda **given: given, kwargs=specs)[1]
    assert all(np.array_equal(a, b) for a, b in zip(tensors, again))
    other = standardize_function(lambda **given: given, kwargs=specs, seed=1)[1]
    assert not np.array_equal(tensors[3], other[3])


def test_init_fills_and_no_seed_leaves_the_specification() -> None:
    spec = tf.TensorSpec([3], tf.int32, "ids")
    _, (tensor,) = standardize_function(tf.identity, spec, init=lambda spec: range(spec.shape[0]))
    assert tensor.numpy().tolist() == [0, 1, 2]
    _, (left,) = standardize_function(tf.identity, spec, seed=None)
    assert left is spec


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: standardize_function(tf.identity, X, mode="backward"), "one of forward, forward_res, vjp"),
        (lambda: standardize_function(tf.identity, tf.TensorSpec([None, 3])), "a size is not known"),
        (lambda: standardize_function(tf.identity, tf.TensorSpec([2], tf.string)), "no random data"),
        (lambda: standardize_function(tf.identity, tf.TensorSpec([2]), init=lambda _: [1.0]), "init gave sizes"),
        (lambda: standardize_function(tf.identity, tf.TensorSpec([2]), init=lambda _: "a"), "init gave no float32"),
        (lambda: standardize_function(tf.identity, X, mode="vjp", seed=None), "Give a seed"),
        (lambda: standardize_function(tf.shape, X, mode="vjp"), "no gradient"),
    ],
)
def test_wrong_use(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wrong()
