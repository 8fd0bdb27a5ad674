"""Data that TensorFlow's kernels refuse: compiled functions raise the same error, with the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.tf.rewrites import data_checks

NAN, INF = float("nan"), float("inf")
ONES = np.ones([2, 3], np.float32)
RAMP = np.float32([1, 2, 3])
INTEGERS = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


# Name -> (function, arguments that are fine, arguments that are not).
ROWS: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "gather": (tf.gather, [RAMP, ints([0, 1], [2, 2])], [RAMP, ints([0, 1], [-1, 7])]),
    "gather_scalar": (tf.gather, [RAMP, np.int32(2)], [RAMP, np.int32(3)]),
    "gather_64": (tf.gather, [RAMP, np.int64([2])], [RAMP, np.int64([2**40])]),
    "gather_16": (tf.gather, [RAMP, np.int16([2])], [RAMP, np.int16([-(2**15)])]),
    "gather_nothing": (tf.gather, [RAMP[:0], ints()], [RAMP[:0], ints(0)]),
    "gather_axis": (lambda x, i: tf.gather(x, i, axis=1), [ONES, ints(0, 2)], [ONES, ints(0, 5)]),
    "gather_batch": (lambda x, i: tf.gather(x, i, batch_dims=1), [ONES, ints([0], [2])], [ONES, ints([0], [3])]),
    "gather_nd": (tf.gather_nd, [ONES, ints([[0, 1], [1, 2]])], [ONES, ints([[0, 1], [1, 3]])]),
    "gather_nd_rows": (tf.gather_nd, [ONES, ints([[0], [1]])], [ONES, ints([[0], [2]])]),
    "scatter_nd": (lambda i: tf.scatter_nd(i, RAMP[:2], [5]), [ints([1], [4])], [ints([1], [5])]),
    "tensor_scatter": (
        lambda x, i: tf.tensor_scatter_nd_update(x, i, RAMP[:2]),
        [ONES, ints([1, 0], [0, 2])],
        [ONES, ints([1, 0], [2, 2])],
    ),
    "tensor_scatter_max": (
        lambda x, i: tf.tensor_scatter_nd_max(x, i, RAMP[:2]),
        [ONES, ints([1, 0], [0, 2])],
        [ONES, ints([1, 0], [1, -1])],
    ),
    "segments": (lambda i: tf.math.unsorted_segment_sum(RAMP, i, 2), [ints(0, -1, 1)], [ints(0, -5, 2)]),
    "segment_max": (lambda i: tf.math.unsorted_segment_max(RAMP, i, 2), [ints(0, -1, 1)], [ints(0, 9, 2)]),
    "partitions": (lambda i: tf.dynamic_partition(RAMP, i, 2), [ints(0, 1, 0)], [ints(0, 2, 0)]),
    "labels": (
        lambda z, i: tf.nn.sparse_softmax_cross_entropy_with_logits(i, z),
        [ONES, ints(0, 2)],
        [ONES, ints(0, 3)],
    ),
    "many_indices": (tf.gather, [RAMP, np.zeros(1001, np.int32)], [RAMP, np.eye(1, 1001, 1000, dtype=np.int32)[0] * 3]),
    "bincount": (tf.math.bincount, [ints(2, 1)], [ints(2, -1)]),
    "power": (tf.pow, [ints(2, 3), ints(1, 0)], [ints(2, 3), ints(1, -1)]),
    "numerics": (lambda x: tf.debugging.check_numerics(x, "here"), [RAMP], [np.float32([1, NAN, -INF])]),
    "infinities": (lambda x: tf.debugging.check_numerics(x, "here"), [RAMP], [np.float32([1, 2, -INF])]),
    "numerics_64": (lambda x: tf.debugging.check_numerics(x, "here"), [np.float64(RAMP)], [np.float64([1, NAN])]),
    "numerics_16": (lambda x: tf.debugging.check_numerics(x, ""), [np.float16(RAMP)], [np.float16([65504, INF])]),
}


def said(fn: Callable[..., Any], *args: Any) -> str:
    """The kernel's words in the error that `fn` raises."""
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        fn(*map(tf.convert_to_tensor, args))
    text = re.sub(r"{{function_node [^}]*}} ?", "", raised.value.message)
    return re.split(r"\n\t \[\[| \[Op:", text)[0].strip().rpartition("\n")[2]


def outcome(fn: Callable[..., Any], args: list[Any]) -> tuple[str, Any]:
    """('', results), or the class of the error and ''."""
    try:
        return "", [t.numpy() for t in tf.nest.flatten(fn(*map(tf.convert_to_tensor, args)))]
    except tf.errors.OpError as error:
        return type(error).__name__, ""


@pytest.mark.parametrize("name", ROWS)
def test_raises_as_tensorflow_does(name: str) -> None:
    fn, good, bad = ROWS[name]
    compiled = tf.function(fn, autograph=False, jit_compile=True)
    want = said(fn, *bad)
    expected = outcome(fn, good)[1]
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        for _ in range(2):  # an execution that failed leaves nothing behind
            got = said(compiled, *bad)
            kept = outcome(compiled, good)
            assert (got, kept[0]) == (want, "")
            for a, b in zip(kept[1], expected):
                np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("op", [tf.math.floordiv, tf.math.floormod, lambda a, b: tf.raw_ops.Div(x=a, y=b)])
