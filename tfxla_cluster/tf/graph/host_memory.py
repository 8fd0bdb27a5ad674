"""What TensorFlow keeps in the host's memory on a GPU.

int32 arguments and results of functions are (sizes and indices, as a rule), while its kernels for whole branches (`If`)
take all they pass on to be in the device's: such a node says what lies where, in attributes that TensorFlow obeys
(tensorflow/core/framework/memory_types.cc), and copies to and from the device come between by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow.core.framework import types_pb2

from ..devices import HOST, place_of
from .view import Graph, NodeDef, type_list

INPUTS, OUTPUTS = "_input_hostmem", "_output_hostmem"


def keep_inputs(node: NodeDef, positions: Iterable[int]) -> None:
    """These inputs of a node are to be in the host's memory."""
    found = sorted(positions)
    if found:
        node.attr[INPUTS].list.i[:] = found


def keep_branch(node: NodeDef) -> None:
    """What an `If` passes to its branches and gives back lies where functions expect it."""
    int32 = types_pb2.DT_INT32
    keep_inputs(node, (k for k, kind in enumerate(type_list(node, "Tin"), 1) if kind == int32))
    results = [k for k, kind in enumerate(type_list(node, "Tout")) if kind == int32]
    if results:
        node.attr[OUTPUTS].list.i[:] = results


def on_host(graph: Graph, i: int) -> bool:
    """Does TensorFlow compute node `i`, which is placed on an accelerator, on the host: all its tensors are int32?"""
    if place_of(graph.nodes[i].device).target == HOST:
        return False
    kinds = [*graph.output_types(i), *(graph.output_types(source)[port] for source, port in graph.data[i])]
    return bool(kinds) and all(kind == types_pb2.DT_INT32 for kind in kinds)
