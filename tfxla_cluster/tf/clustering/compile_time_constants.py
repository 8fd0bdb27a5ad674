"""Which values must be known when a cluster is compiled, traced back from the ops that need them."""

from __future__ import annotations

from collections.abc import Iterable

from ...tf2xla.must_be_constant import required_inputs
from ..graph.op_groups import SHAPE_OPS
from ..graph.view import Graph


def needed_ports(graph: Graph, members: Iterable[int]) -> tuple[set[int], set[tuple[int, int]]]:
    """(members whose results must be known, (producer, port) outside the cluster that must be known).

    `members`: one cluster. The need runs backwards through the members' data inputs; it stops at ops that read
    only a shape, and at the cluster's edge.
    """
    inside = set(members)
    nodes: set[int] = set()
    ports: set[tuple[int, int]] = set()
    stack: list[tuple[int, int]] = []
    for i in inside:
        needed = required_inputs(graph.nodes[i], graph.functions.get)
        stack.extend(graph.data[i][k] for k in needed if k < len(graph.data[i]))
    while stack:
        source, port = stack.pop()
        if source not in inside:
            ports.add((source, port))
        elif source not in nodes:
            nodes.add(source)
            if graph.nodes[source].op not in SHAPE_OPS:
                stack.extend(graph.data[source])
    return nodes, ports
