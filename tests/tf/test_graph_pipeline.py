"""The runner of graph rewrites: order, the view handed on, dumps, and rewrites that lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import tfxla_cluster
from tfxla_cluster.errors import InternalError
from tfxla_cluster.tf.graph import pipeline
from tfxla_cluster.tf.graph.pipeline import Rewrite, ViewedGraph


def graph(*names: str) -> graph_pb2.GraphDef:
    return graph_pb2.GraphDef(node=[tf.compat.v1.NodeDef(name=name, op="NoOp") for name in names])


def adding(name: str) -> Rewrite:
    def run(given: ViewedGraph) -> graph_pb2.GraphDef:
        return graph(*(node.name for node in given.view.nodes), name)

    return Rewrite(f"add-{name}", run)


KEEP = Rewrite("keep", lambda given: given.graph_def)


def test_rewrites_run_in_order_and_changes_are_seen() -> None:
    seen: list[tuple[int, str, str]] = []
    given = ViewedGraph(graph("a"))
    result = pipeline.run(given, [adding("b"), KEEP, adding("c")], lambda g, *words: seen.append((len(g.node), *words)))
    assert [node.name for node in result.graph_def.node] == ["a", "b", "c"]
    assert [node.name for node in given.graph_def.node] == ["a"]
    assert seen == [(1, "pipeline-start", "add-b"), (2, "add-b", "keep"), (3, "add-c", "pipeline-end")]


def test_the_view_is_built_once_where_nothing_changes() -> None:
    views: list[object] = []
    looking = Rewrite("look", lambda given: views.append(given.view) or given.graph_def)
    given = ViewedGraph(graph("a"))
    assert pipeline.run(given, [looking, KEEP, looking]) is given
    assert views[0] is views[1] is given.view


def test_a_rewrite_that_lies_is_caught() -> None:
    def in_place(given: ViewedGraph) -> graph_pb2.GraphDef:
        given.graph_def.node.add(name="more")
        return given.graph_def

    with pytest.raises(InternalError, match="in-place changed its input in place"):
        pipeline.run(ViewedGraph(graph("a")), [Rewrite("in-place", in_place)], strict=True)
    with pytest.raises(InternalError, match="copy says changed"):
        pipeline.run(ViewedGraph(graph("a")), [Rewrite("copy", lambda given: graph("a"))], strict=True)


def test_graphs_between_rewrites_are_dumped_and_timed(tmp_path: Path) -> None:
    f = tf.function(lambda x, seed: tf.random.stateless_uniform([3], seed) * x + tf.sin(x) - tf.cos(x))
    settings = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "xla_dump_to": str(tmp_path)}
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(**settings, tfxla_dump_graph_rewrite_re="random"):
        f(tf.ones([3]), tf.constant([1, 2]))
    names = [path.name for path in tmp_path.glob("graph_rewrites.*")]
    assert names == ["graph_rewrites.after_random-ops.before_variable-forwarding.pbtxt"]
    assert "tfxla_bits" in (tmp_path / names[0]).read_text()
    phases = "".join(path.read_text() for path in tmp_path.glob("trace.*.jsonl"))
    assert all(f'"{name}"' in phases for name in ("must-compile-calls", "random-ops", "effect-deferral"))
