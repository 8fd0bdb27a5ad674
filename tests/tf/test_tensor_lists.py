"""Lists of tensors against TensorFlow's graphs: right, left to TensorFlow's ops, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.list_programs import GRADIENTS, LEFT, NATIVE, REFUSED, WRONG, X, gradient
from tfxla_cluster.tf.functions import function_compiler

CLUSTERS = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
NATIVE_OR_GRADIENT = {**NATIVE, **{f"gradient of {name}": gradient(NATIVE[name]) for name in GRADIENTS}}


def _run(function: Callable[[Any], Any]) -> list[np.ndarray]:
    return [np.asarray(y) for y in tf.nest.flatten(function(X))]


def _assert_equal(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in want]
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NATIVE_OR_GRADIENT)
def test_native(name: str) -> None:
    program = NATIVE_OR_GRADIENT[name]
    want = _run(tf.function(program))
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        before = tfxla_cluster.stats()["executions"]
        _assert_equal(_run(tf.function(program, jit_compile=True)), want)
        assert tfxla_cluster.stats()["executions"] > before


@pytest.mark.parametrize("nested", [False, True], ids=["direct", "nested"])
@pytest.mark.parametrize("name", LEFT)
def test_left_to_the_ops(name: str, nested: bool) -> None:
    program = LEFT[name]
    want = _run(tf.function(program))
    with tfxla_cluster.enable():
        before = tfxla_cluster.stats()
        compiled = tf.function(program, jit_compile=True)
        outer = tf.function(lambda x: tf.nest.map_structure(tf.identity, compiled(x))) if nested else compiled
        _assert_equal(_run(outer), want)
        after = tfxla_cluster.stats()
    assert after["fallbacks"] > before["fallbacks"]
    assert after["internal_errors"] == before["internal_errors"]


@pytest.mark.parametrize("name", LEFT)
def test_left_is_refused_where_nothing_is_left(name: str) -> None:
    error = pytest.raises(tf.errors.InvalidArgumentError, match="cannot be compiled")
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable(), error:
        _run(tf.function(LEFT[name], jit_compile=True))


@pytest.mark.parametrize("name", {**WRONG, **REFUSED})
def test_refused(name: str) -> None:
    with tfxla_cluster.enable():
        before = tfxla_cluster.stats()["internal_errors"]
        with pytest.raises((tf.errors.OpError, ValueError)):
            _run(tf.function({**WRONG, **REFUSED}[name], jit_compile=True))
        assert tfxla_cluster.stats()["internal_errors"] == before


@pytest.mark.parametrize("name", {**NATIVE_OR_GRADIENT, **LEFT, **REFUSED})
def test_in_clusters(name: str) -> None:
    program = {**NATIVE_OR_GRADIENT, **LEFT, **REFUSED}[name]
    want = _run(tf.function(program))
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable():
        before = tfxla_cluster.stats()["internal_errors"]
        _assert_equal(_run(tf.function(program)), want)
        assert tfxla_cluster.stats()["internal_errors"] == before


@pytest.mark.parametrize("name", WRONG)
def test_wrong_in_clusters(name: str) -> None:
    error = pytest.raises((tf.errors.OpError, ValueError))
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable(), error:
        _run(tf.function(WRONG[name]))


def test_the_refusal_names_op_and_line() -> None:
    error = pytest.raises(tf.errors.InvalidArgumentError)
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable(), error as raised:
        _run(tf.function(WRONG["map to a wrong dtype"], jit_compile=True))
    for part in ("list_programs.py:", "TensorListSetItem", "an element of float32 of a list of int32"):
        assert part in str(raised.value)


def test_results_have_the_declared_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bridge makes of a program: memory of one dtype is never read as another."""

    monkeypatch.setattr(function_compiler.list_checks, "check", lambda *args: None)
    wrong = tf.function(WRONG["map to a wider dtype"], jit_compile=True)
    error = pytest.raises(tf.errors.InvalidArgumentError, match="result 0 is float64, and compiled it is f32")
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable(), error:
        wrong(X)
