"""What is known of a function's values before it runs: sizes, small whole numbers, lists of tensors.

A function is imported into a graph of its own, for arguments of which this is known; TensorFlow's shape functions and
its constant folding then tell it of all others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, function_def_to_graph, tensor_util

from .function_def import tensor_proto

_LARGEST = 64
"""Elements of the numbers that are kept: indices, sizes and shapes."""


@dataclass(frozen=True)
class Tensor:
    """`dims`: each known or None; None of unknown rank. `number`: its value, if it is whole (a truth: 0 or 1) and of
    few elements."""

    dims: tuple[int | None, ...] | None = None
    number: tuple[int, ...] | None = None

    @property
    def scalar(self) -> int | None:
        """The value of a scalar."""
        return self.number[0] if self.number is not None and self.dims == () else None


@dataclass(frozen=True)
class Variable:
    """The handle of a variable whose value has this dtype and shape."""

    dtype: int
    dims: tuple[int, ...]


@dataclass(frozen=True)
class TensorList:
    """A list of `length` (None: unknown) elements of `dtype`. `shaped`: the bridge knows the shape of its elements.
    `pushed`: it grows by what is pushed, to the bridge it is as long as it may become, `most` (None: unknown)."""

    dtype: int
    length: int | None
    shaped: bool
    pushed: bool = False
    most: int | None = None


Value = Tensor | Variable | TensorList | None
"""None: nothing is known."""


def joined(a: Value, b: Value) -> Value:
    """What holds for both."""
    if a == b:
        return a
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
            return Tensor()
        dims = tuple(x if x == y else None for x, y in zip(a.dims, b.dims))
        return Tensor(dims, a.number if a.number == b.number and a.dims == b.dims else None)
    if (
        isinstance(a, TensorList)
        and isinstance(b, TensorList)
        and (a.dtype, a.pushed, a.most) == (b.dtype, b.pushed, b.most)
    ):
        length = a.length if a.length == b.length else None
        return TensorList(a.dtype, length, a.shaped and b.shaped, a.pushed, a.most)
    return None


class Inferred:
    """A FunctionDef's values for arguments of which `args` is known; `of` tells those that are no lists.

    The import, which takes some ms a function, waits until something is asked that needs it.
    """

    def __init__(self, definition: Any, args: Sequence[Value]) -> None:
        self._definition, self._args = definition, args

    @functools.cached_property
    def _graph(self) -> tuple[tf.Graph | None, Mapping[str, str]]:
        """The graph, None where there is none, and its names of what the FunctionDef calls otherwise."""
        try:
            with context.eager_mode():
                graph_def, names = function_def_to_graph.function_def_to_graph_def(
                    self._definition, include_library_functions=True
                )
        except (ValueError, KeyError):  # it calls what the eager context lacks
            return None, {}
        for node, arg in zip(graph_def.node, self._args, strict=False):  # the first nodes are the arguments
            give(node, arg)
        return _imported(graph_def), names

    def of(self, text: str) -> Tensor:
        """The value that a FunctionDef calls `text`."""
        graph, names = self._graph
        if graph is None or text not in names:
            return Tensor()
        name, _, number = names[text].partition(":")
        tensor = graph.get_operation_by_name(name).outputs[int(number or 0)]
        if tensor.shape.rank is None:
            return Tensor()
        dims = tuple(tensor.shape.as_list())
        is_whole = tensor.dtype.is_integer or tensor.dtype.is_bool
        small = is_whole and tensor.shape.is_fully_defined() and int(np.prod(dims)) <= _LARGEST
        found = tensor_util.try_evaluate_constant(tensor) if small else None
        return Tensor(dims, None if found is None else tuple(int(n) for n in np.ravel(found)))


def of_constant(node: Any) -> Tensor:
    """What a Const node holds."""
    held = node.attr["value"].tensor
    dims = tuple(d.size for d in held.tensor_shape.dim)
    small = tf.dtypes.as_dtype(held.dtype).is_integer and int(np.prod(dims)) <= _LARGEST
    return Tensor(dims, tuple(int(n) for n in np.ravel(tensor_util.MakeNdarray(held))) if small else None)


def give(node: Any, arg: Value) -> None:
    """Tell the argument's placeholder what is known of it."""
    if isinstance(arg, Variable):  # the one source of handles that tells what is behind them
        node.op = "VarHandleOp"
        node.attr.clear()
        node.attr["dtype"].type = arg.dtype
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(arg.dims).as_proto())
    elif isinstance(arg, Tensor) and arg.number is not None:
        kind = tf.dtypes.as_dtype(node.attr["dtype"].type)
        value = np.array(arg.number, kind.as_numpy_dtype).reshape([d for d in arg.dims or () if d is not None])
        node.op = "Const"
        node.attr.clear()
        node.attr["dtype"].type = kind.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tensor_proto(value, kind.as_datatype_enum))
    elif isinstance(arg, Tensor) and arg.dims is not None:
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(arg.dims).as_proto())


def _imported(graph_def: Any) -> tf.Graph | None:
    """None where TensorFlow does not import it: what is wrong is for others to say."""
    options, graph = c_api_util.ScopedTFImportGraphDefOptions(), tf.Graph()
    try:
        with c_api_util.tf_buffer(graph_def.SerializeToString()) as data, graph._c_graph.get() as target:
            pywrap_tf_session.TF_GraphImportGraphDefWithResults(target, data, options.options)
    except (tf.errors.OpError, ValueError):
        return None
    graph._add_new_tf_operations(compute_devices=False)  # noqa: SLF001 - TensorFlow has no other way
    return graph
