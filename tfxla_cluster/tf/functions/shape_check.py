"""TensorFlow's own shape functions, run for the sizes that a function is about to be compiled for.

The bridge trusts that tracing has checked shapes, and some of its kernels broadcast or clamp what does not fit: a
product of [1, 4] and [6, 1] behind an argument traced without a shape gives a number. So the function is imported into
a graph of its own, with arguments of the real shapes, which runs the shape function of each op, called functions too.
Loops and branches are only trusted there, so calls of their functions are put beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, function_def_to_graph

from ...errors import LoweringError, UnsupportedError
from ...tf2xla import function_calls, sources
from ...tf2xla.bridge import Arg, known_values
from ...tf2xla.known_values import give
from ...tf2xla.refusal import node_in
from . import origins

_BRANCHES = {
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
}
RESOURCE = tf.resource.as_datatype_enum
_SAYS_SHAPES = "with input shapes:"
"""In what TensorFlow says when a shape function refuses; an import that fails otherwise proves nothing."""


class BranchError(UnsupportedError):
    """Shapes do not fit in a branch or loop body, which may never run: only the uncompiled ops can tell."""


def check(definition: Any, args: Sequence[Arg]) -> None:
    """Raises where the FunctionDef's ops do not fit arguments of these dtypes and dims.

    LoweringError for an op that always runs, BranchError for one in a branch or loop.
    """
    try:
        with context.eager_mode():
            graph_def, _ = function_def_to_graph.function_def_to_graph_def(definition, include_library_functions=True)
    except (ValueError, KeyError):  # it calls what the eager context lacks: the bridge says so
        return
    for node, arg in zip(graph_def.node, known_values(args), strict=False):  # the first nodes are the arguments
        give(node, arg)
    bodies = [graph_def.node, *(f.node_def for f in graph_def.library.function)]
    for node in (node for body in bodies for node in body if node.op == "AssignVariableOp"):
        _drop(node)
    refused = _import(graph_def)
    if refused:
        name = definition.signature.name
        node = node_in(refused)
        raise LoweringError(
            f"function {name} cannot be compiled: node '{node}': {refused}",
            "Call it with sizes that fit",
            sources.line_of(name, node),
            sources.op_of(name, node),
            node,
        )
    added = [(body, call) for body in bodies for call in _calls(body)]
    for body, call in added:
        body.append(call)
    refused = _import(graph_def) if added else ""
    if refused:
        raise BranchError(f"shapes do not fit in a branch or loop body, which may not run: {refused}")


def was_traced_for(function: str, args: Sequence[Arg]) -> bool:
    """Did TensorFlow run the shape functions of a registered function for arguments of these dims already, as it traced
    it: did it know all their sizes, and those of what each function gets that is called?"""
    if origins.of(function).values is None:
        return False
    for number, definition in enumerate(sources.reachable(function)):
        traced = list(_traced_dims(definition))
        if None in traced or (number == 0 and traced != [arg.dims for arg in args]):
            return False
    return True


def _traced_dims(definition: Any) -> Iterator[tuple[int, ...] | None]:
    """What the trace took each argument's dims, of a variable its value's, to be; None where it left one open."""
    values = origins.of(definition.signature.name).values or {}
    for k, arg in enumerate(definition.signature.input_arg):
        if arg.type == RESOURCE:
            yield values.get(k)
            continue
        attrs = definition.arg_attr[k].attr if k in definition.arg_attr else {}
        shapes = attrs["_output_shapes"].list.shape if "_output_shapes" in attrs else []
        yield origins.known_dims(shapes[0]) if len(shapes) == 1 else None


def may_misfit(definition: Any, library: function_calls.Library) -> bool:
    """May `check` raise BranchError: was it traced with unknown sizes, and is there a branch or loop?"""
    known = [arg.attr["_output_shapes"] for arg in definition.arg_attr.values() if "_output_shapes" in arg.attr]
    shapes = [shape for value in known for shape in value.list.shape]
    return any(not tf.TensorShape(shape).is_fully_defined() for shape in shapes) and any(
        node.op in _BRANCHES
        for function in function_calls.reachable([definition.signature.name], library)
        for node in function.node_def
    )


def _drop(assignment: Any) -> None:
    """A variable may be assigned another shape than it has; where that cannot be compiled the bridge says so."""
    assignment.op = "NoOp"
    assignment.attr.clear()
    waits = [text for text in assignment.input if text.startswith("^")]
    del assignment.input[:]
    assignment.input.extend(waits)


def _calls(nodes: Iterable[Any]) -> Iterator[Any]:
    """A call of each function of the loops and branches among `nodes`, with the arguments that it gets first."""
    for node in nodes:
        for k, function in enumerate(f for name in _BRANCHES.get(node.op, ()) for f in _functions(node.attr, name)):
            loop = "While" in node.op
            call = tf.compat.v1.NodeDef(name=f"{node.name}/tfxla_{k}", op="PartitionedCall")
            call.input.extend(text for text in list(node.input)[not loop :] if not text.startswith("^"))
            call.attr["f"].func.name = function.name
            call.attr["Tin"].list.type.extend(node.attr["T" if loop else "Tin"].list.type)
            if loop and k == 0:
                call.attr["Tout"].list.type.append(tf.bool.as_datatype_enum)
            else:
                call.attr["Tout"].list.type.extend(node.attr["T" if loop else "Tout"].list.type)
            yield call


def _functions(attrs: Mapping[str, Any], name: str) -> list[Any]:
    value = attrs[name]
    return list(value.list.func) if value.WhichOneof("value") == "list" else [value.func]


def _import(graph_def: Any) -> str:
    """What TensorFlow says against the shapes in a graph, '' where nothing."""
    options = c_api_util.ScopedTFImportGraphDefOptions()
    graph = tf.Graph()
    try:
        with c_api_util.tf_buffer(graph_def.SerializeToString()) as data, graph._c_graph.get() as target:
            pywrap_tf_session.TF_GraphImportGraphDefWithResults(target, data, options.options)
    except (tf.errors.OpError, ValueError) as error:
        text = " ".join(str(error).split())
        return text[:600] if _SAYS_SHAPES in text else ""
    return ""