def test_integer_division_by_zero(op: Callable[..., Any]) -> None:
    """Of every type, wherever the zero stands."""
    compiled = tf.function(op, autograph=False, jit_compile=True)
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        for kind in INTEGERS:
            for at, size in ((0, 1), (40, 67), (66, 67), (3, 32)):
                divisor = np.full(size, 3)
                compiled(tf.ones([size], kind), tf.constant(divisor, kind))
                divisor[at] = 0
                bad = tf.constant(divisor, kind)
                assert said(compiled, tf.ones([size], kind), bad) == "Integer division by zero"


def test_names_the_users_line() -> None:
    def f(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
        return tf.gather(x, i) + 1.0

    line = f.__code__.co_firstlineno + 1
    with tfxla_cluster.enable(), pytest.raises(tf.errors.InvalidArgumentError, match=rf"{__file__}:{line}\b"):
        tf.function(f, jit_compile=True)(tf.constant(RAMP), tf.constant([9]))


def loop(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    total = tf.constant(0.0)
    for k in tf.range(tf.size(i)):
        total += tf.gather(x, i[k])
    return total


def counted(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    for _ in tf.range(3):
        tf.debugging.assert_less(i, 3)
    return x + 1.0


def condition(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    if tf.reduce_sum(x) > 0:
        return tf.gather(x, i)
    return x[:2]


def only_asserts(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    if tf.reduce_sum(x) > 0:
        tf.debugging.assert_less(i, 3, message="too many")
    return x + 1.0


@pytest.mark.parametrize("fn", [loop, counted, condition, only_asserts], ids=lambda fn: fn.__name__)
def test_inside_loops_and_branches(fn: Callable[..., Any]) -> None:
    """What is not run does not raise."""
    plain, compiled = tf.function(fn), tf.function(fn, jit_compile=True)
    for x, i in ((RAMP, ints(0, 1)), (RAMP, ints(1, 5)), (-RAMP, ints(0, 1)), (-RAMP, ints(0, 4))):
        want = outcome(plain, [x, i])
        with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
            got = outcome(compiled, [x, i])
        assert got[0] == want[0]
        if not got[0]:
            np.testing.assert_array_equal(got[1][0], want[1][0])


def test_one_executable_for_many_sizes() -> None:
    compiled = tf.function(tf.gather, autograph=False, jit_compile=True)
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        for n in (3, 5, 7, 11):
            x = tf.range(float(n))
            np.testing.assert_array_equal(compiled(x, tf.range(n)), np.arange(n))
            words = f"indices[{n - 1}] = {n} is not in [0, {n})"
            assert said(compiled, x, tf.concat([tf.range(n - 1), [n]], 0)) == words


def test_sizes_that_the_run_produces() -> None:
    """Padding is not checked."""

    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.gather(x, tf.where(x > 0)[:, 0] + 1)

    plain, compiled = tf.function(f), tf.function(f, jit_compile=True)
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        np.testing.assert_array_equal(compiled(tf.constant([1.0, 0.0, 2.0, 0.0])), [0.0, 0.0])
        bad = tf.constant([0.0, 0.0, 2.0, 1.0])
        assert said(compiled, bad) == said(plain, bad)


def test_variables_keep_their_values() -> None:
    """An update whose indices are out of range is none."""
    v = tf.Variable(RAMP)

    @tf.function(jit_compile=True)
    def f(i: tf.Tensor) -> tf.Tensor:
        v.scatter_add(tf.IndexedSlices(tf.ones(tf.shape(i)), i))
        return tf.gather(v, i)

    with tfxla_cluster.enable():
        np.testing.assert_array_equal(f(tf.constant([1])), [3.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape("indices[0] = 7 is not in [0, 3)")):
            f(tf.constant([7]))
    np.testing.assert_array_equal(v, [1.0, 3.0, 3.0])


def test_asserts_say_what_is_constant() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.Assert(tf.reduce_all(x > 0), ["bad", 7, x])
        return x

    with tfxla_cluster.enable():
        compiled = tf.function(f, jit_compile=True)
        np.testing.assert_array_equal(compiled(tf.constant(RAMP)), RAMP)
        assert said(compiled, -RAMP) == "assertion failed: [bad] [7] [...]"


def test_in_automatic_clusters() -> None:
    fn, good, bad = ROWS["gather"]
    plain = tf.function(lambda x, i: tf.tanh(fn(x * 2.0, i)) + 1.0)
    want = said(plain, *bad)
    with (
        tfxla_cluster.config.patch(tf_xla_auto_jit="2", tf_xla_cpu_global_jit=True, tf_xla_min_cluster_size=1),
        tfxla_cluster.enable(),
    ):
        clustered = tf.function(lambda x, i: tf.tanh(fn(x * 2.0, i)) + 1.0)
        before = tfxla_cluster.stats()["compilations"]
        clustered(*map(tf.constant, good))
        assert tfxla_cluster.stats()["compilations"] > before
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(want)):
            clustered(*map(tf.constant, bad))


def test_a_divisor_that_is_known_needs_no_check() -> None:
    def checked(divisor: int) -> int:
        concrete = tf.function(lambda x: x // divisor).get_concrete_function(tf.TensorSpec([3], tf.int32))
        return len(data_checks.expand(concrete.function_def.node_def) or ()) - len(concrete.function_def.node_def)

    assert checked(0) == 1
    assert checked(3) < 0, "nothing is rewritten"


def test_switched_off() -> None:
    with tfxla_cluster.config.patch(tfxla_check_data=False), tfxla_cluster.enable():
        for name in ("gather", "labels", "numerics", "bincount"):
            fn, _, bad = ROWS[name]
            tf.function(lambda *args, fn=fn: fn(*args), autograph=False, jit_compile=True)(*map(tf.constant, bad))
