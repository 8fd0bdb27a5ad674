"""Which functions a node calls, and which a function reaches."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tfxla_cluster.tf2xla import function_calls


def node(op: str, **functions: str | list[str]) -> tf.compat.v1.NodeDef:
    made = tf.compat.v1.NodeDef(name="n", op=op)
    made.attr["T"].type = 1
    for name, value in functions.items():
        if isinstance(value, str):
            made.attr[name].func.name = value
        else:
            for one in value:
                made.attr[name].list.func.add(name=one)
    return made


def library(**bodies: list[tf.compat.v1.NodeDef]) -> function_calls.Library:
    made = {}
    for name, nodes in bodies.items():
        made[name] = function_pb2.FunctionDef(node_def=nodes)
        made[name].signature.name = name
    return made.get


def test_a_condition_comes_before_its_body_and_branches_in_order() -> None:
    assert function_calls.in_attributes(node("While", body="b", cond="c")) == ["c", "b"]
    assert function_calls.in_attributes(node("If", else_branch="no", then_branch="yes")) == ["yes", "no"]
    assert function_calls.in_attributes(node("Case", branches=["z", "a"])) == ["z", "a"]
    assert function_calls.in_attributes(node("MapDataset", other="o", f="f")) == ["f", "o"]
    assert function_calls.in_attributes(node("Tanh")) == []


def test_an_op_may_be_a_function() -> None:
    functions = library(Mine=[])
    assert function_calls.called(node("Mine"), functions) == ["Mine"]
    assert function_calls.called(node("Tanh"), functions) == []


def test_only_some_ops_pass_their_inputs_on() -> None:
    functions = library(Mine=[], c=[], b=[])
    assert [f.signature.name for f in function_calls.passing(node("While", cond="c", body="b"), functions)] == [
        "c",
        "b",
    ]
    assert [f.signature.name for f in function_calls.passing(node("Mine"), functions)] == ["Mine"]
    assert function_calls.passing(node("ReduceDataset", f="c"), functions) == []
    assert function_calls.passing(node("PartitionedCall", f="elsewhere"), functions) == []


def test_each_reached_function_comes_once_outer_first() -> None:
    functions = library(
        outer=[node("While", cond="c", body="b"), node("Mine")],
        c=[node("Tanh")],
        b=[node("PartitionedCall", f="outer"), node("PartitionedCall", f="inner")],
        Mine=[node("PartitionedCall", f="inner")],
        inner=[],
    )
    names = [f.signature.name for f in function_calls.reachable(["outer", "missing", "outer"], functions)]
    assert names == ["outer", "c", "b", "Mine", "inner"]
