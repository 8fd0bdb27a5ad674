"""What TensorFlow's shape functions say of a graph's values, and so which sizes it leaves open.

A graph's arguments have the sizes that their function was traced with, -1 for those that the trace does not know; data
sets and placeholders say theirs. What follows from these TensorFlow infers in a graph that it imports.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.python.framework import importer

from .view import Graph, NodeDef, attr

ARG_SHAPES = "_output_shapes"
"""Of an argument's node, and of a FunctionDef's argument: its shape as the trace knows it."""
_HINTS = ("_class", ARG_SHAPES, "_xla_inferred_shapes")


class OpenSizes:
    """The shapes of a graph's values that have open sizes. `wanted`: positions of the nodes that will be asked about.
    Nothing is imported where no size that they come from is open."""

    def __init__(self, graph: Graph, wanted: Iterable[int]) -> None:
        self._graph = graph
        nodes = [graph.nodes[i] for i in sorted(_sources(graph, wanted))]
        self._imported = _imported(graph, nodes) if any(map(_is_open, nodes)) else tf.Graph()

    def shape(self, i: int, port: int) -> TensorShapeProto | None:
        """Of a value of a wanted node: its shape with -1 for each open size; None where none is open, or the rank is
        not known."""
        try:
            shape = self._imported.get_operation_by_name(self._graph.nodes[i].name).outputs[port].shape
        except (KeyError, IndexError):  # not imported
            return None
        return None if shape.rank is None or shape.is_fully_defined() else shape.as_proto()


def _sources(graph: Graph, wanted: Iterable[int]) -> set[int]:
    """The nodes and all that their values come from."""
    pending = list(dict.fromkeys(wanted))
    found = set(pending)
    for i in pending:
        fresh = {source for source, _ in graph.data[i]} - found
        found |= fresh
        pending += sorted(fresh)
    return found


def _is_open(node: NodeDef) -> bool:
    """Does it, by itself, give values with a size that is not known?"""
    if node.op == "Placeholder":
        shape = attr(node, "shape")
        return shape is not None and any(dim.size < 0 for dim in shape.dim)
    listed = attr(node, ARG_SHAPES if node.op == "_Arg" else "output_shapes")
    return listed is not None and any(dim.size < 0 for shape in listed.shape for dim in shape.dim)


def _imported(graph: Graph, nodes: Iterable[NodeDef]) -> tf.Graph:
    """These nodes with the values that they take, empty where TensorFlow does not take them."""
    graph_def, made = graph_pb2.GraphDef(), tf.Graph()
    graph_def.library.function.extend(graph.functions.values())
    for node in nodes:
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(text for text in node.input if not text.startswith("^"))
        if node.op == "_Arg":
            _stand_in(copy)
        for name in _HINTS:
            copy.attr.pop(name, None)
    try:
        with made.as_default():
            importer.import_graph_def(graph_def, name="")
    except (ValueError, tf.errors.OpError):
        return tf.Graph()
    return made


def _stand_in(arg: NodeDef) -> None:
    """Make it a node that can be imported, with the shape of the argument, or of the variable whose handle it is."""
    handle = attr(arg, "_handle_dtypes")
    is_variable = handle is not None and bool(handle.type)
    dtype = handle.type[0] if is_variable else attr(arg, "T")
    listed = attr(arg, "_handle_shapes" if is_variable else ARG_SHAPES)
    shape = TensorShapeProto(unknown_rank=True)
    if listed is not None and listed.shape:
        shape.CopyFrom(listed.shape[0])
    arg.op = "VarHandleOp" if is_variable else "Placeholder"
    arg.attr.clear()
    arg.attr["dtype"].type = dtype
    arg.attr["shape"].shape.CopyFrom(shape)
