"""Which share of the compilable op executions runs inside clusters.

TensorFlow does not say how often it runs a graph, but a cluster's program counts its executions. So in a
graph with clusters every compilable op outside counts once for each run of the most executed cluster; a
graph without clusters counts once, when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...locks import ForkSafeLock


class Program(Protocol):
    """What counts (tf.native_op.op.Program)."""

    @property
    def executions(self) -> int: ...

    @property
    def is_gone(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Graph:
    clusters: tuple[tuple[int, Program], ...]
    left: int


_lock = ForkSafeLock()
_graphs: list[_Graph] = []
_past = [0, 0]  # clustered and left op executions of graphs that are not in the list (any more)


def add(clusters: Sequence[tuple[int, Program]], left: int) -> None:
    """A graph: (number of ops, program) of each cluster, and the number of compilable ops in none."""
    with _lock:
        _fold()
        if clusters:
            _graphs.append(_Graph(tuple(clusters), left))
        else:
            _past[1] += left


def counts() -> dict[str, int]:
    """`ops_clustered` and `ops_total`, in op executions."""
    with _lock:
        clustered, left = _past
        for graph in _graphs:
            clustered, left = clustered + _clustered(graph), left + _left(graph)
    return {"ops_clustered": clustered, "ops_total": left + clustered}


def _clustered(graph: _Graph) -> int:
    return sum(ops * program.executions for ops, program in graph.clusters)


def _left(graph: _Graph) -> int:
    return graph.left * max(program.executions for _, program in graph.clusters)


def _fold() -> None:
    """Count graphs that can run no more among the past, and drop them."""
    for graph in [g for g in _graphs if all(program.is_gone for _, program in g.clusters)]:
        _past[0] += _clustered(graph)
        _past[1] += _left(graph)
        _graphs.remove(graph)
