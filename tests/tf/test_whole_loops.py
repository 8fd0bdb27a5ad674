"""Loops and branches traced while enabled: whole in a cluster, or taken apart by TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.tf.calls import clustering
from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.rewrites import whole_loops


def test_a_compilable_loop_is_one_op_of_the_cluster(monkeypatch) -> None:
    def run():
        @tf.function
        def f(a):
            for _ in tf.range(3):
                a = tf.tanh(a * 2.0 + 1.0) - tf.sin(a)
            return tf.exp(a) * 2.0 - 1.0

        return f(tf.ones([4])).numpy()

    want = run()
    with clustering(monkeypatch) as seen:
        got = run()
    np.testing.assert_allclose(want, got, rtol=1e-5)
    assert "StatelessWhile" in seen.ops()
    assert "Enter" not in seen.ops()


def test_a_loop_with_python_in_it_is_taken_apart_and_clustered_inside(monkeypatch) -> None:
    def run():
        count = []

        @tf.function
        def f(a):
            for _ in tf.range(3):
                a = tf.tanh(a * 2.0 + 1.0) - tf.sin(a)
                a = tf.ensure_shape(tf.py_function(lambda t: count.append(1) or t, [a], tf.float32), [4])
            return tf.exp(a) * 2.0 - 1.0

        return f(tf.ones([4])).numpy(), len(count)

    want = run()
    with clustering(monkeypatch) as seen:
        got = run()
    np.testing.assert_allclose(want[0], got[0], rtol=1e-5)
    assert want[1] == got[1] == 3
    assert "Tanh" in seen.ops()
    assert "While" not in seen.ops()
    assert "control_flow" in seen.left().values()


def test_branches(monkeypatch) -> None:
    def run():
        v = tf.Variable(0.0)

        @tf.function
        def f(a):
            b = tf.tanh(a) * 2.0
            if tf.reduce_sum(b) > 0.0:
                b = tf.exp(b) - 1.0
            else:
                b = tf.sin(b) * 3.0
            if tf.reduce_sum(b) > 1.0:
                v.assign_add(1.0)
            return b

        return [f(s * tf.ones([4])).numpy() for s in (1.0, -1.0)], v.numpy()

    want = run()
    with clustering(monkeypatch) as seen:
        got = run()
    np.testing.assert_allclose(want[0], got[0], rtol=1e-5)
    assert want[1] == got[1] == 1.0
    assert "StatelessIf" in seen.ops()


def test_gradient_of_a_loop_without_a_bound(monkeypatch) -> None:
    """Its lists may take any number of elements."""

    def run():
        @tf.function
        def f(a):
            with tf.GradientTape() as tape:
                tape.watch(a)
                b = a
                for _ in tf.range(3):
                    b = tf.tanh(b * 2.0 + 1.0) - tf.sin(b)
                loss = tf.reduce_sum(b)
            return loss, tape.gradient(loss, a)

        return [r.numpy() for r in f(tf.ones([4]))]

    want = run()
    with clustering(monkeypatch) as seen:
        got = run()
    np.testing.assert_allclose(want[1], got[1], rtol=1e-5)
    assert "variant" in seen.left().values()
    assert "Tanh" in seen.ops()


def test_a_branch_taken_apart_waits_for_all_its_inputs(monkeypatch) -> None:
    """Grappler drops the control edge from the loop to the last `cond`: a data input implies it. The assignment in the
    branch uses no such input, and must still not run while the loop reads the variable."""

    def run():
        v, w = tf.Variable([0.0] * 5), tf.Variable(3)

        @tf.function(autograph=False)
        def f(a, flag):
            def other():
                v.assign_sub(a)
                w.assign_add(2)
                return 2

            def body(i):
                v.assign_add(tf.ones_like(a) * tf.cast(i, tf.float32))
                return (i + 1,)

            def last():
                v.assign_sub(y)
                w.assign_add(2)
                return 2

            tf.cond(flag, lambda: (v.assign(a), 1)[1], other)
            v.read_value()
            w.read_value()
            tf.while_loop(lambda i: i < w % 4, body, [tf.constant(0)])
            y = tf.nn.selu(v.read_value())
            w.read_value()
            tf.cond(flag, lambda: (v.assign(y), 1)[1], last)
            return y, v.read_value(), w.read_value()

        return [x.numpy() for x in f(tf.zeros([5]), tf.constant(False))]

    want = run()
    with clustering(monkeypatch):
        got = run()
    for a, b in zip(want, got):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_gate_of_a_branch() -> None:
    graph = tf.compat.v1.GraphDef()
    for name, op, inputs in (
        ("p", "_Arg", []),
        ("x", "_Arg", []),
        ("y", "Selu", ["x"]),
        ("v", "_Arg", []),
        ("branch", "If", ["p", "x", "y", "v", "^z"]),
        ("z", "NoOp", []),
    ):
        graph.node.add(name=name, op=op, input=inputs)
    kinds = [tf.float32.as_datatype_enum, tf.float32.as_datatype_enum, tf.resource.as_datatype_enum]
    graph.node[4].attr["Tin"].list.type.extend(kinds)
    graph.node[4].attr["Tcond"].type = tf.bool.as_datatype_enum
    result = whole_loops.lower_others(ViewedGraph(graph), lambda node: False)
    assert result is not graph
    gate = result.node[-1]
    assert list(result.node[4].input) == [gate.name, "x", "y", "v", "^z"]
    assert list(gate.input) == ["p", "^y"]
    assert gate.op == "PlaceholderWithDefault"
