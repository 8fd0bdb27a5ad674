"""What loops and calls only hand on is taken from where it comes from."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfxla_cluster.errors import LoweringError
from tfxla_cluster.tf2xla import function_calls, function_tree, passed_values
from tfxla_cluster.tf2xla.function_def import library


def _inputs(function: Any, *specs: Any) -> dict[str, list[str]]:
    """The data inputs of each loop and call of `function` after the rewriting, by the node's name."""
    name = function.get_concrete_function(*specs).function_def.signature.name
    with function_tree.rewritten(name, passed_values.forwarded()) as copy:
        definition = library(copy)
        result = list(definition.ret.values())
    nodes = [n for n in definition.node_def if n.op in (*function_calls.LOOPS, *function_calls.CALLS)]
    return {n.name: [text for text in n.input if text[0] != "^"] for n in nodes} | {"": result}


def _loop(p: Any, c: Any, name: str) -> Any:
    return tf.while_loop(lambda p, c: p < 12.0, lambda p, c: (p + 1.0, tf.identity(c)), (p, c), name=name)


def test_an_output_that_the_body_returns_is_the_input() -> None:
    @tf.function
    def f(p: Any, c: Any) -> Any:
        return _loop(*_loop(p, c, "one"), "two")

    inputs = _inputs(f, tf.TensorSpec([]), tf.TensorSpec([], tf.int32))
    assert inputs["one"][-2:] == ["p", "c"]
    assert inputs["two"][-2:] == ["one:output:2", "c"]


def test_values_that_change_places_stay() -> None:
    @tf.function
    def f(a: Any, b: Any) -> Any:
        one = tf.while_loop(lambda a, b: a < b, lambda a, b: (b, a), (a, b), name="one")
        return tf.while_loop(lambda a, b: a < b, lambda a, b: (b, a), one, name="two")

    inputs = _inputs(f, tf.TensorSpec([]), tf.TensorSpec([]))
    assert inputs["two"][-2:] == ["one:output:2", "one:output:3"]


def test_through_calls_and_inner_loops() -> None:
    @tf.function
    def called(p: Any, c: Any) -> Any:
        return _loop(p, c, "inner")

    @tf.function
    def f(p: Any, c: Any) -> Any:
        p, c = tf.while_loop(lambda p, c: p < 20.0, called, (p, c), name="outer")
        return called(p, c)

    inputs = _inputs(f, tf.TensorSpec([]), tf.TensorSpec([], tf.int32))
    call = next(name for name in inputs if "Partitioned" in name)
    assert inputs[call][:2] == ["outer:output:2", "c"]
    assert any(":output:" in text for text in inputs[""])


def test_nothing_to_do_makes_no_copy() -> None:
    name = tf.function(lambda x: tf.sin(tf.identity(x))).get_concrete_function(tf.TensorSpec([2])).name
    with function_tree.rewritten(name.decode(), passed_values.forwarded()) as copy:
        assert copy == name.decode()


def test_only_the_bridge_s_lost_copies_are_meant() -> None:
    def error(text: str) -> LoweringError:
        found = LoweringError("")
        found.__cause__ = ValueError(text)
        return found

    assert passed_values.refused(error("Propagate: Cannot find body function b_1_const_0 for While node w"))
    assert passed_values.refused(error("Cannot find function then_2_const_11 for node if"))
    assert not passed_values.refused(error("Cannot find function then_2 for node if"))
