"""Loops and branches traced while enabled: whole in a cluster, or taken apart by TensorFlow."""
from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.tf.calls import clustering


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
    assert "StatelessWhile" in seen.ops() and "Enter" not in seen.ops()


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
    assert "Tanh" in seen.ops() and "While" not in seen.ops()
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


def test_gradient_of_a_loop(monkeypatch) -> None:
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
    assert "variant" in seen.left().values() and "Tanh" in seen.ops()
