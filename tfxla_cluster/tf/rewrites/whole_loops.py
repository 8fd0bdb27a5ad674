"""Loops and branches as single ops: kept where all of them can be compiled, lowered by TensorFlow where not.

TensorFlow marks While, If and Case while tracing, and takes marked ones apart into Switch, Merge, Enter, ... before
any pass of ours: a cluster then forms inside the body and is launched in each iteration. While enabled, the
mark is left off, so that the graph pass sees the op itself; it clusters the op or puts the mark back, and grappler
takes it apart before the pass runs again. Functions traced before keep their marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.python.ops import control_flow_util_v2

from ...tf2xla import function_calls
from ..graph import list_groups
from ..graph.pipeline import ViewedGraph
from ..graph.view import KEPT_IDENTITY, Graph, NodeDef, attr, split_input, type_list

CONTROL_OPS = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})
LOWER_ATTR = "_lower_using_switch_merge"
_original: list[Callable[..., None]] = []


def install(wanted: Callable[[str], bool]) -> None:
    """Leave the mark off from now on, where `wanted(device of the op)` says so."""
    if _original:
        return
    original = control_flow_util_v2.maybe_set_lowering_attr
    _original.append(original)

    def maybe_set_lowering_attr(op: Any, lower_using_switch_merge: bool | None = None) -> None:
        if lower_using_switch_merge is not None or not wanted(op.device):
            original(op, lower_using_switch_merge)

    control_flow_util_v2.maybe_set_lowering_attr = maybe_set_lowering_attr


def remove() -> None:
    if _original:
        control_flow_util_v2.maybe_set_lowering_attr = _original.pop()


def lower_others(graph: ViewedGraph, compilable: Callable[[NodeDef], bool]) -> graph_pb2.GraphDef:
    """A copy with the mark on loops and branches that cannot be compiled whole, by themselves or for the lists that
    they take or give; the same object where there is none."""
    graph_def = graph.graph_def
    if not any(map(_is_unmarked, graph_def.node)):
        return graph_def
    groups = list_groups.of_nodes(graph_def.node, graph.view.op_def, graph.view.functions)
    leaving = list_groups.not_held(graph_def.node, groups, compilable)
    found = [
        i
        for i, node in enumerate(graph_def.node)
        if _is_unmarked(node) and (node.name in leaving or not compilable(node))
    ]
    if not found:
        return graph_def
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    producers = {node.name: node.op for node in graph_def.node}
    _mark_inside(result, graph.view, found, compilable)
    for i in found:
        result.node[i].attr[LOWER_ATTR].b = True
        if graph_def.node[i].op in ("If", "Case"):
            _wait_for_inputs(result, result.node[i], producers)
    return result


def _is_unmarked(node: NodeDef) -> bool:
    """Is it a loop or branch that TensorFlow leaves whole so far?"""
    return node.op in CONTROL_OPS and LOWER_ATTR not in node.attr


def _mark_inside(
    graph_def: graph_pb2.GraphDef, view: Graph, found: list[int], compilable: Callable[[NodeDef], bool]
) -> None:
    """Mark what cannot be compiled inside of these too, so that all of it is taken apart at once.

    Grappler asks twice only, and what it takes apart the second time is left as it is. Functions still have the
    control edges of their trace: no gate as below.
    """
    library = {f.signature.name: f for f in graph_def.library.function}
    names = [name for i in found for name in function_calls.in_attributes(graph_def.node[i])]
    for function in function_calls.reachable(names, library.get):
        groups = list_groups.of_function(function, view) if any(map(_is_unmarked, function.node_def)) else []
        leaving = list_groups.not_held(function.node_def, groups, compilable)
        for node in function.node_def:
            if _is_unmarked(node) and (node.name in leaving or not compilable(node)):
                node.attr[LOWER_ATTR].b = True


def _wait_for_inputs(graph_def: graph_pb2.GraphDef, node: NodeDef, producers: Mapping[str, str]) -> None:
    """Make the predicate of a branch with effects wait for the other inputs.

    Grappler took away control edges that those imply, which is right for a single op; taken apart, an op of a branch
    waits for the predicate and the inputs it uses only, and may assign a variable that the others still read.
    """
    kinds = type_list(node, "Tin")
    late = dict.fromkeys(
        f"^{name}"
        for text, kind in zip(node.input[1:], kinds)
        for name in [split_input(text)[0]]
        if kind != types_pb2.DT_RESOURCE and producers.get(name) not in (None, "Const", "_Arg", "Placeholder")
    )
    if not late:
        return
    gate = graph_def.node.add(
        name=f"{node.name}/tfxla_inputs", op=KEPT_IDENTITY, device=node.device, input=[node.input[0], *late]
    )
    gate.attr["dtype"].type = attr(node, "Tcond", types_pb2.DT_INT32)
    gate.attr["shape"].shape.unknown_rank = True
    node.input[0] = gate.name
