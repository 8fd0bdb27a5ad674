"""The runner of graph rewrites: names, times and shows each, and hands the view of the graph on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensorflow.core.framework import graph_pb2

from ... import trace
from ...errors import InternalError
from .view import Graph

# (graph, the rewrite it comes after, the rewrite it comes before)
Observer = Callable[[graph_pb2.GraphDef, str, str], None]


class ViewedGraph:
    """A GraphDef that no rewrite changes in place, and its view, built when it is first asked for."""

    def __init__(self, graph_def: graph_pb2.GraphDef) -> None:
        self.graph_def = graph_def

    @cached_property
    def view(self) -> Graph:
        return Graph.of_graph_def(self.graph_def)


@dataclass(frozen=True)
class Rewrite:
    """`run(graph)` gives the new GraphDef; the graph's own where nothing changes."""

    name: str
    run: Callable[[ViewedGraph], graph_pb2.GraphDef]


def run(
    graph: ViewedGraph, rewrites: Sequence[Rewrite], observer: Observer | None = None, *, strict: bool = False
) -> ViewedGraph:
    """The graph after `rewrites` in order; `graph` itself where none changes it.

    `observer` sees the graph at the start and after each rewrite that changed it. `strict` (tests) catches one that
    changes its input in place, or gives a new graph that is equal, with InternalError.
    """
    words = ["pipeline-start", *(r.name for r in rewrites), "pipeline-end"]
    if observer is not None:
        observer(graph.graph_def, words[0], words[1])
    for index, rewrite in enumerate(rewrites, start=1):
        before = graph.graph_def.SerializeToString(deterministic=True) if strict else b""
        with trace.phase(rewrite.name):
            new = rewrite.run(graph)
        if strict:
            _check_word(rewrite, graph.graph_def, new, before)
        if new is graph.graph_def:
            continue
        graph = ViewedGraph(new)
        if observer is not None:
            observer(new, words[index], words[index + 1])
    return graph


def _check_word(rewrite: Rewrite, old: graph_pb2.GraphDef, new: graph_pb2.GraphDef, before: bytes) -> None:
    """InternalError where the rewrite says unchanged and is not, or changed and is not."""
    if old.SerializeToString(deterministic=True) != before:
        raise InternalError(f"graph rewrite {rewrite.name} changed its input in place")
    if new is not old and new.SerializeToString(deterministic=True) == before:
        raise InternalError(f"graph rewrite {rewrite.name} says changed, which is not so")
