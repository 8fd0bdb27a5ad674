"""Loops and branches as single ops: kept where all of them can be compiled, lowered by TensorFlow where not.

TensorFlow marks While, If and Case while tracing, and takes marked ones apart into Switch, Merge, Enter, ... before
any pass of ours: a cluster then forms inside the body and is launched in each iteration. While enabled, the
mark is left off, so that the graph pass sees the op itself; it clusters the op or puts the mark back, and grappler
takes it apart before the pass runs again. Functions traced before keep their marks.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.core.framework import graph_pb2
from tensorflow.python.ops import control_flow_util_v2

from .graph import NodeDef

CONTROL_OPS = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})
LOWER_ATTR = "_lower_using_switch_merge"
_original: list[Callable[..., None]] = []


def install(wanted: Callable[[], bool]) -> None:
    """Leave the mark off from now on, where `wanted()` (asked at each op) says so."""
    if _original:
        return
    original = control_flow_util_v2.maybe_set_lowering_attr
    _original.append(original)

    def maybe_set_lowering_attr(op: Any, lower_using_switch_merge: bool | None = None) -> None:
        if lower_using_switch_merge is not None or not wanted():
            original(op, lower_using_switch_merge)

    control_flow_util_v2.maybe_set_lowering_attr = maybe_set_lowering_attr


def remove() -> None:
    if _original:
        control_flow_util_v2.maybe_set_lowering_attr = _original.pop()


def lower_others(graph_def: graph_pb2.GraphDef, compilable: Callable[[NodeDef], bool]) -> graph_pb2.GraphDef | None:
    """A copy with the mark on each loop or branch that cannot be compiled whole; None where there is none."""
    found = [i for i, node in enumerate(graph_def.node)
             if node.op in CONTROL_OPS and LOWER_ATTR not in node.attr and not compilable(node)]
    if not found:
        return None
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    for i in found:
        result.node[i].attr[LOWER_ATTR].b = True
    return result
