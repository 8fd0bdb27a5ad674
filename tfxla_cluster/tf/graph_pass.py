"""The graph pass: what happens to every graph that TensorFlow is about to instantiate.

must-compile calls replaced -> loops that stay TensorFlow's taken apart -> random ops rewritten -> written variables
forwarded -> effects deferred -> clusters -> dump and trace -> calls in their place. Rewrites run under graph.pipeline.
Registered with grappler by `enable`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection

from tensorflow.core.framework import graph_pb2

from .. import flags, trace
from ..counters import add as count
from ..decision import Decision
from ..tf2xla import sources
from . import devices, grappler_plugin
from .clustering import cluster_checks, coverage, graph_dumps, support
from .clustering.cluster_program import fallen_back
from .clustering.encapsulate import ClusterFunction, encapsulate
from .clustering.mark_for_compilation import CLUSTERED_ATTR, Clustering, Options, find_clusters
from .graph import pipeline
from .graph.pipeline import Rewrite, ViewedGraph
from .graph.view import Graph, NodeDef
from .must_compile import nested
from .must_compile.hook import Hook
from .native_op.op import Program, ensure_registered
from .rewrites import effects, forwarding, random_ops, whole_loops

_PLUMBING_RULES = frozenset({"argument", "control_flow", "variable", "effect", "done", "control_only", "not_marked"})
_PLUMBING_OPS = frozenset({"Const", "Identity", "NoOp"})


class GraphPass:
    """The pass, on or off. `make_program`: the program of a new cluster."""

    def __init__(
        self, hook: Hook, calls: nested.NestedCalls, make_program: Callable[[ClusterFunction], Program]
    ) -> None:
        self.hook, self.nested, self.make_program = hook, calls, make_program

    def enable(self) -> None:
        """Cluster what TensorFlow instantiates from now on; functions that ran before are instantiated anew."""
        ensure_registered()
        whole_loops.install(lambda device: Options.from_flags().global_jit and bool(devices.decide(device)))
        grappler_plugin.enable(self.transform)

    def disable(self) -> None:
        """Graphs and traces are TensorFlow's again."""
        grappler_plugin.disable()
        whole_loops.remove()

    def transform(
        self, graph_def: graph_pb2.GraphDef, preserve: frozenset[str], fetched: frozenset[str] = frozenset()
    ) -> graph_pb2.GraphDef | None:
        """One graph, its library included; None when nothing changes. `preserve`, `fetched`: as grappler gives them."""
        if any(CLUSTERED_ATTR in node.attr for node in graph_def.node):
            return None
        self.hook.sweep()
        given = ViewedGraph(graph_def)
        with trace.phase("graph", function=sources.caller()):
            calls = Rewrite("must-compile-calls", lambda graph: self.replace_must_compile_calls(graph.graph_def))
            replaced = pipeline.run(given, [calls], graph_dumps.between_rewrites())
            clustered = self._cluster(replaced, preserve, fetched)
        changed = clustered or replaced.graph_def
        return None if changed is graph_def else changed

    def replace_must_compile_calls(self, graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
        """A copy in which calls of must-compile functions run natively; the same object where there is none."""
        library = {f.signature.name: f for f in graph_def.library.function}
        calls = [i for i, node in enumerate(graph_def.node) if nested.is_must_compile_call(node, library.get)]
        placed = {i: nested.placed(graph_def.node[i], graph_def) for i in calls}
        calls = [i for i in calls if placed[i] or not self.nested.leave(graph_def.node[i], placed[i].reason)]
        if not calls:
            return graph_def
        copy = graph_pb2.GraphDef()
        copy.CopyFrom(graph_def)
        for i in calls:
            for function in self.nested.rewrite(copy.node[i], library.get, placed[i]):
                if function.signature.name not in library:
                    library[function.signature.name] = function
                    copy.library.function.append(function)
        return copy

    def _cluster(
        self, given: ViewedGraph, preserve: frozenset[str], fetched: frozenset[str]
    ) -> graph_pb2.GraphDef | None:
        """Automatic clustering of one graph; None when nothing changes."""
        options, nodes = Options.from_flags(), given.graph_def.node
        if not options.global_jit and not any("_XlaCompile" in node.attr for node in nodes):
            return None
        functions = {f.signature.name: f for f in given.graph_def.library.function}
        checker = support.Checker(functions, True, options.only, options.excluded)
        taken_apart = pipeline.run(given, [_taking_apart(checker)], graph_dumps.between_rewrites())
        if taken_apart is not given:
            return taken_apart.graph_def  # grappler takes loops apart and asks again
        rewritten = pipeline.run(given, _rewrites(checker, preserve), graph_dumps.between_rewrites())
        graph_def, deferred, graph = given.graph_def, rewritten.graph_def, rewritten.view
        clustering = find_clusters(graph, checker, options, preserve - fetched)
        first_time = not _asked_again(graph, clustering)
        if first_time:
            report(graph_def, deferred, graph, clustering)
        programs: dict[str, Program] = {}

        def make(function: ClusterFunction) -> Program:
            programs[function.name] = self.make_program(function)
            return programs[function.name]

        result, made = (
            encapsulate(deferred, graph, clustering, make, fetched, cluster_checks.from_flags())
            if clustering.clusters
            else (None, [])
        )
        if result is not None and not sortable(result):
            for function in made:
                fallen_back(function.name, "the graph with its clusters would have a cycle")
                programs[function.name].close()
            if first_time:  # what was to be clustered counts as left out
                members = frozenset(name for function in made for name in function.nodes)
                coverage.add([], left_out(graph, clustering) + _op_count(graph, members))
            return None
        if first_time:
            coverage.add(
                [(_op_count(graph, names), programs[f.name]) for f in made for names in [frozenset(f.nodes)]],
                left_out(graph, clustering),
            )
        return result if made else None


def _taking_apart(checker: support.Checker) -> Rewrite:
    """Loops and branches that are not compiled whole are TensorFlow's to take apart."""
    return Rewrite(
        "loops-apart", lambda g: whole_loops.lower_others(g.graph_def, lambda node: bool(checker.node(node)))
    )


def _rewrites(checker: support.Checker, preserve: frozenset[str]) -> list[Rewrite]:
    """What is done to a graph before its clusters are looked for."""

    def pure(node: NodeDef) -> bool:
        return bool(checker.node(node))

    return [
        Rewrite("random-ops", lambda graph: random_ops.expand_graph(graph.graph_def)),
        Rewrite("variable-forwarding", lambda graph: forwarding.forward(graph, pure, preserve)),
        Rewrite("effect-deferral", lambda graph: effects.defer(graph, pure, preserve)),
    ]


def sortable(graph_def: graph_pb2.GraphDef) -> bool:
    """Has the graph no cycle but loops through NextIteration? TensorFlow drops a rewritten graph that has one
    with a warning that programs do not see."""
    names = {node.name for node in graph_def.node}
    back = {node.name for node in graph_def.node if node.op in ("NextIteration", "RefNextIteration")}
    waiting: dict[str, int] = {}
    users: dict[str, list[str]] = {}
    for node in graph_def.node:
        origins = {text.lstrip("^").split(":")[0] for text in node.input} & names - back
        waiting[node.name] = len(origins)
        for origin in origins:
            users.setdefault(origin, []).append(node.name)
    ready = [name for name, open_inputs in waiting.items() if not open_inputs]
    done = 0
    while ready:
        done += 1
        for user in users.get(ready.pop(), ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return done == len(names)


def _op_count(graph: Graph, names: Collection[str]) -> int:
    return sum(node.op not in _PLUMBING_OPS for node in graph.nodes if node.name in names)


def left_out(graph: Graph, clustering: Clustering) -> int:
    """How many ops in no cluster could have been compiled; none where there are too few for any cluster."""
    left = sum(_compilable(graph.nodes[i], decision) for i, decision in clustering.decisions.items())
    clustered = sum(graph.nodes[i].op not in _PLUMBING_OPS for c in clustering.clusters for i in c.members)
    return left if clustered + left >= flags.get("tf_xla_min_cluster_size") else 0


_last = threading.local()


def _asked_again(graph: Graph, clustering: Clustering) -> bool:
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


def _compilable(node: NodeDef, decision: Decision) -> bool:
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
