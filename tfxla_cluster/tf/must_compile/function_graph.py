"""The graph of a must-compile function as a file, as the graphs that are clustered have one."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import function_def_to_graph

from ... import bugs, flag_options, trace
from ...dump.sink import Sink
from ..functions.variables import Interface
from ..graph.view import CLUSTER_ATTR

STEM = "must_compile"
_ARGUMENT, _RESULT = "_Arg", "_Retval"


def record(name: str, route: str, interface: Interface, definition: Any) -> None:
    """That the function is compiled, with its graph's file."""
    if trace.wants("function"):
        trace.record(
            "function",
            name=name,
            route=route,
            variables=len(interface.resources),
            updated=len(interface.updated),
            graph=write(definition),
            nodes=len(definition.node_def),
        )


def write(definition: Any) -> str:
    """The name of the file, '' where nothing is dumped. Each node that is compiled has the function's name as its
    cluster."""
    if not trace.directory():
        return ""
    try:
        text = text_format.MessageToString(graph(definition))
    except Exception as error:  # noqa: BLE001 - of a file for people; the function compiles without it
        bugs.failed(f"writing the graph of {definition.signature.name}", error)
        return ""
    path = Sink(flag_options.dump_options()).graph(STEM, text)
    return path.name if path else ""


def graph(definition: Any) -> graph_pb2.GraphDef:
    """The body of a FunctionDef, its arguments and results as nodes."""
    with context.eager_mode():
        try:
            found, names = function_def_to_graph.function_def_to_graph_def(definition, include_library_functions=True)
        except (ValueError, KeyError):  # it calls what the eager context lacks
            found, names = function_def_to_graph.function_def_to_graph_def(definition)
    arguments = {arg.name for arg in definition.signature.input_arg}
    for node in found.node:
        if node.name in arguments:
            node.op = _ARGUMENT
        else:
            node.attr[CLUSTER_ATTR].s = definition.signature.name.encode()
    taken = {node.name for node in found.node}
    for result in definition.signature.output_arg:
        source = names.get(definition.ret[result.name], definition.ret[result.name])
        name = result.name if result.name not in taken else f"{result.name}_result"
        node = found.node.add(name=name, op=_RESULT, input=[source.removesuffix(":0")])
        node.attr["T"].type = result.type
    return found
