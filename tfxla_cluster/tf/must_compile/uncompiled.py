"""Must-compile functions that neither this package nor stock XLA compiles rightly: their ops run uncompiled.

Sizes that depend on data (stock XLA then gives wrong answers or ends the process), shuffles (stock XLA does not
compile those of floats), tensor lists (tf2xla/list_checks says what stock XLA makes of them), and those that cross the
function's border (the forward part of a loop under an eager tape; stock XLA refuses it).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels

from ... import user_kernels
from ...tf2xla import function_calls
from ...tf2xla.function_calls import Library
from ...tf2xla.function_def import fresh_name
from ..rewrites.produced_taint import SIZED_BY_DATA

MUST_COMPILE = "_XlaMustCompile"
VARIANT = tf.variant.as_datatype_enum
_CALL = "XlaCustomCallV2"
UNSAFE_IN_STOCK = SIZED_BY_DATA | {"RandomShuffle", "TensorListReserve", "EmptyTensorList", "TensorListFromTensor"}


def has_variants(definition: Any) -> bool:
    """A tensor list (or another variant) is an argument or a result."""
    signature = definition.signature
    return any(arg.type == VARIANT for arg in (*signature.input_arg, *signature.output_arg))


def is_unsafe_in_stock(definition: Any, library: Library, suspected: bool = False) -> bool:
    """Stock XLA may get the function wrong (by its ops, or `suspected` so), and every op can run uncompiled."""
    ops = _ops(definition, library)
    return (suspected or bool(ops & UNSAFE_IN_STOCK)) and all(_runs_on_cpu(op) for op in ops)


def has_user_kernels(definition: Any, library: Library) -> bool:
    """The function launches a user's Triton kernel: nothing else can stand in for what this package makes of it."""
    functions = function_calls.reachable([definition.signature.name], library)
    target = user_kernels.TARGET.encode()
    return any(node.attr["call_target_name"].s == target for f in functions for node in f.node_def if node.op == _CALL)


def _ops(definition: Any, library: Library) -> set[str]:
    """Op types of the function and of those it calls."""
    functions = function_calls.reachable([definition.signature.name], library)
    return {node.op for function in functions for node in function.node_def if library(node.op) is None}


def _runs_on_cpu(op: str) -> bool:
    return any(k.device_type in ("CPU", "DEFAULT") for k in kernels.get_registered_kernels_for_op(op).kernel)


def copy(definition: Any) -> Any:
    """The function under a fresh name, not must-compile."""
    new = type(definition)()
    new.CopyFrom(definition)
    new.signature.name = fresh_name(f"plain_{definition.signature.name}")
    if MUST_COMPILE in new.attr:
        del new.attr[MUST_COMPILE]
    return new


def shapes(tensors: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """The dims of each eager tensor."""
    return tuple(tuple(tensor.shape) for tensor in tensors)
