"""Clusters of drawn graphs, with constants, control edges and shapes in every place: calls never make a cycle."""

from __future__ import annotations

import random

import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from tests.tf.calls import CallProgram
from tfxla_cluster.tf.clustering import copied_constants
from tfxla_cluster.tf.clustering.encapsulate import encapsulate
from tfxla_cluster.tf.clustering.mark_for_compilation import CLUSTERED_ATTR, Options, find_clusters
from tfxla_cluster.tf.clustering.support import Checker
from tfxla_cluster.tf.graph.acyclic import is_acyclic
from tfxla_cluster.tf.graph.view import Graph

INPUTS = {
    "Placeholder": 0,
    "Const": 0,
    "NoOp": 0,
    "Identity": 1,
    "Neg": 1,
    "AddV2": 2,
    "Mul": 2,
    "StringLength": 1,
    "Shape": 1,
    "Fill": 2,
}
"""StringLength stands for ops that are never clustered."""


def add(graph: graph_pb2.GraphDef, op: str, name: str, inputs: list[str]) -> None:
    node = graph.node.add(name=name, op=op, input=inputs)
    if op in ("Placeholder", "Const"):
        node.attr["dtype"].type = types_pb2.DT_FLOAT
    elif op not in ("NoOp", "StringLength"):
        node.attr["T"].type = types_pb2.DT_FLOAT
    if op == "Const":
        node.attr["value"].tensor.dtype = types_pb2.DT_FLOAT


def drawn(seed: int) -> graph_pb2.GraphDef:
    """A graph of some 40 nodes; every kind of node may wait for any earlier one."""
    draw = random.Random(seed)
    graph = graph_pb2.GraphDef()
    add(graph, "Placeholder", "start", [])
    data, names = ["start"], ["start"]
    for k in range(draw.randint(5, 60)):
        op = draw.choice(list(INPUTS))
        inputs = [draw.choice(data[-8:]) for _ in range(INPUTS[op])]
        some = draw.randint(1, 3) if op == "NoOp" else draw.choice([0, 0, 1])
        inputs += [f"^{name}" for name in dict.fromkeys(draw.choices(names[-8:], k=some))]
        add(graph, op, f"{op}_{k}", inputs)
        names.append(f"{op}_{k}")
        data += [names[-1]] * (op != "NoOp")
    return graph


def clustered(graph_def: graph_pb2.GraphDef) -> tuple[graph_pb2.GraphDef, int]:
    graph = Graph.of_graph_def(graph_def)
    found = find_clusters(graph, Checker({}), Options(min_size=1))
    result, functions = encapsulate(graph_def, graph, found, lambda f: CallProgram(f, True))
    return result, len(functions)


@pytest.mark.parametrize("first", range(0, 1000, 100))
@pytest.mark.parametrize("limit", [copied_constants.MAX_CONSTANT_BYTES, 0])
def test_calls_make_no_cycle(first: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_constants, "MAX_CONSTANT_BYTES", limit)
    made = 0
    for seed in range(first, first + 100):
        graph = drawn(seed)
        result, count = clustered(graph)
        assert is_acyclic(result), seed
        made += count
    assert made > 100


def test_an_order_through_a_constant_is_kept_inside() -> None:
    """As lowered loops have it: a body's constants wait for a NoOp that waits for the body's condition."""
    graph = graph_pb2.GraphDef()
    add(graph, "Placeholder", "x", [])
    add(graph, "Neg", "pivot", ["x"])
    add(graph, "NoOp", "body", ["^pivot"])
    add(graph, "Const", "one", ["^body"])
    add(graph, "AddV2", "sum", ["pivot", "one"])
    add(graph, "Neg", "result", ["sum"])
    add(graph, "StringLength", "end", ["result"])
    result, count = clustered(graph)
    assert count == 1
    assert is_acyclic(result)
    assert {node.name for node in result.node if CLUSTERED_ATTR not in node.attr} >= {"x", "end"}
    assert not {"pivot", "sum", "result"} & {node.name for node in result.node}
