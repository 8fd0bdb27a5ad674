"""Ops rewritten into others: eager's values whichever of the inputs are constant, in must-compile and in clusters.

TensorFlow folds what is constant with its own kernels, one op of a form at a time: each has to mean the same to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tfxla_cluster
from tfxla_cluster import counters
from tfxla_cluster.tf.rewrites import rewritten_functions
from tfxla_cluster.tf2xla import sources

CLUSTERS = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Row:
    """`fn(*args)` holds ops that are rewritten; `atol`: how far a result may be from eager's."""

    fn: Callable[..., Sequence[tf.Tensor]]
    args: tuple[Any, ...]
    atol: float = 0.0


def upper_bound(ordered: tf.Tensor, values: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
    found = [tf.searchsorted(tf.cast(ordered, k), tf.cast(values, k), side="right") for k in kinds]
    return [*found, tf.searchsorted(ordered, values, side="right", out_type=tf.int64)]


def bucketize(x: tf.Tensor) -> list[tf.Tensor]:
    limits = ([1.0, 5.0, 9.0], [-0.0, 0.0, 1e-30], [0.1], [])
    return [tf.raw_ops.Bucketize(input=tf.cast(x, k), boundaries=b) for k in (tf.float32, tf.float64) for b in limits]


def mean(x: tf.Tensor, axes: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16, tf.uint32)
    return [tf.reduce_mean(tf.cast(x, k), axes) for k in kinds]


def shifts(x: tf.Tensor, distance: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.int8, tf.int32, tf.int64, tf.uint8, tf.uint64)
    pairs = [(tf.cast(x, k), tf.cast(distance, k)) for k in kinds]
    return [op(*pair) for pair in pairs for op in (tf.bitwise.left_shift, tf.bitwise.right_shift)]


def uniform(shape: tf.Tensor, seed: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
    return [tf.random.stateless_uniform(shape, seed, dtype=k) for k in kinds]


def normal(shape: tf.Tensor, seed: tf.Tensor) -> list[tf.Tensor]:
    return [tf.random.stateless_normal(shape, seed, dtype=k) for k in (tf.float32, tf.float64)]


def integers(seed: tf.Tensor, least: tf.Tensor, limit: tf.Tensor) -> list[tf.Tensor]:
    return [
        tf.random.stateless_uniform([33], seed, least, limit, tf.int32),
        tf.random.stateless_uniform([2, 3], seed, None, None, tf.uint64),
    ]


def strided(x: tf.Tensor) -> list[tf.Tensor]:
    """Gradients of slices of which some take nothing."""
    slices = [slice(None, None, 3), slice(None, None, -2), slice(2, 2, 3), slice(1, 4, -3), slice(0, 1, 2)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        taken = [x[s] * 2.0 for s in slices] + [x[::2, ::-3] * 2.0]
    return [tape.gradient(part, x) for part in taken]


def max_pools(image: tf.Tensor) -> list[tf.Tensor]:
    """With a gradient where there is no NaN, which the kernel of the gradient takes for the maximum at the start."""
    numbers = tf.where(tf.math.is_nan(image), 2.0, image)
    with tf.GradientTape() as tape:
        tape.watch(numbers)
        pooled = tf.nn.max_pool2d(numbers, [3, 2], 2, "SAME")
    kinds = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
    narrow = [tf.nn.max_pool2d(tf.cast(image, k), 2, 1, "VALID") for k in kinds]
    return [tf.nn.max_pool2d(image, [3, 2], 2, "SAME"), *narrow, tape.gradient(pooled, numbers)]


def in_top_k(predictions: tf.Tensor, targets: tf.Tensor) -> list[tf.Tensor]:
    return [tf.math.in_top_k(targets, predictions, k) for k in (0, 1, 2, 5)]


def resized(image: tf.Tensor) -> list[tf.Tensor]:
    raw, forms = tf.raw_ops.ResizeBilinear, ({}, {"align_corners": True}, {"half_pixel_centers": True})
    sizes = ([7, 5], [3, 2], [1, 1], [4, 6])
    kinds = (tf.float32, tf.float64, tf.bfloat16)
    return [raw(images=tf.cast(image, k), size=size, **form) for k in kinds for size in sizes for form in forms]


def selu_grad(gradients: tf.Tensor, outputs: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.float32, tf.float64)
    return [tf.raw_ops.SeluGrad(gradients=tf.cast(gradients, k), outputs=tf.cast(outputs, k)) for k in kinds]


def gradients_of_roots(real: tf.Tensor, imag: tf.Tensor) -> list[tf.Tensor]:
    results: list[tf.Tensor] = []
    for kind in (tf.float32, tf.float64):
        x = tf.complex(tf.cast(real, kind), tf.cast(imag, kind))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            values = [tf.math.sqrt(x), tf.math.rsqrt(x), tf.math.reciprocal(x)]
        parts = [tape.gradient(value, x) for value in values]
        results += [part for gradient in parts for part in (tf.math.real(gradient), tf.math.imag(gradient))]
    return results


def transposed(x: tf.Tensor) -> list[tf.Tensor]:
    kinds = (tf.float32, tf.float64, tf.bfloat16, tf.int32)
    return [tf.transpose(tf.cast(x, k), [1, 0], conjugate=True) for k in kinds] + [
        tf.raw_ops.ConjugateTranspose(x=tf.cast(x, k), perm=[1, 0]) for k in kinds
    ]


def an_image(*special: float) -> np.ndarray:
    """Numbers, of which the first, and some others, are special."""
    image = np.random.RandomState(0).randn(2, 5, 6, 3).astype(np.float32)
    places = image.reshape(-1)[::11]
    places[:] = np.resize(special, places.shape)
    return image


EDGES = [[-INF, -2.0, -0.0, 0.0, 0.0, 3.0, 3.0, INF], [-INF] * 8, [1.0, 1.0, 1.0, 1.0, 5.0, 6.0, 7.0, 7.0]]
ROWS = {
    "upper_bound": Row(upper_bound, (np.float32([1, 2, 3, 4, 5]), np.float32([0, 2, 6, 3]))),
    "upper_bound_edges": Row(upper_bound, (np.float32(EDGES), np.float32([[-INF, INF, NAN, 0.0, -0.0, 3.0, 6.5]] * 3))),
    "upper_bound_empty": Row(upper_bound, (np.zeros([2, 0], np.float32), np.float32([[1, NAN], [0, INF]]))),
    "upper_bound_no_values": Row(upper_bound, (np.float32([[1, 2, 3]]), np.zeros([1, 0], np.float32))),
    "bucketize": Row(bucketize, (np.float32([[1, 5, 10, NAN, -NAN], [INF, -INF, -0.0, 1e-30, 0.1]]),)),
    "bucketize_scalar": Row(bucketize, (np.float32(NAN),)),
    "bucketize_empty": Row(bucketize, (np.zeros([2, 0], np.float32),)),
    "mean": Row(mean, (np.int32([[127, 126, -128], [127, 125, -127]]), np.int32([1]))),
    "mean_of_all": Row(mean, (np.int32([[[2**31 - 1], [2**31 - 2]]]), np.int32([0, 1, 2]))),
    "shifts": Row(shifts, (np.int32([-128, 127, -1, 1, 77, 5]), np.int32([0, 7, 8, 31, 64, 127]))),
    "shifts_by_one": Row(shifts, (np.int32([[-128], [127]]), np.int32(-1))),
    "uniform": Row(uniform, (np.int32([3, 5]), np.int32([5, 77]))),
    "uniform_empty": Row(uniform, (np.int32([3, 0]), np.int64([-3, 2**40]))),
    "normal": Row(normal, (np.int32([3, 5]), np.int32([5, 77])), 4e-7),
    "strided": Row(strided, (np.float32([[1, 2, 3], [4, 5, 6]]),)),
    "strided_one": Row(strided, (np.float32([[1]]),)),
    "strided_empty": Row(strided, (np.zeros([0, 3], np.float32),)),
    "max_pools": Row(max_pools, (an_image(NAN),)),
    "in_top_k": Row(
        in_top_k,
        (
            np.float32([[1, 2, 3], [1, NAN, 3], [INF, 2, 3], [3, 3, -INF], [5, 4, NAN], [1, 1, 1]]),
            np.int32([2, 2, 0, 1, 2, 0]),
        ),
    ),
    "resized": Row(resized, (an_image(NAN, INF, -INF, 1.0),), 1e-6),
    "resized_pixel": Row(resized, (np.float32([[[[3.5]]]]),)),
    "selu_grad": Row(selu_grad, (np.float32([1, -2, 3, 4, INF, 5]), np.float32([0, -0.0, -1, 2, -1.5, NAN])), 2e-6),
    "gradients_of_roots": Row(gradients_of_roots, (np.float32([1, -2, 3, 0.5]), np.float32([2, 1, -4, 0])), 1e-6),
    "transposed": Row(transposed, (np.float32([[1, 2, 3], [4, 5, 6]]),)),
    "integers": Row(integers, (np.int32([5, 77]), np.int32(-7), np.int32(1000))),
}
CASES = [(name, known) for name, row in ROWS.items() for known in product((True, False), repeat=len(row.args))]


def traced(row: Row, known: Sequence[bool], must_compile: bool) -> Any:
    """`row.fn` as a function of those arguments that are not `known`: the others are constants in it."""

    @tf.function(jit_compile=must_compile or None, autograph=False)
    def function(*given: tf.Tensor) -> Sequence[tf.Tensor]:
        rest = iter(given)
        return row.fn(*(tf.constant(a) if constant else next(rest) for a, constant in zip(row.args, known)))

    return function


@pytest.mark.parametrize("must_compile", [True, False], ids=["must", "auto"])
@pytest.mark.parametrize(("name", "known"), CASES)
def test_is_as_eager(name: str, known: Sequence[bool], must_compile: bool) -> None:
    row = ROWS[name]
    given = [tf.constant(a) for a, constant in zip(row.args, known) if not constant]
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(**CLUSTERS):
        before = counters.snapshot()
        got = traced(row, known, must_compile)(*given)
        after = counters.snapshot()
    assert after["fallbacks"] == before["fallbacks"]
    assert after["executions"] > before["executions"]
    for one, want in zip(got, row.fn(*map(tf.constant, row.args)), strict=True):
        assert one.dtype == want.dtype
        a, b = (np.asarray(tf.cast(x, tf.float64) if x.dtype.is_floating else x) for x in (one, want))
        np.testing.assert_allclose(a, b, rtol=0, atol=row.atol) if row.atol else np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("known", [True, False])
def test_nan_among_the_ordered_is_last(known: bool) -> None:
    """As NumPy has it; what eager's binary search gives depends on the places it looks at."""
    ordered, values = np.float32([1, 2, 3, NAN, NAN]), np.float32([0, 2, 3.5, INF, NAN])
    row = Row(lambda a, v: [tf.searchsorted(a, v, side="right")], (ordered, values))
    function = traced(row, [known] * 2, True)
    with tfxla_cluster.enable():
        got = function() if known else function(tf.constant(ordered), tf.constant(values))
    np.testing.assert_array_equal(got[0], np.searchsorted(ordered, values, "right"))


@pytest.mark.parametrize("name", ROWS)
def test_is_rewritten(name: str) -> None:
    """Or the rows above compare nothing of ours."""
    row = ROWS[name]
    given = [tf.constant(a) for a in row.args]
    function = traced(row, [False] * len(given), False).get_concrete_function(*given)
    name = function.function_def.signature.name
    with rewritten_functions.expanded(name) as new:
        assert new != name


def test_what_is_lowered_has_no_stack_traces() -> None:
    """Nor has what it calls: traces are behind a mutex that stock XLA may hold while it waits for Python."""

    @tf.function
    def inner(x: Any) -> Any:
        return tf.tanh(x)

    ctx = context.context()
    concrete = tf.function(lambda x: inner(x) + 1.0).get_concrete_function(tf.TensorSpec([2]))
    name = concrete.function_def.signature.name
    assert sources.all_lines(name)
    with rewritten_functions.expanded(name) as copy:
        functions = list(sources.reachable(copy))
        assert len(functions) == 2
        for function in functions:
            assert not sources.lines(function.signature.name)
        assert not any("tanh" in str(ctx.get_graph_debug_info(f.signature.name)).lower() for f in functions)
    assert not ctx.has_function(copy.encode())
