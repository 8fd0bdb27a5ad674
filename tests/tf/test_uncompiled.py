"""Which must-compile functions are left to TensorFlow's ops, and the copy that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfxla_cluster.tf.must_compile import uncompiled


def traced(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[str], Any]]:
    """The FunctionDef of `function`, and the library that it is looked up in."""
    concrete = tf.function(function).get_concrete_function(*args)
    graph = concrete.graph.as_graph_def()
    definition = concrete.function_def
    known = {definition.signature.name: definition, **{f.signature.name: f for f in graph.library.function}}
    return definition, known.get


@pytest.mark.parametrize("op", [tf.unique, tf.where, tf.random.shuffle])
def test_unsafe_in_stock(op: Callable[..., Any]) -> None:
    assert uncompiled.is_unsafe_in_stock(*traced(lambda x: op(x)[0], tf.ones([3])))


def test_unsafe_where_a_called_function_is() -> None:
    inner = tf.function(lambda x: tf.unique(x).y)
    assert uncompiled.is_unsafe_in_stock(*traced(lambda x: inner(x) + 1.0, tf.ones([3])))


def test_plain_work_is_safe() -> None:
    assert not uncompiled.is_unsafe_in_stock(*traced(lambda x: tf.tanh(x) + 1.0, tf.ones([3])))


def test_variants_of_a_border() -> None:
    def starts(x: tf.Tensor) -> Any:
        return tf.raw_ops.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=tf.float32)

    assert uncompiled.has_variants(traced(starts, tf.ones([2]))[0])
    assert not uncompiled.has_variants(traced(tf.tanh, tf.ones([2]))[0])


def test_a_copy_is_another_function_that_is_not_must_compile() -> None:
    definition, _ = traced(tf.tanh, tf.ones([2]))
    definition.attr[uncompiled.MUST_COMPILE].b = True
    copy = uncompiled.copy(definition)
    assert uncompiled.MUST_COMPILE not in copy.attr
    assert uncompiled.MUST_COMPILE in definition.attr
    assert copy.signature.name != definition.signature.name
    assert list(copy.node_def) == list(definition.node_def)
