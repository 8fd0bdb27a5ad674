"""Who asks for sums in a fixed order: TensorFlow's switch and XLA's flag."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf
from tensorflow.python.framework import config

import tfxla_cluster
from tfxla_cluster.backends import cpu, registry


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether any order was allowed, of each compilation."""
    found: list[bool] = []

    def machine(number: int, any_order: bool) -> cpu.Cpu:
        found.append(any_order)
        return cpu.this_machine()

    monkeypatch.setitem(registry.FOR_DEVICES, "CPU", machine)
    yield found
    config.disable_op_determinism()


def run(x: tf.Tensor) -> None:
    tf.function(lambda x: tf.math.unsorted_segment_sum(x, [0, 1, 0], 2), jit_compile=True)(x)


def test_any_order_unless_asked_for(asked: list[bool]) -> None:
    with tfxla_cluster.enable():
        run(tf.ones([3]))
    assert set(asked) == {True}


def test_tensorflows_switch(asked: list[bool]) -> None:
    config.enable_op_determinism()
    with tfxla_cluster.enable():
        run(tf.ones([3]))
    assert set(asked) == {False}


def test_xlas_flag(asked: list[bool]) -> None:
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(xla_gpu_deterministic_ops=True):
        run(tf.ones([3]))
    assert set(asked) == {False}
