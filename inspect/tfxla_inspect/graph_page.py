"""A TensorFlow graph's page: clusters as a picture, the whole graph, what is in no cluster and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .cluster_map import cluster_map
from .graphs import PLUMBING, tf_graph
from .markup import Html, el, join, link, number, table
from .model import Dump, Record, where, word
from .parsers.graphdef import Graph, Node
from .site import UNKNOWN, Page


class Reasons:
    """Why nodes are in no cluster, from the trace's 'unclustered' records."""

    def __init__(self, dump: Dump) -> None:
        self.sources = dump.sources()
        self.records: dict[tuple[str, str], Record] = {}
        for record in dump.of("unclustered"):
            name = word(record, "node")
            self.records[word(record, "graph"), name] = self.records["", name] = record

    def of(self, file: str) -> GraphReasons:
        """Those of one graph's file."""
        return GraphReasons(self, file)


@dataclass(frozen=True, slots=True)
class GraphReasons:
    """Reasons and user lines of the nodes of one graph."""

    reasons: Reasons
    file: str

    def record(self, node: Node) -> Record:
        records = self.reasons.records
        return records.get((self.file, node.name)) or records.get(("", node.name), {})

    def reason(self, node: Node) -> str:
        """Why the node is in no cluster, '' for one that is in one."""
        if node.cluster:
            return ""
        record = self.record(node)
        said = ": ".join(filter(None, (word(record, "rule"), word(record, "reason"))))
        return said or PLUMBING.get(node.op, UNKNOWN)

    def place(self, node: Node) -> str:
        """Its user line, '' where unknown."""
        return word(self.record(node), "where") or where(self.reasons.sources, node.name)


def build(page: Page, dump: Dump, graph: Graph, reasons: GraphReasons) -> None:
    """Fill the page of one graph."""
    page.html("clusters", "Clusters", _clusters(dump, graph))
    page.data("graph", "Graph", "graph", tf_graph(graph, reasons.reason, reasons.place), n=len(graph.nodes))
    outside = [n for n in graph.nodes if not n.cluster and n.op not in PLUMBING]
    columns = [("Node", "", 5), ("Op", "", 2), ("Type", "", 1), ("Why in no cluster", "", 5), ("User line", "", 4)]
    page.table(
        "left",
        "In no cluster",
        columns,
        ((n.name, n.op, n.dtype, reasons.reason(n), reasons.place(n)) for n in outside),
        group=3,
    )
    columns = [
        ("Node", "", 5),
        ("Op", "", 2),
        ("Type", "", 1),
        ("Cluster", "", 2),
        ("Device", "", 2),
        ("Inputs", "", 5),
    ]
    page.table(
        "nodes",
        "Nodes",
        columns,
        ((n.name, n.op, n.dtype, n.cluster, n.device.rpartition("/")[2], ", ".join(n.inputs)) for n in graph.nodes),
        group=3,
    )


def coverage(graph: Graph) -> tuple[int, int]:
    """Of the nodes that compute something those in clusters, and all."""
    computing = [n for n in graph.nodes if n.op not in PLUMBING]
    return sum(bool(n.cluster) for n in computing), len(computing)


def _clusters(dump: Dump, graph: Graph) -> Html:
    inside, computing = coverage(graph)
    share = f" ({100 * inside / computing:.1f} %)" if computing else ""
    parts: list[object] = [
        el(
            "p",
            f"{inside:,} of {computing:,} nodes that compute something are in clusters{share}. "
            "Grey lines carry values (long dashes: far), red dots are order only: the end waits for the beginning. "
            "Ops in no cluster stand together by type and depth.",
        )
    ]
    if graph.truncated:
        parts.append(el("p", "The file breaks off inside a node: what follows it is missing.", class_="bad"))
    parts += [cluster_map(graph), el("h3", "Clusters"), _cluster_table(dump, graph)]
    left = Counter(n.op for n in graph.nodes if not n.cluster and n.op not in PLUMBING)
    parts += [
        el("h3", "Ops in no cluster"),
        table(("Op", "Nodes"), [(op, number(n)) for op, n in left.most_common(60)], (1,)),
    ]
    return join(parts)


def _cluster_table(dump: Dump, graph: Graph) -> Html:
    members: dict[str, Counter[str]] = {}
    for node in graph.nodes:
        if node.cluster:
            members.setdefault(node.cluster, Counter())[node.op] += 1
    rows = []
    for name, ops in sorted(members.items(), key=lambda m: -sum(m[1].values())):
        module = dump.module_of(name)
        rows.append(
            (
                link(f"{module.page}/summary", name) if module else name,
                number(sum(ops.values())),
                ", ".join(f"{op} {n}" for op, n in ops.most_common(8)),
                "compiled" if module else "not compiled in this dump",
            )
        )
    return table(("Cluster", "Nodes", "Ops", "Module"), rows, (1,))
