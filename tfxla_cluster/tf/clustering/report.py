"""What clustering found in a graph: counters, trace records, graph files, and the ops that count for coverage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection

from tensorflow.core.framework import graph_pb2

from ... import flags, trace
from ...counters import add as count
from ...decision import Decision
from ...tf2xla import sources
from .. import devices
from ..graph.view import Graph, NodeDef
from . import graph_dumps, support
from .mark_for_compilation import Clustering

_PLUMBING_RULES = frozenset({"argument", "control_flow", "variable", "effect", "done", "control_only", "not_marked"})
_PLUMBING_OPS = frozenset({"Const", "Identity", "NoOp"})


def op_count(graph: Graph, names: Collection[str]) -> int:
    """How many of the named nodes count as ops."""
    return sum(node.op not in _PLUMBING_OPS for node in graph.nodes if node.name in names)


def left_out(graph: Graph, clustering: Clustering) -> int:
    """How many ops in no cluster could have been compiled; none where there are too few for any cluster."""
    left = sum(_is_compilable(graph.nodes[i], decision) for i, decision in clustering.decisions.items())
    clustered = sum(graph.nodes[i].op not in _PLUMBING_OPS for c in clustering.clusters for i in c.members)
    return left if clustered + left >= flags.get("tf_xla_min_cluster_size") else 0


_last = threading.local()


def asked_again(graph: Graph, clustering: Clustering) -> bool:
    """Is this the graph in which this thread has just found no cluster? Grappler goes over each graph twice."""
    nodes = {(node.name, node.op) for node in graph.nodes}
    before: set[tuple[str, str]] = getattr(_last, "nodes", set())
    _last.nodes = set() if clustering.clusters or nodes <= before else nodes
    return not clustering.clusters and nodes <= before


def report(original: graph_pb2.GraphDef, graph_def: graph_pb2.GraphDef, graph: Graph, clustering: Clustering) -> None:
    """Counters, trace records and graph files of one clustering. `graph` views `graph_def`."""
    count("functions")
    count("clusters", len(clustering.clusters))
    for reason in {d.reason for i, d in clustering.decisions.items() if d.rule == "device" and graph.nodes[i].device}:
        devices.say_left(reason)
    worth_a_file = bool(clustering.clusters or left_out(graph, clustering) or flags.get("tf_xla_clustering_debug"))
    name = graph_dumps.write(original, graph_def, graph, clustering) if worth_a_file and graph_dumps.wanted() else ""
    if trace.wants("cluster") or trace.wants("unclustered"):
        _record(graph, clustering, name)


def _is_compilable(node: NodeDef, decision: Decision) -> bool:
    """Does a node that is in no cluster count as an op that could have been compiled?"""
    if node.op in _PLUMBING_OPS or decision.rule in _PLUMBING_RULES:
        return False
    return bool(support.kernel(node))


def _record(graph: Graph, clustering: Clustering, file_name: str) -> None:
    caller = sources.caller()
    lines = sources.caller_lines(caller)
    trace.record("function", name=caller, graph=file_name, nodes=len(graph.nodes))
    for cluster in clustering.clusters:
        ops = Counter(graph.nodes[i].op for i in cluster.members)
        trace.record(
            "cluster",
            name=cluster.name,
            function=caller,
            graph=file_name,
            nodes=[graph.nodes[i].name for i in cluster.members],
            ops=dict(ops),
            constants=sorted(graph.nodes[s].name for s, _ in cluster.constants),
        )
    for i, decision in sorted(clustering.decisions.items()):
        node = graph.nodes[i]
        trace.record(
            "unclustered",
            node=node.name,
            op=node.op,
            rule=decision.rule,
            reason=decision.reason,
            where=sources.place(lines, node.name),
            function=caller,
            graph=file_name,
        )
