"""Constants that clusters copy, and the orders that run through them: merging and encapsulation must agree.

A copied constant stands for nothing but what it waits for. A node that waits for a constant (a control edge)
waits for what the constant waits for, large or not: constants themselves are there from the start.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.view import Graph

MAX_CONSTANT_BYTES = 1 << 20
"""A larger constant is passed as an argument instead of being copied into the cluster."""


def is_copied(graph: Graph, i: int) -> bool:
    """Does each cluster that uses node i hold a copy of it?"""
    return graph.nodes[i].op == "Const" and graph.nodes[i].ByteSize() <= MAX_CONSTANT_BYTES


def waits_for(graph: Graph, i: int) -> list[int]:
    """The producers of the control edges of node i, constants replaced by what those wait for."""
    return _through(graph, graph.control[i])


def producers(graph: Graph, i: int) -> list[int]:
    """All that must run before node i in a cluster, each once: copied constants are looked through."""
    found: dict[int, None] = {}
    for source, _ in graph.data[i]:
        found.update(dict.fromkeys(waits_for(graph, source) if is_copied(graph, source) else [source]))
    found.update(dict.fromkeys(waits_for(graph, i)))
    return list(found)


def _through(graph: Graph, nodes: Iterable[int]) -> list[int]:
    found: dict[int, None] = {}
    seen: set[int] = set()
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        if graph.nodes[node].op != "Const":
            found[node] = None
        elif node not in seen:
            seen.add(node)
            stack.extend(graph.control[node])
    return list(found)
