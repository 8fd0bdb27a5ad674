"""Programs whose sizes vary, by a GPU's plans and kernels: the kernels in Triton's interpreter, the rest as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.dynamic.shows import normal
from tests.tf.interpreted_gpu import Backend
from tfxla_cluster import counters, flags
from tfxla_cluster.backends import registry
from tfxla_cluster.codegen.triton import workers

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
SIZES = (12, 8, 7, 5, 33)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.FOR_DEVICES, "CPU", lambda number, any_order: Backend())
    tfxla_cluster.clear_cache()
    with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        yield
    tfxla_cluster.clear_cache()


def _normalised(x: Any) -> Any:
    centred = x - tf.reduce_mean(x, 1, keepdims=True)
    return tf.nn.softmax(centred * tf.math.rsqrt(tf.reduce_mean(centred**2, 1, keepdims=True) + 1e-5))


def _window(x: Any) -> Any:
    """Numbers that NumPy makes of a size are handed to the executable."""
    return x * np.random.default_rng(x.shape[1]).standard_normal(x.shape[1]).astype(np.float32)


def _chosen(x: Any) -> Any:
    """How many rows there are, the data say."""
    rows = tf.boolean_mask(x, x[:, 0] > 0)
    return tf.tanh(rows) * 2.0, tf.shape(tf.where(x > 1.0))[0]


@pytest.mark.parametrize("function", [_normalised, _window, _chosen], ids=lambda f: f.__name__)
def test_one_executable_for_all_sizes(function: Any) -> None:
    """Besides that of the first size, which is compiled as it is."""
    compiled, before = tf.function(function, jit_compile=True), int(counters.snapshot()["compilations"])
    for size in SIZES:
        x = normal(6, size) if function is not _chosen else normal(size, 6)
        for got, want in zip(tf.nest.flatten(compiled(x)), tf.nest.flatten(function(x)), strict=True):
            assert_near(got, want, 1e-5, f"{function.__name__} at {size}")
    assert int(counters.snapshot()["compilations"]) - before == 2
