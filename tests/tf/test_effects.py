"""Effects moved behind the pure work that waits for them: graphs by hand."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.rewrites.effects import defer


def graph(text: str) -> graph_pb2.GraphDef:
    """A line a node: `name op input...`."""
    made = graph_pb2.GraphDef()
    for line in text.strip().splitlines():
        name, op, *inputs = line.split()
        made.node.add(name=name, op=op, input=inputs)
    return made


def deferred(text: str, preserve: set[str], limit: int | None = None) -> dict[str, list[str]]:
    """name -> inputs after the rewrite; Tanh and Neg are pure."""
    before = graph(text)
    after = defer(ViewedGraph(before), lambda node: node.op in ("Tanh", "Neg"), preserve, limit)
    assert before == graph(text), "the graph given is left as it was"
    return {node.name: list(node.input) for node in after.node}


ASSERTED = """
x Placeholder
check Assert x
a Tanh x ^check
b Neg a
out Identity b
"""


def test_what_is_visible_waits_in_place_of_pure_work() -> None:
    found = deferred(ASSERTED, {"out"})
    assert found["a"] == ["x"]
    assert found["b"] == ["a"]
    assert found["out"] == ["b", "^check"]


def test_a_check_of_a_value_is_taken_out_of_the_way() -> None:
    found = deferred("x Placeholder\nchecked CheckNumerics x\na Tanh checked\nout Identity a", {"out"})
    assert found["a"] == ["x"]
    assert found["out"] == ["a", "^checked"]


def test_an_effect_that_nothing_visible_would_wait_for_stays() -> None:
    text = "x Placeholder\ncheck Assert x\na Tanh x ^check\nb Neg a"
    assert deferred(text, set())["a"] == ["x", "^check"]


def test_a_preserved_node_is_not_pure() -> None:
    assert deferred(ASSERTED, {"a"})["a"] == ["x", "^check"]


def test_no_work_left_to_walk_changes_nothing() -> None:
    assert deferred(ASSERTED, {"out"}, limit=0)["a"] == ["x", "^check"]


def test_the_same_object_where_nothing_waits() -> None:
    made = graph("x Placeholder\na Tanh x")
    assert defer(ViewedGraph(made), lambda node: True, ()) is made


def test_a_traced_assertion_is_out_of_the_way_of_pure_work() -> None:
    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_positive(x, message="must be positive")
        return -tf.tanh(x)

    definition = f.get_concrete_function(tf.ones([2])).graph.as_graph_def()
    names = {node.name for node in definition.node if node.op == "Identity"}
    after = defer(ViewedGraph(definition), lambda node: node.op in ("Tanh", "Neg"), names)
    tanh = next(node for node in after.node if node.op == "Tanh")
    assert not [i for i in tanh.input if i.startswith("^")]
