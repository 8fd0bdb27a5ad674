"""Graphs as files: those of clustering, named and laid out as TensorFlow's own (`mark_for_compilation*.pbtxt`), and
those between two rewrites."""

from __future__ import annotations

from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from ... import flag_options, flags, trace
from ...dump.sink import Sink
from ..graph import view as graphs
from ..graph.pipeline import Observer
from ..graph.view import CLUSTER_ATTR, Graph
from .mark_for_compilation import Clustering

_HANDLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})


def wanted() -> bool:
    """Under --tf_xla_clustering_debug, or when a dump is on."""
    return bool(flags.get("tf_xla_clustering_debug") or trace.directory())


def between_rewrites() -> Observer | None:
    """Writes the graph between two rewrites where --tfxla_dump_graph_rewrite_re asks for it."""
    options = flag_options.dump_options()
    if not options.graph_rewrite_re:
        return None
    sink = Sink(options)
    return lambda graph, after, before: sink.rewritten(after, before, lambda: text_format.MessageToString(graph))


def write(original: graph_pb2.GraphDef, graph_def: graph_pb2.GraphDef, graph: Graph, clustering: Clustering) -> str:
    """The three files of one graph; the name of `mark_for_compilation*.pbtxt`, '' when nothing was written.

    `original`: as TensorFlow gave it; `graph_def`: as it was clustered, which `graph` views.
    """
    out = Sink(flag_options.dump_options())
    out.graph("before_mark_for_compilation", lambda: text_format.MessageToString(original))
    marked = mark(graph_def, graph, clustering)
    path = out.graph("mark_for_compilation", lambda: text_format.MessageToString(marked))
    if clustering.clusters:
        out.graph("mark_for_compilation_annotated", lambda: text_format.MessageToString(annotate(marked)))
    return path.name if path else ""


def mark(graph_def: graph_pb2.GraphDef, graph: Graph, clustering: Clustering) -> graph_pb2.GraphDef:
    """A copy with `_XlaCluster` on clustered nodes, and on constants that only one cluster reads."""
    marked = graph_pb2.GraphDef()
    marked.CopyFrom(graph_def)
    clusters = {i: cluster.name for i, cluster in clustering.cluster_of().items()}
    for i, node in enumerate(marked.node):
        name = clusters.get(i) or _only_reader(graph, i, clusters)
        if name:
            node.attr[CLUSTER_ATTR].s = name.encode()
    return marked


def _only_reader(graph: Graph, i: int, clusters: dict[int, str]) -> str:
    readers = {clusters.get(u, "") for u in graph.users[i]} if graph.nodes[i].op == "Const" else set()
    return readers.pop() if len(readers) == 1 else ""


def annotate(marked: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """Names prefixed by `cluster_0/`, `unclustered/` or `varhandle/`, for viewers that group by prefix."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(marked)
    prefix = {node.name: _prefix(node) for node in marked.node}
    for node in result.node:
        node.name = f"{prefix[node.name]}/{node.name}"
        inputs = list(node.input)
        del node.input[:]
        for text in inputs:
            name, _ = graphs.split_input(text)
            mark_sign = "^" if text.startswith("^") else ""
            found = prefix.get(name)
            node.input.append(f"{mark_sign}{found}/{text.removeprefix('^')}" if found else text)
    return result


def _prefix(node: graphs.NodeDef) -> str:
    if node.op in _HANDLES:
        return "varhandle"
    return str(graphs.attr(node, CLUSTER_ATTR, b"unclustered").decode())
