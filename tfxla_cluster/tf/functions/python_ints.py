"""Python integers as sizes (--tfxla_dynamic_python_ints).

TensorFlow traces a function for each value of a Python integer; the value stands in the literals and shapes of the
trace. For each integer the trace takes an empty tensor of as many rows, which nothing reads: what follows the integer
then follows a size, and traces of several values are made one module, proven at each value, as those of several sizes
are. What Python reads of the integer is never wrong: each value has its own trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import func_graph as func_graphs

from ...ir.dim import LEAST_GENERIC

KIND = "Python integer"
"""Of such an argument, for messages."""
_ATTR = "_tfxla_python_int"
_MOST = 2**31 - 1  # of any size


def offer(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Give the trace of a call of `function` that is under way an empty tensor for each integer among the arguments.
    Values below LEAST_GENERIC and beyond 32 bits have none: each has an executable of its own."""
    graph = tf.compat.v1.get_default_graph()
    if not isinstance(graph, func_graphs.FuncGraph):
        return []
    offered = []
    for name, value in _integers(function, args, kwargs):
        if LEAST_GENERIC <= value <= _MOST:
            with tf.init_scope():
                rows = tf.zeros([value, 0], tf.bool)  # has no gradient
            # `capture` would make a constant of so small a tensor.
            argument = graph._function_captures._create_placeholder_helper(graph, rows, name)
            argument.op._set_attr(_ATTR, attr_value_pb2.AttrValue(b=True))
            offered.append(argument)
    return offered


def _integers(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, int]]:
    """Name of the parameter and value of each; of those in lists, tuples and dicts too."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        yield from ((name, leaf) for leaf in tf.nest.flatten(value) if type(leaf) is int)


def is_one(argument: Any) -> bool:
    """Does an argument of a trace stand for a Python integer?"""
    return _ATTR in argument.op.node_def.attr


def of_definition(definition: Any) -> frozenset[int]:
    """The arguments of a FunctionDef that stand for Python integers."""
    return frozenset(number for number, attrs in definition.arg_attr.items() if _ATTR in attrs.attr)
