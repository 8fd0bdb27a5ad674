"""Maxima of pools pass over NaN, as TensorFlow's kernels do; other maxima do not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.node import Module
from tfxla_cluster.tf2xla import bridge, pool_maxima


def lowered(fn: object, x: tf.Tensor) -> Module:
    concrete = tf.function(fn, autograph=False).get_concrete_function(x)
    return proto.read(bridge.lower(concrete.name, [bridge.Arg(x.dtype.as_datatype_enum, tuple(x.shape))]).proto)


def both(x: tf.Tensor) -> list[tf.Tensor]:
    return [tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.reduce_max(x)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_pools_alone_pass_over_nan(dtype: str) -> None:
    image = np.random.RandomState(0).randn(2, 5, 6, 3)
    image[0, 0, 0, 0] = image[1, 3, 5, 2] = image[1, 2, 4, 2] = np.nan
    x = tf.cast(tf.constant(image), dtype)
    pooled, largest = tfxla_cluster.jit(both)(x)
    np.testing.assert_array_equal(pooled, tf.nn.max_pool2d(x, 2, 2, "SAME"))
    assert not np.isnan(np.asarray(pooled).astype(np.float64)).any()
    if dtype != "float64":  # which TensorFlow pools in two dimensions only
        deep = tfxla_cluster.jit(lambda v: tf.nn.max_pool3d(v, 2, 1, "SAME"))(x[None])
        assert not np.isnan(np.asarray(deep).astype(np.float64)).any()
    assert np.isnan(float(largest))


def test_the_form() -> None:
    module = lowered(both, tf.ones([1, 4, 4, 3]))
    roots = {
        instr.opcode: instr.attrs["to_apply"].root.opcode
        for comp in module.computations()
        for instr in comp.instrs
        if instr.opcode in ("reduce-window", "reduce")
    }
    assert roots == {"reduce-window": "select", "reduce": "maximum"}


def test_integers_and_modules_without_pools_stay() -> None:
    module = lowered(lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.ones([1, 4, 4, 3], tf.int32))
    assert not any(instr.opcode == "select" for comp in module.computations() for instr in comp.instrs)
    plain = proto.write(lowered(tf.reduce_max, tf.ones([3])))
    assert pool_maxima.over_numbers(plain) is plain
