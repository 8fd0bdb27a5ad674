"""Milliseconds that TensorFlow's bridge takes for a node of each op: `python -m tests.tf2xla.op_costs`.

Of the ops that the rows of `tests/tf/ops_table` hold, on processor time: one node, and five of them, in a function of
their own. Prints those of half a millisecond and more; `!`: it is not what `repeated_ops.SLOW` says.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry, tensor_util

from tests.tf.ops_table import ROWS
from tfxla_cluster.tf2xla.function_def import fresh_name, library, register, remove
from tfxla_cluster.tf2xla.must_be_constant import required_inputs
from tfxla_cluster.tf2xla.repeated_ops import SLOW

_MORE = 4
_SKIPPED = ("Const", "Placeholder", "NoOp", "Identity")
_PRINTED = 0.5
_SLOW = 1.0


def milliseconds(op: Any) -> float | None:
    """Of one more node like an operation of a graph; None where it cannot be lowered alone."""
    alone, several = _seconds(op, 1), _seconds(op, 1 + _MORE)
    return None if alone is None or several is None else 1e3 * (several - alone) / _MORE


def _seconds(op: Any, copies: int) -> float | None:
    """The least of three."""
    made = _function(op, copies)
    if made is None:
        return None
    function, specs = made
    register(function)
    try:
        return min(_lowered(function.signature.name, specs) for _ in range(3))
    except (ValueError, RuntimeError, tf.errors.OpError):
        return None
    finally:
        remove(function.signature.name)


def _lowered(name: str, specs: list[tf.TensorSpec]) -> float:
    ctx = context.context()
    ctx.ensure_initialized()
    start = time.process_time()
    ctx.get_compiler_ir("CPU:0", None, name.encode(), specs, [], "hlo_serialized")
    return time.process_time() - start


def _function(op: Any, copies: int) -> tuple[Any, list[tf.TensorSpec]] | None:
    """`copies` of a node, and what it takes: constants where these have to be known."""
    function, specs, names = function_pb2.FunctionDef(), [], []
    function.signature.name = fresh_name("cost")
    required = required_inputs(op.node_def, library)
    for number, tensor in enumerate(op.inputs):
        value = tensor_util.constant_value(tensor) if number in required or tensor.op.type == "Const" else None
        if value is not None:
            node = function.node_def.add(name=f"c{number}", op="Const")
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype=tensor.dtype))
            names.append(f"c{number}:output:0")
        elif number in required or not tensor.shape.is_fully_defined():
            return None
        else:
            function.signature.input_arg.add(name=f"x{number}", type=tensor.dtype.as_datatype_enum)
            specs.append(tf.TensorSpec(tensor.shape, tensor.dtype))
            names.append(f"x{number}")
    _add_nodes(function, op, names, copies)
    return function, specs


def _add_nodes(function: Any, op: Any, inputs: list[str], copies: int) -> None:
    output = op_def_registry.get(op.type).output_arg[0].name
    for number in range(copies):
        node = function.node_def.add(name=f"n{number}", op=op.type, input=inputs)
        for name, value in op.node_def.attr.items():
            if not name.startswith("_"):
                node.attr[name].CopyFrom(value)
        function.signature.output_arg.add(name=f"r{number}", type=op.outputs[0].dtype.as_datatype_enum)
        function.ret[f"r{number}"] = f"n{number}:{output}:0"


def measured() -> dict[tuple[str, str], float | None]:
    """(op, dtype of its result) -> milliseconds of a node."""
    found: dict[tuple[str, str], float | None] = {}
    for row in ROWS:
        for dtype in row.dtypes:
            graph = tf.function(row.fn, autograph=False).get_concrete_function(*row.make(dtype)).graph
            for op in graph.get_operations():
                key = (op.type, op.outputs[0].dtype.name) if op.outputs else ("NoOp", "")
                if op.type not in _SKIPPED and key not in found and op_def_registry.get(op.type) is not None:
                    found[key] = milliseconds(op)
    return found


if __name__ == "__main__":
    for (name, kind), cost in sorted(measured().items(), key=lambda row: -(row[1] or 0)):
        if cost is not None and cost >= _PRINTED:
            print(f"{'!' if (name in SLOW) != (cost >= _SLOW) else ' '} {name} {kind}: {cost:.1f}")
