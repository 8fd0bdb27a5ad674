"""Written values passed on to later reads: where the order is certain, and only there."""
from __future__ import annotations

import tensorflow as tf

from tfxla_cluster.tf.forwarding import forward


def graph_of(function):
    v = tf.Variable(1.0)
    concrete = tf.function(function).get_concrete_function(v, tf.TensorSpec([]))
    return concrete.graph.as_graph_def()


def forwarded(function, preserve=()):
    before = graph_of(function)
    after = forward(before, lambda node: node.op in ("AddV2", "Mul", "Sub", "Identity"), preserve)
    return before, after, {node.name: node for node in after.node}


def test_read_after_assign_becomes_the_value() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        return v + 1.0

    _, _, nodes = forwarded(f)
    read = nodes[nodes["add"].input[0]]
    assert read.op == "Identity" and read.input[0] == "mul"
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
    assert nodes[read].op == "ReadVariableOp" and nodes["add"].input[0] == "mul"


def test_nothing_is_forwarded_past_python_that_may_write() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        call = tf.py_function(lambda: v.assign(7.0) and None, [], [])
        with tf.control_dependencies([call]):
            return v.read_value() + 1.0

    before, after, nodes = forwarded(f)
    reads = [n for n in after.node if n.op == "ReadVariableOp"]
    assert len(reads) == len([n for n in before.node if n.op == "ReadVariableOp"])


def test_a_variable_that_other_ops_take_is_left_alone() -> None:
    def f(v, a):
        v.assign(a * 2.0)
        tf.cond(a > 0.0, lambda: v.assign(3.0), lambda: v.assign(4.0))
        return v + 1.0

    before, after, _ = forwarded(f)
    assert after is before
