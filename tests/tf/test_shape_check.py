"""Functions traced without shapes and called with sizes that do not fit: an error, as in eager TensorFlow.

Each row has sizes that fit and sizes that do not; both are tried compiled whole and in clusters, through traces that
know ranks or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.tf.functions import origins, shape_check
from tfxla_cluster.tf2xla.bridge import Arg

Shapes = tuple[tuple[int, ...], ...]


def _loop(a: Any, b: Any) -> Any:
    return tf.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, c + tf.reduce_sum(a @ b)), [0, 0.0])[1]


_called = tf.function(lambda a, b: a @ b)
_called_of_known = tf.function(lambda a, b: a @ b)  # without a trace for open sizes, which would serve known ones too
_variable = tf.Variable(np.ones((6, 1), np.float32), shape=tf.TensorShape(None))

# Name: function, sizes that fit, sizes that do not.
ROWS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "matmul": (lambda a, b: a @ b, ((1, 6), (6, 1)), ((1, 4), (6, 1))),
    "matmul_of_one": (lambda a, b: a @ b, ((3, 1), (1, 2)), ((3, 4), (1, 2))),
    "matmul_transposed": (lambda a, b: tf.matmul(a, b, transpose_b=True), ((2, 4), (3, 4)), ((2, 4), (3, 1))),
    "batch_matmul": (lambda a, b: a @ b, ((2, 2, 4), (2, 4, 2)), ((2, 2, 4), (3, 4, 2))),
    "matvec": (tf.linalg.matvec, ((2, 4), (4,)), ((2, 4), (1,))),
    "tensordot": (lambda a, b: tf.tensordot(a, b, 1), ((2, 4), (4, 3)), ((2, 4), (6, 3))),
    "einsum": (lambda a, b: tf.einsum("ij,jk->ik", a, b), ((3, 2), (2, 3)), ((3, 2), (4, 3))),
    "einsum_of_one": (lambda a, b: tf.einsum("bij,bjk->bik", a, b), ((2, 3, 2), (2, 2, 3)), ((2, 3, 2), (2, 3, 3))),
    "max_pool": (lambda a: tf.nn.max_pool2d(a, 5, 1, "VALID"), ((1, 6, 6, 1),), ((1, 3, 3, 1),)),
    "average_pool": (lambda a: tf.nn.avg_pool2d(a, 5, 1, "VALID"), ((1, 6, 6, 1),), ((1, 3, 3, 1),)),
    "convolution": (
        lambda a, b: tf.nn.conv2d(a, b, 1, "VALID"),
        ((1, 5, 5, 3), (2, 2, 3, 1)),
        ((1, 5, 5, 3), (2, 2, 4, 1)),
    ),
    "large_filter": (
        lambda a, b: tf.nn.conv2d(a, b, 1, "VALID"),
        ((1, 5, 5, 3), (5, 5, 3, 1)),
        ((1, 3, 3, 3), (5, 5, 3, 1)),
    ),
    "add": (lambda a, b: a + b, ((2, 3), (3,)), ((2, 3), (4,))),
    "add_n": (lambda a, b: tf.add_n([a, b]), ((3,), (3,)), ((3,), (4,))),
    "select": (lambda a, b: tf.where(a > 0, a, b), ((3,), (3,)), ((3,), (4,))),
    "concat": (lambda a, b: tf.concat([a, b], 0), ((2, 3), (1, 3)), ((2, 3), (2, 4))),
    "stack": (lambda a, b: tf.stack([a, b]), ((3,), (3,)), ((3,), (4,))),
    "bias_add": (tf.nn.bias_add, ((3, 2), (2,)), ((3, 2), (4,))),
    "reshape": (lambda a: tf.reshape(a, [2, -1]), ((4,),), ((3,),)),
    "split": (lambda a: tf.split(a, 2), ((4,),), ((3,),)),
    "slice": (lambda a: tf.slice(a, [1], [4]), ((5,),), ((3,),)),
    "element": (lambda a: a[5], ((6,),), ((3,),)),
    "unstack": (lambda a: tf.stack(tf.unstack(a, 2)), ((2, 3),), ((3, 3),)),
    "tile": (lambda a: tf.tile(a, [2, 2]), ((2, 2),), ((4,),)),
    "transpose": (lambda a: tf.transpose(a, [1, 0]), ((3, 2),), ((3, 2, 1),)),
    "reduce": (lambda a: tf.reduce_sum(a, 1), ((3, 2),), ((3,),)),
    "cumsum": (lambda a: tf.cumsum(a, 1), ((3, 2),), ((3,),)),
    "broadcast": (lambda a: tf.broadcast_to(a, [2, 3]), ((3,),), ((2,),)),
    "ensure_shape": (lambda a: tf.ensure_shape(a, [3]) * 2.0, ((3,),), ((4,),)),
    "cross_entropy": (
        lambda a, b: tf.nn.softmax_cross_entropy_with_logits(labels=a, logits=b),
        ((3, 2), (3, 2)),
        ((3, 2), (4, 2)),
    ),
    "set_diag": (tf.linalg.set_diag, ((3, 3), (3,)), ((3, 3), (2,))),
    "called": (lambda a, b: tf.reduce_sum(_called(a, b)), ((1, 6), (6, 1)), ((1, 4), (6, 1))),
    "branch": (
        lambda a, b: tf.cond(tf.reduce_sum(a) > 0, lambda: tf.reduce_sum(a @ b), lambda: 1.0),
        ((1, 6), (6, 1)),
        ((1, 4), (6, 1)),
    ),
    "loop": (_loop, ((1, 6), (6, 1)), ((1, 4), (6, 1))),
    "variable": (lambda a: a @ _variable, ((1, 6),), ((1, 4),)),
}


def _values(shapes: Shapes) -> list[Any]:
    return [tf.constant(np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)) for shape in shapes]


@pytest.mark.parametrize("jit_compile", [True, None], ids=["must", "auto"])
@pytest.mark.parametrize("ranked", [False, True], ids=["unknown", "ranked"])
@pytest.mark.parametrize("name", ROWS)
def test_sizes_that_do_not_fit(name: str, ranked: bool, jit_compile: bool | None) -> None:
    function, fits, misfits = ROWS[name]
    if ranked and [len(s) for s in fits] != [len(s) for s in misfits]:
        pytest.skip("the rank is what does not fit")
    signature = [tf.TensorSpec([None] * len(shape) if ranked else None) for shape in fits]
    good, bad = _values(fits), _values(misfits)
    if name != "called":  # eager, the called function is traced for these sizes, which is another error
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(*bad)
    traced = tf.function(function, input_signature=signature, jit_compile=jit_compile)
    options = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
    with tfxla_cluster.config.patch(**options), tfxla_cluster.enable():
        want = tf.nest.flatten(function(*good))
        for _ in range(2):
            for a, b in zip(want, tf.nest.flatten(traced(*good)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)
            with pytest.raises(tf.errors.InvalidArgumentError):
                traced(*bad)


@pytest.mark.parametrize("jit_compile", [True, None], ids=["must", "auto"])
def test_a_branch_that_is_not_taken_may_not_fit(jit_compile: bool | None) -> None:
    @tf.function(input_signature=[tf.TensorSpec(None)] * 2, jit_compile=jit_compile)
    def f(a: Any, b: Any) -> Any:
        return tf.cond(tf.reduce_sum(a) < 0, lambda: tf.reduce_sum(a @ b), lambda: tf.reduce_sum(b) * 2.0)

    options = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
    a, b = _values(((1, 4), (6, 1)))
    with tfxla_cluster.config.patch(**options), tfxla_cluster.enable():
        assert float(f(a, b)) == 42.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            f(-a, b)


def _chosen(a: Any, b: Any) -> Any:
    return tf.cond(tf.reduce_sum(a) > 0, lambda: tf.reduce_sum(a @ b), lambda: tf.reduce_sum(b) * 2.0)


@pytest.mark.parametrize("ranked", [False, True], ids=["unknown", "ranked"])
def test_a_nested_function_that_does_not_fit_in_a_branch(ranked: bool) -> None:
    inner = tf.function(_chosen, input_signature=[tf.TensorSpec([None] * 2 if ranked else None)] * 2, jit_compile=True)
    outer = tf.function(lambda a, b: inner(a, b) + 1.0, input_signature=inner.input_signature)
    (a, b), (good, _) = _values(((1, 4), (6, 1))), _values(((1, 6), (6, 1)))
    with tfxla_cluster.enable():
        for _ in range(2):
            assert float(outer(good, b)) == 92.0
            with pytest.raises(tf.errors.InvalidArgumentError):
                outer(a, b)
            assert float(outer(-a, b)) == 43.0


@pytest.mark.parametrize("captured", [False, True], ids=["arguments", "variable"])
def test_only_the_sizes_that_do_not_fit_in_a_branch_run_uncompiled(captured: bool) -> None:
    variable = tf.Variable(np.ones((6, 1), np.float32))
    spec = tf.TensorSpec(None)

    @tf.function(input_signature=[spec, spec], jit_compile=True)
    def f(a: Any, b: Any) -> Any:
        return _chosen(a, b * variable if captured else b)

    (a, b), (good, _) = _values(((1, 4), (6, 1))), _values(((1, 6), (6, 1)))
    with tfxla_cluster.enable():
        for _ in range(3):
            before = tfxla_cluster.stats()["executions"]
            assert float(f(-a, b)) == 42.0
            assert tfxla_cluster.stats()["executions"] == before
            assert float(f(good, b)) == 91.0
            assert tfxla_cluster.stats()["executions"] == before + 1


def test_the_error_names_node_line_and_remedy() -> None:
    @tf.function(input_signature=[tf.TensorSpec(None)] * 2, jit_compile=True)
    def product(a: Any, b: Any) -> Any:
        return tf.matmul(a, b, name="here")

    with tfxla_cluster.enable(), pytest.raises(tf.errors.InvalidArgumentError) as raised:
        product(*_values(((1, 4), (6, 1))))
    for part in ("test_shape_check.py:", "'here'", "[1,4], [6,1]", "Call it with sizes that fit"):
        assert part in str(raised.value)


def test_what_cannot_be_imported_is_not_judged() -> None:
    @tf.function(input_signature=[tf.TensorSpec(None)] * 2)
    def product(a: Any, b: Any) -> Any:
        return a @ b

    definition = type(product.get_concrete_function().function_def)()
    definition.CopyFrom(product.get_concrete_function().function_def)
    bad = [Arg(tf.float32.as_datatype_enum, (1, 4)), Arg(tf.float32.as_datatype_enum, (6, 1))]
    with pytest.raises(shape_check.LoweringError):
        shape_check.check(definition, bad)
    definition.node_def.add(name="other", op="PartitionedCall").attr["f"].func.name = "no such function"
    shape_check.check(definition, bad)


_dense = tf.Variable(np.ones((6, 2), np.float32))
_open = tf.function(lambda a, b: a @ b, input_signature=[tf.TensorSpec(None)] * 2)


def _late(a: Any) -> Any:
    product = a @ tf.ones([6, 1])
    a.set_shape([2, 6])
    return product


KNOWN, OPEN = tf.TensorSpec([2, 6]), tf.TensorSpec([None, 6])


@pytest.mark.parametrize(
    ("function", "spec", "dims", "wanted"),
    [
        (lambda a: a @ tf.ones([6, 1]), KNOWN, [(2, 6)], True),
        (lambda a: a @ tf.ones([6, 1]), KNOWN, [(1, 6)], False),
        (lambda a: a @ tf.ones([6, 1]), OPEN, [(2, 6)], False),
        (lambda a: a @ tf.ones([6, 1]), tf.TensorSpec(None), [(2, 6)], False),
        (_late, OPEN, [(2, 6)], False),
        (lambda a: a @ _dense, KNOWN, [(2, 6), (6, 2)], True),
        (lambda a: a @ _dense, KNOWN, [(2, 6), (6, 1)], False),
        (lambda a: a @ _variable, KNOWN, [(2, 6), (6, 1)], False),
        (lambda a: tf.reduce_sum(_called_of_known(a, tf.ones([6, 1]))), KNOWN, [(2, 6)], True),
        (lambda a: _open(a, tf.ones([6, 1])), KNOWN, [(2, 6)], False),
        (lambda a: tf.cond(tf.reduce_sum(a) > 0, lambda: a @ tf.ones([6, 1]), lambda: a[:, :1]), KNOWN, [(2, 6)], True),
        (
            lambda a: tf.while_loop(
                lambda _: True, lambda b: (tf.concat([b, b], 0),), [a], [tf.TensorShape(None)], maximum_iterations=2
            ),
            KNOWN,
            [(2, 6)],
            False,
        ),
    ],
    ids=[
        *("known", "other", "open", "unknown", "late", "variable", "its_other", "open_variable"),
        *("called", "called_open", "branch", "loop"),
    ],
)
def test_what_a_trace_checked_is_not_checked_again(
    function: Callable[..., Any], spec: Any, dims: list[tuple[int, ...]], wanted: bool
) -> None:
    traced = tf.function(function, jit_compile=True).get_concrete_function(spec)
    atomic = traced._inference_function
    origins._note(atomic, traced, {}, ())
    kinds = [tensor.dtype == tf.resource for tensor in atomic._cached_graph.inputs]
    args = [Arg(tf.float32.as_datatype_enum, own, kind) for own, kind in zip(dims, kinds, strict=True)]
    assert shape_check.was_traced_for(atomic.name.decode(), args) is wanted
