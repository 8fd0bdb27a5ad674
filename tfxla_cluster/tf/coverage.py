"""Which share of the compilable op executions runs inside clusters.

TensorFlow does not say how often it runs a graph, but a cluster's program counts its executions. So in a
graph with clusters every compilable op outside counts once for each run of the most executed cluster; a
graph without clusters counts once, when it is made.
"""
from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Program(Protocol):
    """What counts (tf.native_op.Program)."""

    @property
    def executions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Graph:
    clusters: tuple[tuple[int, Program], ...]
    left: int


_lock = threading.Lock()
_graphs: list[_Graph] = []
_without = [0]


def add(clusters: Sequence[tuple[int, Program]], left: int) -> None:
    """A graph: (number of ops, program) of each cluster, and the number of compilable ops in none."""
    with _lock:
        if clusters:
            _graphs.append(_Graph(tuple(clusters), left))
        else:
            _without[0] += left


def counts() -> dict[str, int]:
    """`ops_clustered` and `ops_total`, in op executions."""
    with _lock:
        graphs, total = list(_graphs), _without[0]
    clustered = 0
    for graph in graphs:
        runs = [(ops, program.executions) for ops, program in graph.clusters]
        clustered += sum(ops * times for ops, times in runs)
        total += graph.left * max(times for _, times in runs)
    return {"ops_clustered": clustered, "ops_total": total + clustered}
