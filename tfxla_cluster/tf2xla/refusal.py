"""The bridge's refusals, read: which op and node, where in the user's program, why, and a way out."""

from __future__ import annotations

import re
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from ..errors import LoweringError, NoConstantError
from . import sources

_UNSUPPORTED = re.compile(
    r"No registered '(\w+)' OpKernel for \w+ devices compatible with node "
    r"(?:\{\{function_node ([^}]+)\}\})?\{\{node ([^}]+)\}\}"
)
_ATTRIBUTES = re.compile(r"Requested Attributes: ([^)]*)\)")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_CONSTANT = re.compile(r"Input (\d+) to node `([^`]+)` with op (\w+) must be a compile-time constant")
_CONSTANT_WORDS = "compile-time constant"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_DEFINED = re.compile(r" \(defined @ [^)]*\)")
_GRAPH = re.compile(r"trying to compile graph (\S+?)\[")

_PRINT = "Move tf.print outside the compiled function"
_STRINGS = "Keep strings outside the compiled function: it computes with numbers only"
_WAYS_OUT = (
    (
        "(Eager)?PyFunc(Stateless)?",
        "Call the Python code outside the compiled function, or write it with TensorFlow ops",
    ),
    ("Print(V2)?", _PRINT),
    (".*LookupTable.*|.*HashTable.*", "Use the table outside the compiled function"),
    (".*Dataset.*|.*Iterator.*", "Iterate over the data set outside the compiled function"),
    (".*Queue.*", "Use the queue outside the compiled function"),
    (".*Summary.*", "Write summaries outside the compiled function"),
    (
        "(Read|Write)File|MatchingFiles|(Decode|Encode).*|ExtractJpegShape|Parse.*|Save.*|Restore.*",
        "Read, write and decode files and records outside the compiled function",
    ),
    ("UniqueWithCounts(V2)?", "Use tf.unique and count with tf.math.unsorted_segment_sum"),
    (".*Sparse.*", "Make sparse tensors dense outside the compiled function (tf.sparse.to_dense)"),
    ("Ragged.*", "Make ragged tensors dense outside the compiled function (their method to_tensor)"),
)
"""(pattern of ops, what a user can write instead), the first that matches; ops on strings besides: `_STRINGS`."""
_ITS_SIZE = "whose size is known only after it ran"
_OUR_WORDS = (
    ("XLA has not implemented dynamic sized slice", f"it takes steps along a dimension {_ITS_SIZE}"),
    ("SplitV? op does(n't| not) (yet )?support", f"it splits a dimension {_ITS_SIZE}"),
    ("Dynamic reshape is not implemented", f"it reshapes an array {_ITS_SIZE}"),
    ("Reading input as constant from a dynamic tensor", f"compiling needs the value of an array {_ITS_SIZE}"),
    ("this TF operation has dynamic output dimensions", f"its branches give arrays of different shapes, {_ITS_SIZE}"),
)
"""(pattern of the bridge's reason, ours) of what it refuses of sizes that the run produces."""
_SIZE_WAY_OUT = "Do that outside of the compiled function, or keep all elements there with a mask"
_REPORT = re.compile(r"\.? Please file a bug[^.]*")
_SHAPE_WAY_OUT = "Compute the shape from Python numbers or from static shapes; a loop or a random op cannot give it"
_VARIANTS = "Pass no tensor list, data set or other variant into the compiled function or out of it"
_DEFAULT_WAY_OUT = "Move that op out of the function, or drop jit_compile=True (the rest is then clustered)"


def node_in(text: str) -> str:
    """The first node that a message of TensorFlow names, '' where none."""
    return next(iter(_NODE.findall(text)), "")


def explain(text: str, lowered_name: str, definition: Any) -> LoweringError:
    """The error of the bridge as one that names op, node, user line, reason and remedy.

    text: the bridge's message. lowered_name: the function it lowered (a copy has no stack traces).
    definition: the original FunctionDef.
    """
    text = _unwrap(text).replace(lowered_name, definition.signature.name)
    found, constant = _UNSUPPORTED.search(text), _CONSTANT.search(text)
    if found:
        op, callee, node = found.groups()
        why = f"TensorFlow has no compiled form of op {op} for these types"
        attributes = _ATTRIBUTES.search(text)
        why = f"{why} ({attributes.group(1)[:200]})" if attributes else why
        remedy = _way_out(op, node, text, definition)
    elif constant:
        position, node, op = constant.groups()
        why = f"input {position} of op {op} must be a compile-time constant, and its value is computed at run time"
        remedy = _SHAPE_WAY_OUT
    else:
        node = node_in(text)
        op = sources.op_of(definition.signature.name, node)
        why, remedy = _reason(text)
    where = sources.line_of(definition.signature.name, node) or _last_user_frame(text)
    graph = _GRAPH.search(text)
    inside = (found and callee) or (graph and graph.group(1)) or definition.signature.name
    what = f"node '{node}' (op {op or '?'}) in {inside}" if node else inside
    message = f"function {definition.signature.name} cannot be compiled: {what}: {why}"
    kind = NoConstantError if constant or _CONSTANT_WORDS in text else LoweringError
    return kind(message, remedy, where, op, node)


def _way_out(op: str, node: str, text: str, definition: Any) -> str:
    """What to do about a node of `definition` (or of a function it calls) whose op has no compiled form."""
    if op == "StringFormat" and _is_printed(node, definition):
        return _PRINT
    for pattern, remedy in _WAYS_OUT:
        if re.fullmatch(pattern, op):
            return remedy
    op_def = op_def_registry.get(op)
    declared = [arg.type for arg in (*op_def.input_arg, *op_def.output_arg)] if op_def is not None else []
    attributes = _ATTRIBUTES.search(text)
    if types_pb2.DT_STRING in declared or (attributes and "DT_STRING" in attributes.group(1)):
        return _STRINGS
    return _VARIANTS if attributes and "DT_VARIANT" in attributes.group(1) else _DEFAULT_WAY_OUT


def _is_printed(node: str, definition: Any) -> bool:
    """Does the node's output go to tf.print?"""
    printed = (
        text.partition(":")[0]
        for function in sources.reachable(definition.signature.name)
        for user in function.node_def
        if user.op == "PrintV2"
        for text in user.input
    )
    return node in printed


def _unwrap(text: str) -> str:
    match = re.match(r"Failed getting HLO text: '(.*)'\s*$", text, re.DOTALL)
    return match.group(1) if match else text


def _reason(text: str) -> tuple[str, str]:
    """Why, and a way out; nobody is asked to report to others what they do not take yet."""
    for pattern, words in _OUR_WORDS:
        if re.search(pattern, text):
            return words, _SIZE_WAY_OUT
    return _REPORT.sub("", _first_lines(text)), _DEFAULT_WAY_OUT


def _first_lines(text: str) -> str:
    """What comes before stack traces and advice."""
    head = re.split(r"\n\nStack trace|\nThe op is created at|\n\t \[\[|\n\ttf2xla conversion", text)[0]
    return " ".join(_DEFINED.sub("", head).split())[:600]


def _last_user_frame(text: str) -> str:
    frames = [f"{path}:{line}" for path, line in _FRAME.findall(text)]
    own = [f for f in frames if sources.is_user_file(f.rpartition(":")[0])]
    return own[-1] if own else ""
