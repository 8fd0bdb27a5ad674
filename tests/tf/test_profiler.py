"""Kernels of this package in TensorFlow's profiler, by name."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.bench import xprof
from tfxla_cluster.runtime.cpu.profiler import WORDS
from tfxla_cluster.tf.native_op import profiler

X = tf.ones([64, 48])


def function(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.tanh(tf.matmul(x, x, transpose_a=True, name="a_name_of_more_than_15_letters")), 0)


def compiled(fn: Any) -> Any:
    return tf.function(fn, jit_compile=True)


@pytest.mark.parametrize("make", [tfxla_cluster.jit, compiled, tf.function], ids=["jit", "must compile", "clusters"])
def test_kernels_stand_in_profiles_by_name(make: Any) -> None:
    flags: dict[str, Any] = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(**flags):
        f = make(function)
        f(X)
        found = xprof.profile(lambda: [f(X), f(X)])
    # TensorFlow's own kernels are 'name:Op'.
    names = ("a_name_of_more_than_15_letters", "Sum", "fusion")
    kernels = [e for e in found if e.name.startswith(names) and ":" not in e.name]
    assert len(kernels) >= 2
    assert all(0 <= e.end - e.start < 60e6 for e in kernels)
    calls = [e for e in found if "TfxlaRun" in e.name or e.name.startswith("TFE_Py_Execute")]
    assert all(any(c.start <= e.start and e.end <= c.end + 50 for c in calls) for e in kernels)  # one clock


def test_another_tensorflow_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(profiler.addresses()) == set(WORDS)
    monkeypatch.setitem(profiler._SYMBOLS, "record", "_ZN3tsl8profiler15TraceMeRecorder4MarkEv")
    assert profiler.addresses() == {}
