"""Which nodes hand lists of tensors to each other, and which of these groups no cluster can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.calls import clustering
from tfxla_cluster.tf.graph import list_groups
from tfxla_cluster.tf.graph.view import Graph

X = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4) * np.float32(0.1))
CLUSTERS = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}


def _graph(function: Any, *args: Any) -> Graph:
    return Graph.of_graph_def(tf.function(function).get_concrete_function(*args).graph.as_graph_def())


def _groups(graph: Graph) -> list[list_groups.Group]:
    return list_groups.of_nodes(graph.nodes, graph.op_def, graph.functions)


def _ops(graph: Graph, names: Any) -> list[str]:
    return sorted(graph.nodes[graph.index[name]].op for name in names if name)


def test_groups_are_what_variants_connect() -> None:
    def two(x: Any) -> Any:
        first, second = (tf.TensorArray(tf.float32, 3, element_shape=[4]).unstack(part) for part in (x, x * 2.0))
        return first.stack(), second.read(1)

    graph = _graph(two, X)
    found = sorted(_ops(graph, group) for group in _groups(graph) if len(group) > 1)
    one = ["TensorListFromTensor", "TensorListGetItem"]
    assert found == [one, ["TensorListFromTensor", "TensorListStack"]]
    assert list_groups.not_held(graph.nodes, _groups(graph), lambda node: True) == set()
    left = list_groups.not_held(graph.nodes, _groups(graph), lambda node: node.op != "TensorListGetItem")
    assert _ops(graph, left) == one


def test_lists_that_cross_a_function_are_not_held() -> None:
    def inner(x: Any) -> Any:
        return tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=tf.constant([4]))

    def outer(x: Any) -> Any:
        held = tf.function(inner)(x)
        return tf.raw_ops.TensorListStack(input_handle=held, element_shape=tf.constant([4]), element_dtype=tf.float32)

    graph = _graph(outer, X)
    (function,) = graph.functions.values()
    groups = list_groups.of_function(function, graph)
    assert any(list_groups.OUTSIDE in group for group in groups)
    held = list_groups.not_held(function.node_def, groups, lambda node: True)
    assert any("TensorListFromTensor" in name for name in held)


def test_a_list_without_a_bound_is_not_held() -> None:
    for most, held in ((-1, False), (3, True)):

        def length(most: int = most) -> Any:
            made = tf.raw_ops.EmptyTensorList(
                element_shape=tf.constant([4]), max_num_elements=tf.constant(most), element_dtype=tf.float32
            )
            return tf.raw_ops.TensorListLength(input_handle=made)

        graph = _graph(length)
        assert (list_groups.not_held(graph.nodes, _groups(graph), lambda node: True) == set()) is held


def test_a_list_that_python_reads_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed of the list on both sides of an op that stays TensorFlow's is in no cluster with it."""

    def program(x: Any) -> Any:
        ta = tf.TensorArray(tf.float32, 3, element_shape=[4], clear_after_read=False).unstack(tf.tanh(x) * 2.0)
        seen = tf.ensure_shape(tf.py_function(lambda t: t + 1.0, [ta.read(0)], tf.float32), [4])
        return tf.exp(ta.write(1, seen).stack()) - 1.0

    want = tf.function(program)(X)
    with clustering(monkeypatch, tf_xla_min_cluster_size=1) as seen:
        np.testing.assert_allclose(tf.function(program)(X), want, rtol=1e-5)
    assert not any("TensorList" in op for op in seen.ops())
    assert "variant" in seen.left().values()
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable():
        np.testing.assert_allclose(tf.function(program)(X), want, rtol=1e-5)


def test_a_tape_outside_keeps_lists_outside() -> None:
    """The forward half gives its lists to the backward half, another function."""
    loop = tf.function(lambda x: tf.scan(lambda a, row: tf.tanh(a * 0.5 + row), x))

    def run() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            total = tf.reduce_sum(tf.sin(loop(X)))
        return total, tape.gradient(total, X)

    want = run()
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable():
        before = tfxla_cluster.stats()["internal_errors"]
        loop = tf.function(lambda x: tf.scan(lambda a, row: tf.tanh(a * 0.5 + row), x))
        for a, b in zip(run(), want):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        assert tfxla_cluster.stats()["internal_errors"] == before


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_an_index_that_is_data_raises_as_it_does(in_a_loop: bool) -> None:
    def program(x: Any, where: Any) -> Any:
        ta = tf.TensorArray(tf.float32, 3, element_shape=[4], clear_after_read=False).unstack(tf.tanh(x) * 2.0)
        if not in_a_loop:
            return tf.exp(ta.read(where[0])) - 1.0
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.sin(y) + ta.read(where[i])), (0, x[0]))[1]

    want = tf.function(program)(X, tf.constant([1, 2]))
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable():
        function = tf.function(program)
        np.testing.assert_allclose(function(X, tf.constant([1, 2])), want, rtol=1e-5)
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(X, tf.constant([7, 9]))
