"""Edited copies of FunctionDefs for lowering: arguments turned into constants, arguments reordered."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.eager import context

_numbers = itertools.count()
_thread = threading.local()


def fresh_name(base: str) -> str:
    """A function name no one else uses in this process."""
    return f"__tfxla_{next(_numbers)}_{base}"[:200]


def library(name: str) -> Any:
    """The FunctionDef of that name in the eager context, or None. It may be `remembered`: not to be changed."""
    known: dict[str, Any] | None = getattr(_thread, "known", None)
    if known is None:
        return _fetched(name)
    if name not in known:
        known[name] = _fetched(name)
    return known[name]


def exists(name: str) -> bool:
    """Is a function of that name in the eager context?"""
    return bool(context.context().has_function(name.encode()))


def _fetched(name: str) -> Any:
    return context.context().get_function_def(name) if exists(name) else None


@contextmanager
def remembered() -> Iterator[None]:
    """In this block, on this thread, `library` fetches each function once, which takes TensorFlow a copy and a parse.
    Functions that exist stay, and no name is used twice (`fresh_name`); what is `register`ed is known."""
    outer = getattr(_thread, "known", None)
    _thread.known = {} if outer is None else outer
    try:
        yield
    finally:
        _thread.known = outer


def register(definition: Any) -> None:
    """Add a FunctionDef to the eager context; it may not be changed any more."""
    context.context().add_function_def(definition)
    known = getattr(_thread, "known", None)
    if known is not None:
        known[definition.signature.name] = definition


def remove(name: str) -> None:
    """Take a function of ours out of the eager context again."""
    known = getattr(_thread, "known", None)
    if known is not None:
        known.pop(name, None)
    context.context().remove_function(name.encode())


def specialise(
    function: Any, values: Mapping[int, np.ndarray], order: Sequence[int], resource_dtypes: Mapping[int, int]
) -> Any:
    """A copy whose arguments are those numbered by `order`, in that order; the others hold `values`.

    function: FunctionDef. values: argument -> its value. A resource argument (named in `resource_dtypes` with
    its element type) stays an argument: its value is assigned before anything else of the function runs.
    """
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = fresh_name(function.signature.name)
    args = list(function.signature.input_arg)
    _reorder(copy, function, order)
    renamed: dict[str, str] = {}
    for i, value in values.items():
        name = args[i].name
        if i in resource_dtypes:
            renamed.update(_known_variable(copy, name, value, resource_dtypes[i]))
        else:
            renamed[name] = f"{name}:output:0"
            copy.node_def.append(_const(name, value, args[i].type))
    _rename(copy, renamed)
    return copy


def _reorder(copy: Any, function: Any, order: Sequence[int]) -> None:
    del copy.signature.input_arg[:]
    copy.signature.input_arg.extend(function.signature.input_arg[i] for i in order)
    copy.arg_attr.clear()
    copy.resource_arg_unique_id.clear()
    for new, old in enumerate(order):
        if old in function.arg_attr:
            copy.arg_attr[new].CopyFrom(function.arg_attr[old])
        if old in function.resource_arg_unique_id:
            copy.resource_arg_unique_id[new] = function.resource_arg_unique_id[old]


def _rename(copy: Any, renamed: Mapping[str, str]) -> None:
    """Replace references to arguments by references to nodes, in node inputs and results."""
    if not renamed:
        return
    for node in copy.node_def:
        for k, source in enumerate(node.input):
            if source in renamed:
                node.input[k] = renamed[source]
    for key, source in list(copy.ret.items()):
        if source in renamed:
            copy.ret[key] = renamed[source]


def tensor_proto(value: np.ndarray, dtype: int) -> Any:
    """A TensorProto of numbers of any type: TensorFlow's own function knows no float8_e4m3fnuz and the like."""
    kind = tf.dtypes.as_dtype(dtype)
    elements = np.ascontiguousarray(value, kind.as_numpy_dtype)
    shape = tf.TensorShape(np.shape(value)).as_proto()
    return tensor_pb2.TensorProto(dtype=dtype, tensor_shape=shape, tensor_content=elements.tobytes())


def _const(name: str, value: np.ndarray, dtype: int) -> Any:
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(tensor_proto(value, dtype))
    return node


def _known_variable(copy: Any, name: str, value: np.ndarray, dtype: int) -> dict[str, str]:
    """Give the variable behind resource argument `name` a value known while lowering; references to rename.

    It is assigned first where more than this function's own reads take it: it then counts as written."""
    users = [n for n in copy.node_def if name in n.input]
    constant = _const(f"{name}/tfxla_value", value, dtype)
    copy.node_def.append(constant)
    if all(n.op == "ReadVariableOp" for n in users):
        return {f"{n.name}:value:0": f"{constant.name}:output:0" for n in users}
    assign = tf.compat.v1.NodeDef(
        name=f"{name}/tfxla_assign", op="AssignVariableOp", input=[name, f"{constant.name}:output:0"]
    )
    assign.attr["dtype"].type = dtype
    for node in users:
        node.input.append(f"^{assign.name}")
    copy.node_def.append(assign)
    copy.signature.control_output.append(assign.name)
    copy.control_ret[assign.name] = assign.name
    return {}
