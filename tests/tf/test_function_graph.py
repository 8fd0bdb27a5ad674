"""The graphs of must-compile functions in a dump: whole, valid, by the names that user lines are known by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from tests import fresh
from tfxla_cluster import counters, flags
from tfxla_cluster.tf.must_compile import function_graph


@pytest.fixture(autouse=True)
def compiler() -> Iterator[None]:
    yield from fresh.compiler()


def functions(directory: Path) -> list[dict[str, Any]]:
    lines = [line for path in directory.glob("trace.*.jsonl") for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["kind"] == "function"]


def graph_of(directory: Path, record: dict[str, Any]) -> graph_pb2.GraphDef:
    graph = graph_pb2.GraphDef()
    text_format.Parse((directory / record["graph"]).read_text(), graph)
    return graph


def inner(x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(x) + 1.0


def with_a_call(x: tf.Tensor) -> tf.Tensor:
    return tf.function(inner)(x) * 2.0


def with_a_loop(x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.exp(-v)), (0, x))[1]


def several(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
    mean, variance = tf.nn.moments(x, [0])
    return (x, mean, variance, *tf.split(x, 2))


@pytest.mark.parametrize("python", [inner, with_a_call, with_a_loop, several])
def test_the_graph_is_whole(python: Callable[..., Any], tmp_path: Path) -> None:
    with flags.patch(xla_dump_to=str(tmp_path)):
        results = tf.nest.flatten(tf.function(python, jit_compile=True)(tf.ones([4, 3])))
    (record,) = functions(tmp_path)
    graph = graph_of(tmp_path, record)
    names = {node.name for node in graph.node}
    assert len(names) == len(graph.node)
    inputs = [text for node in graph.node for text in node.input]
    assert {text.removeprefix("^").partition(":")[0] for text in inputs} <= names
    assert sum(node.op == "_Arg" for node in graph.node) == 1
    assert sum(node.op == "_Retval" for node in graph.node) == len(results)
    clusters = {node.attr["_XlaCluster"].s.decode() for node in graph.node if node.op not in ("_Arg", "_Retval")}
    assert clusters == {record["name"]}
    assert record["nodes"] == sum(node.op not in ("_Arg", "_Retval") for node in graph.node)


def test_one_that_a_graph_calls_has_its_own(tmp_path: Path) -> None:
    called = tf.function(inner, jit_compile=True)

    @tf.function
    def outer(x: tf.Tensor) -> tf.Tensor:
        return called(x) * 3.0

    with flags.patch(xla_dump_to=str(tmp_path)):
        outer(tf.ones([3]))
    (record,) = (r for r in functions(tmp_path) if r.get("route") == "nested_must_compile")
    assert {node.op for node in graph_of(tmp_path, record).node} >= {"Tanh", "_Arg", "_Retval"}


def test_without_a_dump_there_is_none(tmp_path: Path) -> None:
    definition = tf.function(inner).get_concrete_function(tf.ones([3])).function_def
    assert function_graph.write(definition) == ""


def test_what_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(definition: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(function_graph, "graph", broken)
    before = counters.snapshot()["internal_errors"]
    with flags.patch(xla_dump_to=str(tmp_path)):
        result = tf.function(inner, jit_compile=True)(tf.ones([3]))
    assert float(result[0]) == pytest.approx(1.7615942)
    assert counters.snapshot()["internal_errors"] == before + 1
    assert [record["graph"] for record in functions(tmp_path)] == [""]
