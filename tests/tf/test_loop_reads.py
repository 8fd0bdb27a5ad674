"""Loops that read variables, in automatic clusters: whole where they only read, values and order as TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.calls import clustering
from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.rewrites import loop_reads

X = tf.constant(np.arange(1, 13, dtype=np.float32).reshape(3, 4) * np.float32(0.1))
Program = Callable[[tf.Variable, tf.Variable, Any], Any]
CLUSTERS = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True}


def _steps(body: Callable[[Any, Any], Any], x: Any, count: Any = 3) -> Any:
    return tf.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, body(i, y)), (0, x))[1]


def _reads(v: Any, w: Any, x: Any) -> Any:
    return tf.exp(_steps(lambda i, y: tf.tanh(y @ v) + w, x)) * 2.0


def _reads_twice(v: Any, w: Any, x: Any) -> Any:
    return _steps(lambda i, y: tf.tanh(y * v[0]) - tf.sin(v[1]) * y, x)


def _condition_reads(v: Any, w: Any, x: Any) -> Any:
    ends = lambda y: tf.reduce_sum(y) < 40.0 + w[0]
    return tf.while_loop(ends, lambda y: (y * 1.5 + tf.tanh(y),), (x,))[0]


def _assigned_around(v: Any, w: Any, x: Any) -> Any:
    w.assign_add(tf.ones([4]))
    first = _steps(lambda i, y: tf.tanh(y) * w + 1.0, x)
    w.assign(w * 2.0)
    second = _steps(lambda i, y: tf.tanh(y) * w + 1.0, x)
    before = w.read_value()
    w.assign_sub(first[0])
    return first, second, before, w.read_value()


def _never_run(v: Any, w: Any, x: Any) -> Any:
    return _steps(lambda i, y: tf.tanh(y @ v) + w, x, tf.size(x) - 12)


def _gradients(v: Any, w: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        rows = tf.TensorArray(tf.float32, 3, element_shape=[4]).unstack(x)
        step = lambda i, s, out: (i + 1, tf.tanh(rows.read(i)[None] @ v + s * w), out.write(i, s[0]))
        out = tf.TensorArray(tf.float32, 3, element_shape=[4])
        _, state, out = tf.while_loop(lambda i, s, o: i < 3, step, (0, tf.zeros([1, 4]), out), maximum_iterations=3)
        loss = tf.reduce_sum(tf.sin(state)) + tf.reduce_sum(out.stack() ** 2.0)
    found = tape.gradient(loss, [v, w])
    v.assign_sub(0.1 * found[0])
    w.assign_sub(0.1 * found[1])
    return loss, found


def _writes(v: Any, w: Any, x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        w.assign_add(y[0])
        return tf.tanh(y @ v) + w

    return _steps(body, x)


def _calls_python(v: Any, w: Any, x: Any) -> Any:
    def change(y: Any) -> Any:
        w.assign_add(tf.ones([4]))
        return y

    def body(i: Any, y: Any) -> Any:
        return tf.ensure_shape(tf.py_function(change, [tf.tanh(y) * w + y], tf.float32), [3, 4])

    return _steps(body, x)


def _nested(v: Any, w: Any, x: Any) -> Any:
    return _steps(lambda i, y: _steps(lambda j, z: tf.tanh(z @ v) + w, y, i + 1), x)


def _branches(v: Any, w: Any, x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return tf.cond(y[0, 0] > 0.3, lambda: tf.tanh(y) - w, lambda: tf.sin(y) + 0.5) * v[0, 0]

    return _steps(body, x)


def _stops_early(v: Any, w: Any, x: Any) -> Any:
    for i in tf.range(10):
        x = tf.tanh(x @ v) + w
        if tf.reduce_sum(x) > 1.0 and i > 1:
            break
    return x


def _over_data(v: Any, w: Any, x: Any) -> Any:
    total = tf.zeros([3, 4])
    for row in tf.data.Dataset.from_tensor_slices(X):
        total += _steps(lambda i, y: tf.tanh(y @ v) + w, x * row)
        w.assign_add(row)
    return total


WHOLE: dict[str, Program] = {
    "reads": _reads,
    "reads twice": _reads_twice,
    "condition": _condition_reads,
    "assigned around": _assigned_around,
    "never run": _never_run,
    "gradients": _gradients,
}
OTHERS: dict[str, Program] = {
    "writes": _writes,
    "calls Python": _calls_python,
    "nested": _nested,
    "branches": _branches,
    "stops early": _stops_early,
    "over data": _over_data,
}


def _run(program: Program, calls: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    v = tf.Variable(random.standard_normal((4, 4)).astype(np.float32))
    w = tf.Variable(random.standard_normal(4).astype(np.float32))
    function = tf.function(lambda x: program(v, w, x))
    return [np.asarray(y) for _ in range(calls) for y in tf.nest.flatten((function(X), v, w))]


def _assert_equal(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", {**WHOLE, **OTHERS})
def test_values(name: str) -> None:
    program = {**WHOLE, **OTHERS}[name]
    want = _run(program)
    with tfxla_cluster.config.patch(**CLUSTERS), tfxla_cluster.enable():
        before = tfxla_cluster.stats()
        got = _run(program)
        after = tfxla_cluster.stats()
    _assert_equal(got, want)
    assert after["internal_errors"] == before["internal_errors"]
    if name in WHOLE:
        assert after["native_kernels"] > before["native_kernels"]
        assert after["fallbacks"] == before["fallbacks"]


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = _run(WHOLE[name])
    with clustering(monkeypatch) as seen:
        got = _run(WHOLE[name])
    _assert_equal(got, want)
    assert "StatelessWhile" in seen.ops()
    assert not {"Enter", "Merge", "While"} & {node.op for graph, _ in seen.clusterings for node in graph.nodes}


@pytest.mark.parametrize("name", ["writes", "calls Python"])
def test_not_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with clustering(monkeypatch) as seen:
        _run(OTHERS[name])
    assert "StatelessWhile" not in seen.ops()


def test_a_recurrent_step_is_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with clustering(monkeypatch) as seen:
        _run(_gradients, calls=1)
    assert len(seen.functions) == 1
    assert seen.ops().count("StatelessWhile") == 2


@pytest.mark.parametrize(("fetched", "compilable"), [(False, True), (True, True), (False, False)])
def test_the_reads_stand_before_the_loop(fetched: bool, compilable: bool) -> None:
    v, w = tf.Variable(tf.ones([4, 4])), tf.Variable(tf.ones([4]))
    with tfxla_cluster.enable():  # loops are traced without the mark to take them apart
        graph_def = tf.function(lambda x: _reads(v, w, x)).get_concrete_function(X).graph.as_graph_def()
    (loop,) = [node for node in graph_def.node if node.op == "While"]
    names = [loop.name] if fetched else []
    result = loop_reads.hoist(ViewedGraph(graph_def), lambda node, library: compilable, names)
    if fetched or not compilable:
        assert result is graph_def
        return
    nodes = {node.name: node for node in result.node}
    (whole,) = [node for node in result.node if node.op == "StatelessWhile"]
    assert nodes[loop.name].op == "NoOp"
    reads = [name for name in whole.input if nodes[name].op == "ReadVariableOp"]
    assert [f"^{name}" for name in reads] == list(nodes[loop.name].input)
    body = {f.signature.name: f for f in result.library.function}[whole.attr["body"].func.name]
    assert not {"ReadVariableOp"} & {node.op for node in body.node_def}
    assert tf.resource.as_datatype_enum not in whole.attr["T"].list.type
