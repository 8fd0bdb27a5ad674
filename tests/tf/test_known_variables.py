"""Variables whose values lowering has to know: shapes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster


def test_variable_whose_value_is_a_shape_is_read_only() -> None:
    rows, total = tf.Variable(3), tf.Variable([1.0, 2.0])

    def f(x):
        total.assign_add(total)
        return tf.reshape(x, [rows, -1]), total.read_value()

    compiled = tfxla_cluster.jit(f)
    for n in (3, 2):
        rows.assign(n)
        got = compiled(tf.ones([6]))
        assert got[0].shape == (n, 6 // n)
        assert rows.numpy() == n
    np.testing.assert_array_equal(total, [4.0, 8.0])


def test_variable_whose_value_a_branch_needs_is_refused() -> None:
    rows = tf.Variable(3)

    def f(x):
        return tf.cond(x[0] > 0, lambda: tf.reshape(x, [rows, -1]) * 2.0, lambda: tf.reshape(x, [rows, -1]))

    with pytest.raises(tf.errors.InvalidArgumentError):  # stock XLA refuses it too
        tfxla_cluster.jit(f)(tf.ones([6]))
    assert rows.numpy() == 3
