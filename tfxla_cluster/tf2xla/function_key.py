"""What tells one function from another as far as its lowering goes, the same in every process: a key that needs no
lowering.

All that the bridge can read takes part: ops, attributes, constants, seeds, devices, edges, their order, functions that
are called and what those call, and TensorFlow's own settings. What does not: names that TensorFlow draws anew for each
trace. Functions are numbered as they are met, arguments and results by their place; names of nodes are the same in each
trace, and stand in the lowered module.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.eager import context
from tensorflow.python.framework import config

from ..decision import YES, Decision, no
from . import function_calls
from .function_calls import Library

RULE = "function-key"
# Attributes with names drawn anew, for TensorFlow's gradients, layers and Python: nothing in the bridge reads them.
_UNREAD = frozenset(
    (
        *("_gradient_op_type", "forward_function_name", "backward_function_name"),
        *("_user_specified_name", "api_implements", "api_preferred_device"),
    )
)
_XLA_VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")
# Variables of TensorFlow's that its kernels of the bridge read.
_VARIABLES = ("TF_DETERMINISTIC_OPS", "NVIDIA_TF32_OVERRIDE")
_PLACES = re.compile(r"--(xla_dump_|tf_xla_persistent_cache_)")  # where something is written, not what is computed


def keepable(functions: Iterable[Any], library: Library) -> Decision:
    """May what these FunctionDefs lower to be kept by a digest of them? No for what that does not tell: ops of other
    libraries, whose code may change under their names, and gradients that the runtime looks up."""
    for definition in functions:
        for node in definition.node_def:
            if node.op == "SymbolicGradient":
                return no(RULE, f"{node.name} is a gradient that TensorFlow looks up")
            stock = node.op.startswith("_") or hasattr(tf.raw_ops, node.op) or hasattr(gen_xla_ops, node.op)
            if not stock and library(node.op) is None:
                return no(RULE, f"{node.op} is not an op of TensorFlow's own")
    return YES


def settings() -> Mapping[str, str]:
    """What lowering reads besides the function, by name."""
    asked = context.context().config
    flags = [w for name in _XLA_VARIABLES for w in sorted(os.environ.get(name, "").split()) if not _PLACES.match(w)]
    return {
        "tensorflow": f"{tf.version.VERSION} {tf.version.GIT_VERSION}",
        "tf32": str(config.tensor_float_32_execution_enabled()),
        "deterministic": str(config.is_op_determinism_enabled()),
        "graph_options": asked.graph_options.SerializeToString(deterministic=True).hex(),
        "mlir": str(asked.experimental.mlir_bridge_rollout),
        "flags": " ".join([*flags, *(f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)]),
    }


def digest(functions: Iterable[Any]) -> str:
    """Of FunctionDefs, that which is lowered first and then all that it reaches (`function_calls.reachable`)."""
    found = list(functions)
    numbers = {definition.signature.name: k for k, definition in enumerate(found)}
    text = hashlib.sha256()
    for definition in found:
        for part in _function(definition, numbers):
            text.update(len(part).to_bytes(8, "little"))
            text.update(part)
    return text.hexdigest()


def _function(definition: Any, numbers: Mapping[str, int]) -> Iterator[bytes]:
    """The parts of a FunctionDef; before each run of parts how many there are, so that none is read as another."""
    signature = definition.signature
    args = {arg.name: f"\0{k}" for k, arg in enumerate(signature.input_arg)}
    yield _number(len(signature.input_arg), len(signature.output_arg), len(definition.node_def), signature.is_stateful)
    for k, arg in enumerate(signature.input_arg):
        yield _nameless(arg)
        yield from _attributes(definition.arg_attr[k].attr if k in definition.arg_attr else {}, numbers)
    for out in signature.output_arg:
        yield _nameless(out)
        yield _renamed(definition.ret[out.name], args)
    for node in definition.node_def:
        yield from _node(node, args, numbers)
    effects = [definition.control_ret[name] for name in signature.control_output]
    yield from (_number(len(effects)), *(name.encode() for name in effects))
    yield from _attributes(definition.attr, numbers)
    yield _aliases(definition)


def _node(node: Any, args: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[bytes]:
    """Its bytes, where nothing in them is named anew in each trace, as in nearly all; else its parts."""
    if _is_plain(node, args, numbers):
        yield from (b"whole", node.SerializeToString(deterministic=True))
        return
    yield from (b"parts", node.name.encode())
    yield _called(node.op, numbers)
    yield node.device.encode()
    yield _number(len(node.input))
    yield from (_renamed(text, args) for text in node.input)
    yield from _attributes(node.attr, numbers)


def _is_plain(node: Any, args: Mapping[str, str], numbers: Mapping[str, int]) -> bool:
    """It takes no arguments, calls nothing, and has the attributes of its op alone."""
    if node.op in numbers or node.HasField("experimental_debug_info") or node.HasField("experimental_type"):
        return False
    plain = function_calls.plain_attributes(node.op)
    takes = any(text.partition(":")[0] in args for text in node.input)
    return not takes and all(name in plain for name in node.attr)


def _attributes(attrs: Mapping[str, Any], numbers: Mapping[str, int]) -> Iterator[bytes]:
    names = sorted(name for name in attrs if name not in _UNREAD)
    yield _number(len(names))
    for name in names:
        yield name.encode()
        yield from _value(attrs[name], numbers)


def _value(value: Any, numbers: Mapping[str, int]) -> Iterator[bytes]:
    called = function_calls.functions(value)
    if not called:
        yield value.SerializeToString(deterministic=True)
        return
    yield _number(-1, len(called))
    for function in called:
        yield _called(function.name, numbers)
        yield from _attributes(function.attr, numbers)


def _called(name: str, numbers: Mapping[str, int]) -> bytes:
    """An op, or the number of the function that is one."""
    return f"\0{numbers[name]}".encode() if name in numbers else name.encode()


def _renamed(text: str, args: Mapping[str, str]) -> bytes:
    """`text` names an argument, perhaps with which of its tensors, or the result of a node."""
    name, colon, number = text.partition(":")
    return f"{args.get(name, name)}{colon}{number}".encode()


def _nameless(arg: Any) -> bytes:
    copy = type(arg)()
    copy.CopyFrom(arg)
    copy.ClearField("name")
    copy.ClearField("description")
    return bytes(copy.SerializeToString(deterministic=True))


def _aliases(definition: Any) -> bytes:
    """Which arguments are one variable; the numbers of variables are drawn anew."""
    groups: dict[int, list[int]] = {}
    for arg, number in sorted(definition.resource_arg_unique_id.items()):
        groups.setdefault(number, []).append(arg)
    return repr(sorted(groups.values())).encode()


def _number(*values: int) -> bytes:
    return repr([int(value) for value in values]).encode()
