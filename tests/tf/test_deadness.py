"""Conditions under which nodes of lowered control flow run."""

from __future__ import annotations

import tensorflow as tf

from tfxla_cluster.tf.graph import deadness
from tfxla_cluster.tf.graph.view import Graph


def conditions(function, *specs):
    """Node name -> conditions, in the function with its If and While lowered."""
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            function(*[tf.compat.v1.placeholder(s.dtype, s.shape, name=f"arg{k}") for k, s in enumerate(specs)])
    finally:
        tf.compat.v1.enable_control_flow_v2()
    view = Graph.of_graph_def(graph.as_graph_def())
    found = deadness.analyse(view, view.topological())
    return {node.name: found[i] for i, node in enumerate(view.nodes)}


FLAG, VALUE = tf.TensorSpec([], tf.bool), tf.TensorSpec([2])


def test_branches_differ_and_the_merge_runs_always() -> None:
    def f(flag, x):
        y = tf.cond(flag, lambda: tf.sin(x, name="yes"), lambda: tf.cos(x, name="no"))
        tf.exp(y, name="after")

    found = conditions(f, FLAG, VALUE)
    assert found["cond/yes"] != found["cond/no"]
    assert found["after"] == found["arg1"] == frozenset()


def test_equal_predicates_mean_equal_conditions() -> None:
    def f(flag, x):
        tf.cond(flag, lambda: tf.sin(x, name="a"), lambda: x)
        tf.cond(flag, lambda: tf.sin(x, name="b"), lambda: x)

    found = conditions(f, FLAG, VALUE)
    assert found["cond/a"] != frozenset()
    assert found["cond_1/b"] != frozenset()


def test_a_loop_body_runs_apart_and_what_follows_does_not() -> None:
    def f(flag, x):
        out = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y, name="body")), [0, x])
        tf.exp(out[1], name="after")

    found = conditions(f, FLAG, VALUE)
    assert found["while/body"]
    assert found["while/body"] != found["while/Less"]
    assert found["after"] == frozenset()


def test_a_loop_in_a_branch_keeps_the_branch() -> None:
    def f(flag, x):
        def loop():
            out = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y)), [0, x])
            return tf.exp(out[1], name="after")

        tf.cond(flag, loop, lambda: tf.cos(x, name="other"))

    found = conditions(f, FLAG, VALUE)
    assert found["cond/after"]
    assert found["cond/after"] != found["cond/other"]
    assert not any(c[0] in ("frame", "loop") for c in found["cond/after"])
