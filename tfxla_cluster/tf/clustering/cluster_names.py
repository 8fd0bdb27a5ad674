"""Which cluster of a trace is which of another one: clusters of a function by the first op in them."""

from __future__ import annotations

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...locks import ForkSafeLock
from ...tf2xla import function_def

_REMEMBERED = 1000  # functions; the one that came first goes first


@dataclass(frozen=True)
class _Cluster:
    """The latest of its name: the trace that it is of, and its nodes."""

    trace: str
    nodes: frozenset[str]


class ClusterNames:
    """Thread safe. A name is the same in each process, as far as the function begins alike in each of its traces."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._functions: OrderedDict[tuple[str, str], dict[str, _Cluster]] = OrderedDict()

    def name(self, function: str, defined: str, trace: str, nodes: Sequence[str]) -> str:
        """Of a cluster with these nodes, in the order of the graph, of one trace of a function that begins at the line
        `defined`: its first op in the order of the program; where Python put another op before that, as the cluster of
        another trace that has more than half of its nodes, or of which it has more than half."""
        if not trace:
            return f"{nodes[0]} ({_digest(nodes)})"
        this, name = _Cluster(trace, frozenset(nodes)), _first(trace, nodes)
        with self._lock:
            known = self._functions.setdefault((function, defined), {})
            if len(self._functions) > _REMEMBERED:
                self._functions.popitem(last=False)
            if name not in known:
                name = next((other for other, one in known.items() if _are_one(one, this)), name)
            elif known[name].trace == trace and known[name] != this:  # in a function that is called, and not inlined
                name = f"{name} ({_digest(nodes)})"
            known[name] = this
            return name


def _are_one(earlier: _Cluster, this: _Cluster) -> bool:
    """At most one cluster of a trace is one with another trace's, for clusters share no node."""
    shared = len(earlier.nodes & this.nodes)
    return earlier.trace != this.trace and 2 * shared > min(len(earlier.nodes), len(this.nodes))


def _first(trace: str, nodes: Iterable[str]) -> str:
    order = _order(trace)
    return min(nodes, key=lambda node: order.get(node, order.get(node.partition("/")[0], len(order))))


@functools.lru_cache(maxsize=4)  # names of functions are never used again
def _order(trace: str) -> Mapping[str, int]:
    """Node -> its place in the function, {} for one that is not known."""
    definition = function_def.library(trace)
    return {} if definition is None else {node.name: place for place, node in enumerate(definition.node_def)}


def _digest(nodes: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(nodes)).encode()).hexdigest()[:16]
