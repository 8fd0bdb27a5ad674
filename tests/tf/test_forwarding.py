"""Written values passed on to later reads: where the order is certain, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import flags
from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.rewrites.forwarding import forward


def graph_of(function):
    v = tf.Variable(1.0)
    concrete = tf.function(function).get_concrete_function(v, tf.TensorSpec([]))
    return concrete.graph.as_graph_def()


def forwarded(function, preserve=()):
    before = graph_of(function)
    for node in before.node:
        node.device = "/device:CPU:0"
    after = forward(ViewedGraph(before), lambda node: node.op in ("AddV2", "Mul", "Sub", "Identity"), preserve)
    assert all(node.device for node in after.node), "a node without a place makes TensorFlow drop the graph"
    return before, after, {node.name: node for node in after.node}


def test_read_after_assign_becomes_the_value() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        return v + 1.0

    _, _, nodes = forwarded(f)
    read = nodes[nodes["add"].input[0]]
    assert read.op == "Identity"
    assert read.input[0] == "mul"
    assert any(text.startswith("^Assign") for text in read.input), "the write must not be pruned"


def test_an_update_becomes_a_sum_and_an_assignment() -> None:
    def f(v, a):
        v.assign_add(a * 2.0)
        return v + 1.0

    _, _, nodes = forwarded(f)
    assert nodes["AssignAddVariableOp"].op == "AssignVariableOp"
    assert nodes["AssignAddVariableOp/tfxla_value"].op == "AddV2"


def test_a_kept_read_stays_and_its_users_take_the_value() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        return v + 1.0

    read = next(n.name for n in graph_of(f).node if n.op == "ReadVariableOp")
    _, _, nodes = forwarded(f, preserve={read})
    value = nodes[nodes["add"].input[0]]
    assert nodes[read].op == "ReadVariableOp"
    assert value.op == "Identity"
    assert list(value.input) == ["mul", f"^{read}"], "what follows the read follows it still"


def writes_through_reads(v, a):
    v.assign_add(a * 2.0)
    v.assign(v.read_value())
    v.assign_add(v.read_value() * 3.0)
    return a + v.read_value()


def update_of_an_unknown_value(v, a):
    v.assign(tf.numpy_function(np.sin, [a], tf.float32))
    v.assign_add(tf.numpy_function(np.cos, [v.read_value()], tf.float32) * 2.0)
    return v * 2.0


def writes_of_two_variables(v, a):
    w = other()
    w.assign(v.read_value() * 2.0)
    v.assign(w.read_value() + a)
    w.assign_sub(v.read_value() * a)
    v.assign_add(w.read_value())
    return v * 2.0


_others: list[tf.Variable] = []


def other():
    return _others[-1]


@pytest.mark.parametrize("function", [writes_through_reads, update_of_an_unknown_value, writes_of_two_variables])
def test_writes_keep_their_order(function) -> None:
    def run():
        v, a = tf.Variable([1.0, 2.0]), tf.constant([3.0, 5.0])
        _others.append(tf.Variable([0.5, 7.0]))
        results = [tf.function(function)(v, a) for _ in range(2)]
        return [*results, v, other()]

    want = run()
    with (
        flags.patch(tf_xla_auto_jit="2", tf_xla_cpu_global_jit=True, tf_xla_min_cluster_size=1),
        tfxla_cluster.enable(),
    ):
        got = run()
    for one, other_one in zip(got, want):
        np.testing.assert_allclose(one, other_one, rtol=1e-6)


def test_nothing_is_forwarded_past_python_that_may_write() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        call = tf.py_function(lambda: v.assign(7.0) and None, [], [])
        with tf.control_dependencies([call]):
            return v.read_value() + 1.0

    before, after, _ = forwarded(f)
    reads = [n for n in after.node if n.op == "ReadVariableOp"]
    assert len(reads) == len([n for n in before.node if n.op == "ReadVariableOp"])


def test_a_variable_that_other_ops_take_is_left_alone() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        tf.cond(a > 0.0, lambda: v.assign(3.0), lambda: v.assign(4.0))
        return v + 1.0

    before, after, _ = forwarded(f)
    assert after is before
