"""Results whose sizes are known only after the run: unique, where, boolean_mask through the whole compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near


@pytest.fixture
def ours() -> Iterator[None]:
    tfxla_cluster.clear_cache()  # executables of other tests' modules
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        yield


def two_sizes(x: Any) -> Any:
    y, index = tf.unique(tf.reshape(tf.cast(x, tf.int32), [-1]))
    return y * 2, index, tf.where(x > 0), x + 1.0, tf.boolean_mask(x, x > 1)


FUNCTIONS: dict[str, Any] = {
    # + 0.0: to the bridge's sort -0.0 comes before 0.0, to eager they are one value.
    "unique": lambda x: tf.unique(tf.reshape(x + 0.0, [-1])),
    "sizes": lambda x: (tf.shape(tf.where(x > 0)), tf.size(tf.boolean_mask(x, x > 1)) * 2),
    "joined": lambda x: tf.concat([tf.boolean_mask(x, x > 0), tf.boolean_mask(x, x < 0), x[0]], 0),
    "joined_columns": lambda x: tf.concat([tf.boolean_mask(x, tf.reduce_max(x, 0) > 0, axis=1), x], 1),
    "sorted": lambda x: tf.sort(tf.boolean_mask(x, x < 1)),
    "sorted_and_reversed": lambda x: (
        tf.sort(tf.boolean_mask(x, x < 1), direction="DESCENDING"),
        tf.reverse(tf.boolean_mask(x, x < 1), [0]),
    ),
    "softmax": lambda x: tf.nn.softmax(tf.boolean_mask(x, tf.reduce_max(x, 1) > 0)),
    "strided": lambda x: tf.boolean_mask(x, tf.reduce_max(x, 0) > 0, axis=1)[:, 1:],
    "strided_size": lambda x: tf.shape(tf.boolean_mask(x, tf.reduce_max(x, 0) > 0, axis=1)[:, 1:]),
    "reshaped": lambda x: tf.reshape(tf.boolean_mask(x, tf.reduce_max(x, 1) > 0), [-1]),
    "outer": lambda x: tf.boolean_mask(x, x > 0)[:, None] * tf.boolean_mask(x, x < 0)[None, :],
    "one_hot": lambda x: tf.one_hot(tf.cast(tf.boolean_mask(x, x > 0), tf.int32), 4),
    "tiled": lambda x: tf.tile(tf.boolean_mask(x, tf.reduce_max(x, 1) > 0), [1, 2]),
    "product": lambda x: tf.linalg.matmul(*[tf.boolean_mask(x, x[:, 0] > 0)] * 2, transpose_a=True),
    "scattered": lambda x: tf.tensor_scatter_nd_update(x, tf.where(x > 0), tf.boolean_mask(x, x > 0) * 3.0),
    "loop": lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, tf.boolean_mask(x, x > 0)])[
        1
    ],
    "if": lambda x: tf.cond(tf.reduce_sum(tf.boolean_mask(x, x > 0)) > 2.0, lambda: x * 2.0, lambda: x),
    "where": lambda x: tf.where(x > 0),
    "boolean_mask": lambda x: tf.boolean_mask(x, x > 0) * 2.0,
    "rows": lambda x: tf.boolean_mask(x, tf.reduce_max(x, 1) > 0),
    "columns": lambda x: tf.boolean_mask(x, tf.reduce_max(x, 0) > 1, axis=1) + 1.0,
    "count": lambda x: tf.size(tf.where(x > 0)),
    "sum": lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0)),
    "matrix": lambda x: tf.linalg.matmul(tf.boolean_mask(x, tf.reduce_max(x, 1) > 0), x, transpose_b=True),
    "two_sizes": two_sizes,
    "mask of a mask": lambda x: tf.boolean_mask(tf.boolean_mask(x, x > 0), tf.boolean_mask(x, x > 0) > 1),
    "where of a mask": lambda x: tf.where(tf.boolean_mask(x, x[:, 0] > 0) > 1),
    "unchanged": lambda x: (x, tf.where(x < 0)[:, 1]),
}


# New tensors of the size, and what reads none of what has it.
OF_THE_SIZE: dict[str, Any] = {
    "ones_like": lambda x: tf.ones_like(tf.boolean_mask(x, x > 0)),
    "ones_of_rows": lambda x: tf.ones_like(tf.boolean_mask(x, x[:, 0] > 0), tf.int32) * 2,
    "sum_of_ones": lambda x: tf.reduce_sum(tf.ones_like(tf.boolean_mask(x, x > 0))),
    "zeros_like": lambda x: tf.zeros_like(tf.boolean_mask(x, x > 0)),
    "fill": lambda x: tf.fill(tf.shape(tf.boolean_mask(x, x > 0)), 2.0),
    "range": lambda x: tf.range(tf.size(tf.where(x > 0))),
    "cumsum": lambda x: tf.cumsum(tf.boolean_mask(x, x > 0)),
    "padded": lambda x: tf.pad(tf.boolean_mask(x, x > 0), [[2, 1]]),
    "broadcast_to": lambda x: tf.broadcast_to(1.5, tf.shape(tf.boolean_mask(x, x[:, 0] > 0))),
    "of no element": lambda x: tf.boolean_mask(tf.cast(x, tf.int32), x > 0) * 0,
    "true of each": lambda x: tf.logical_or(tf.boolean_mask(x, x > 0) > 1, True),
    "into a place": lambda x: tf.tensor_scatter_nd_add(x[:, 0], [[0]], tf.boolean_mask(x, x > -9)[:1]),
    "pool_of_rows": lambda x: tf.nn.avg_pool1d(tf.boolean_mask(x, x[:, 0] > 0)[:, :, None], 2, 1, "SAME"),
}

FINITE = ("two_sizes", "softmax", "matrix", "outer", "one_hot", "product")

# What the bridge's module does not tell apart, or computes from elements that are not there.
REFUSED: dict[str, Any] = {
    "its diagonal": lambda x: tf.linalg.diag_part(tf.boolean_mask(x, x[:, 0] > 0)),
    "tensor diagonal": lambda x: tf.linalg.tensor_diag(tf.boolean_mask(x, x > 0)),
    "padded mean": lambda x: tf.nn.avg_pool1d(tf.reshape(tf.boolean_mask(x, x > 0), [1, -1, 1]), 2, 1, "SAME"),
    "into a list": lambda x: (
        tf.TensorArray(tf.float32, 1, infer_shape=False, element_shape=[None])
        .write(0, tf.boolean_mask(x, x > 0))
        .concat()
    ),
    "branches differ": lambda x: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.boolean_mask(x, x > 0), lambda: tf.boolean_mask(x, x < 0)
    ),
}


def drawn() -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    shapes = [(3, 4), (3, 4), (1, 1), (5, 17), (64, 33), (4, 3), (7, 1)]
    arrays = [np.round(draw.standard_normal(shape) * 2).astype(np.float32) for shape in shapes]
    return [
        *arrays,
        -np.ones((2, 3), np.float32),
        np.ones((2, 3), np.float32),
        np.array([[0.0, -0.0, 2.0], [np.inf, -np.inf, 2.0]], np.float32),
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_eager(name: str, ours: None) -> None:
    function = FUNCTIONS[name]
    compiled = tf.function(function, jit_compile=True)
    inside = tf.function(lambda x: tf.nest.map_structure(tf.identity, compiled(x + 0.0)))
    for made in drawn():
        array = np.where(np.isfinite(made), made, 0).astype(np.float32) if name in FINITE else made
        want = tf.nest.flatten(function(tf.constant(array)))
        for got in (compiled, compiled, inside):
            found = tf.nest.flatten(got(tf.constant(array)))
            assert [f.dtype for f in found] == [w.dtype for w in want]
            for f, w in zip(found, want):
                assert_near(f, w, 1e-6)


@pytest.mark.parametrize("name", OF_THE_SIZE)
def test_of_the_size(name: str, ours: None) -> None:
    function = OF_THE_SIZE[name]
    compiled = tf.function(function, jit_compile=True)
    for array in ([[1.0, -1], [2, 3], [-4, 5]], [[1.0, 2]] * 3, [[-1.0, -2]] * 3, [[-1.0, -2], [-3, -4], [5, 6]]):
        x = tf.constant(array, tf.float32)
        got, want = compiled(x), function(x)
        assert got.dtype == want.dtype
        assert_near(got, want, 1e-6)


def test_no_fallback_and_no_uncompiled_run(ours: None) -> None:
    before = tfxla_cluster.stats()
    f = tf.function(tf.unique, jit_compile=True)
    assert f(tf.constant([3, 1, 3, 3])).y.numpy().tolist() == [3, 1]
    after = tfxla_cluster.stats()
    assert after["fallbacks"] == before["fallbacks"]
    assert after["executions"] == before["executions"] + 1


def test_one_executable_serves_all_counts(ours: None) -> None:
    f = tf.function(lambda x: tf.boolean_mask(x, x > 0), jit_compile=True)
    before = tfxla_cluster.stats()["compilations"]
    for count in (0, 5, 2, 5, 1, 0):
        x = tf.constant([1.0] * count + [-1.0] * (5 - count))
        assert f(x).shape == [count]
    assert tfxla_cluster.stats()["compilations"] == before + 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused_rather_than_wrong(name: str, ours: None) -> None:
    x = tf.constant(drawn()[3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"known only after|which size is meant"):
        tf.function(REFUSED[name], jit_compile=True)(x)
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="xla"):
        got = tf.function(REFUSED[name], jit_compile=True)(x)
    np.testing.assert_array_equal(got, REFUSED[name](x))
