"""The bridge's refusals, read: which op and node, where in the user's program, why, and a way out."""

from __future__ import annotations

import re
from typing import Any

from ..errors import LoweringError
from . import sources

_UNSUPPORTED = re.compile(
    r"(\w+) \(No registered '(\w+)' OpKernel for \w+ devices compatible with node \{\{node ([^}]+)\}\}"
)
_ATTRIBUTES = re.compile(r"Requested Attributes: ([^)]*)\)")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_CONSTANT = re.compile(r"Input (\d+) to node `([^`]+)` with op (\w+) must be a compile-time constant")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_DEFINED = re.compile(r" \(defined @ [^)]*\)")
_GRAPH = re.compile(r"trying to compile graph (\S+?)\[")

# Op -> what a user can write instead.
_WAYS_OUT = {
    "EagerPyFunc": "Call the Python code outside the compiled function, or write it with TensorFlow ops",
    "PyFunc": "Call the Python code outside the compiled function, or write it with TensorFlow ops",
    "StringFormat": "Move tf.print outside the compiled function",
    "PrintV2": "Move tf.print outside the compiled function",
    "LookupTableFindV2": "Look the table up outside the compiled function",
    "RangeDataset": "Iterate over the data set outside the compiled function",
    "ReadVariableOp": "Keep string variables outside the compiled function",
    "_Arg": "Keep string and variant values outside the compiled function",
    "_Retval": "Keep string and variant values outside the compiled function",
    "UniqueWithCountsV2": "Use tf.unique and count with tf.math.unsorted_segment_sum",
}
_SHAPE_WAY_OUT = "Compute the shape from Python numbers or from static shapes; a loop or a random op cannot give it"
_DEFAULT_WAY_OUT = "Move that op out of the function, or drop jit_compile=True (the rest is then clustered)"


def wants_constant(error: LoweringError) -> bool:
    """The bridge asked for a value that was not known while lowering."""
    return "compile-time constant" in error.message


def explain(text: str, lowered_name: str, definition: Any) -> LoweringError:
    """The error of the bridge as one that names op, node, user line, reason and remedy.

    text: the bridge's message. lowered_name: the function it lowered (a copy has no stack traces).
    definition: the original FunctionDef.
    """
    text = _unwrap(text).replace(lowered_name, definition.signature.name)
    found, constant = _UNSUPPORTED.search(text), _CONSTANT.search(text)
    if found:
        op, node = found.group(2), found.group(3)
        why = f"TensorFlow has no compiled form of op {op} for these types"
        attributes = _ATTRIBUTES.search(text)
        why = f"{why} ({attributes.group(1)[:200]})" if attributes else why
        remedy = _WAYS_OUT.get(op, _DEFAULT_WAY_OUT)
    elif constant:
        position, node, op = constant.groups()
        why = f"input {position} of op {op} must be a compile-time constant, and its value is computed at run time"
        remedy = _SHAPE_WAY_OUT
    else:
        node = next(iter(_NODE.findall(text)), "")
        op = sources.op_of(definition.signature.name, node)
        why, remedy = _first_lines(text), _DEFAULT_WAY_OUT
    where = sources.line_of(definition.signature.name, node) or _last_user_frame(text)
    graph = _GRAPH.search(text)
    inside = graph.group(1) if graph else definition.signature.name
    what = f"node '{node}' (op {op or '?'}) in {inside}" if node else inside
    message = f"function {definition.signature.name} cannot be compiled: {what}: {why}"
    return LoweringError(message, remedy, where, op, node)


def _unwrap(text: str) -> str:
    match = re.match(r"Failed getting HLO text: '(.*)'\s*$", text, re.DOTALL)
    return match.group(1) if match else text


def _first_lines(text: str) -> str:
    """What comes before stack traces and advice."""
    head = re.split(r"\n\nStack trace|\nThe op is created at|\n\t \[\[|\n\ttf2xla conversion", text)[0]
    return " ".join(_DEFINED.sub("", head).split())[:600]


def _last_user_frame(text: str) -> str:
    frames = [f"{path}:{line}" for path, line in _FRAME.findall(text)]
    own = [f for f in frames if sources.is_user_file(f.rpartition(":")[0])]
    return own[-1] if own else ""
