"""The graph pass: what happens to every graph that TensorFlow is about to instantiate.

must-compile calls replaced -> loops that stay TensorFlow's taken apart -> random ops rewritten -> written variables
forwarded -> effects deferred -> clusters -> dump and trace -> calls in their place. Rewrites run under graph.pipeline.
Registered with grappler by `enable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tensorflow.core.framework import function_pb2, graph_pb2

from .. import trace
from ..tf2xla import sources
from . import devices, grappler_plugin
from .clustering import cluster_checks, coverage, graph_dumps, report, support
from .clustering.cluster_program import fallen_back
from .clustering.encapsulate import ClusterFunction, encapsulate
from .clustering.mark_for_compilation import CLUSTERED_ATTR, Clustering, Options, find_clusters
from .graph import pipeline
from .graph.acyclic import is_acyclic
from .graph.pipeline import Rewrite, ViewedGraph
from .graph.view import NodeDef
from .must_compile import nested
from .must_compile.hook import Hook
from .native_op.op import Program, ensure_registered
from .rewrites import effects, forwarding, loop_reads, random_ops, whole_loops


class GraphPass:
    """The pass, on or off. `make_program`: the program of a new cluster."""

    def __init__(
        self, hook: Hook, calls: nested.NestedCalls, make_program: Callable[[ClusterFunction], Program]
    ) -> None:
        self.hook, self.nested, self.make_program = hook, calls, make_program

    def enable(self) -> None:
        """Cluster what TensorFlow instantiates from now on; functions that ran before are instantiated anew."""
        ensure_registered()
        whole_loops.install(_keeps_loops)
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
            given = nested.arguments(graph_def.node[i], graph_def)
            for function in self.nested.rewrite(copy.node[i], library.get, placed[i], given):
                if function.signature.name not in library:
                    library[function.signature.name] = function
                    copy.library.function.append(function)
        return copy

    def _cluster(
        self, given: ViewedGraph, preserve: frozenset[str], fetched: frozenset[str]
    ) -> graph_pb2.GraphDef | None:
        """Automatic clustering of one graph; None when nothing changes."""
        options, nodes = Options.from_flags(), given.graph_def.node
        if not any(options.is_automatic(node.device) or "_XlaCompile" in node.attr for node in nodes):
            return None
        observer = graph_dumps.between_rewrites()
        given = pipeline.run(given, [_reading_before_loops(options, fetched)], observer)
        checker = _checker(options, given.view.functions)
        taken_apart = pipeline.run(given, [_taking_apart(checker)], observer)
        if taken_apart is not given:
            return taken_apart.graph_def  # grappler takes loops apart and asks again
        prepared = pipeline.run(given, _preparing(checker, preserve), observer)
        clustering = find_clusters(prepared.view, checker, options, preserve - fetched)
        torn = {prepared.view.nodes[i].name for i, d in clustering.decisions.items() if d is support.LISTS_LEAVE}
        taken_apart = pipeline.run(given, [_taking_apart(checker, torn)], observer)
        if taken_apart is not given:
            return taken_apart.graph_def
        first_time = not report.asked_again(prepared.view, clustering)
        if first_time:
            report.report(given.graph_def, prepared.graph_def, prepared.view, clustering)
        calls = Rewrite("cluster-calls", lambda graph: self._calls(graph, clustering, fetched, first_time))
        called = pipeline.run(prepared, [calls], observer)
        return None if called is prepared else called.graph_def

    def _calls(
        self, graph: ViewedGraph, clustering: Clustering, fetched: frozenset[str], first_time: bool
    ) -> graph_pb2.GraphDef:
        """Calls in place of the clusters; the graph's own where there are none, or where they would make a cycle.
        `first_time`: coverage counts the graph."""
        if not clustering.clusters:
            if first_time:
                coverage.add([], report.left_out(graph.view, clustering))
            return graph.graph_def
        programs: dict[str, Program] = {}

        def make(function: ClusterFunction) -> Program:
            programs[function.name] = self.make_program(function)
            return programs[function.name]

        checks = cluster_checks.from_flags()
        result, made = encapsulate(graph.graph_def, graph.view, clustering, make, fetched, checks)
        sizes = [report.op_count(graph.view, frozenset(function.nodes)) for function in made]
        left = report.left_out(graph.view, clustering)
        if not is_acyclic(result):
            for function in made:
                fallen_back(function.name, "the graph with its clusters would have a cycle")
                programs[function.name].close()
            if first_time:  # what was to be clustered counts as left out
                coverage.add([], left + sum(sizes))
            return graph.graph_def
        if first_time:
            coverage.add([(size, programs[f.name]) for size, f in zip(sizes, made)], left)
        return result if made else graph.graph_def


def _keeps_loops(device: str) -> bool:
    """Are loops of a function that is called under this device kept whole until clusters are looked for? Not where
    they may lie on another device than the host: TensorFlow's ops of whole loops do not keep its rule there that int32
    is the host's."""
    on_host = devices.place_of(device).type == devices.HOST or not (device or devices.has_accelerator())
    return on_host and Options.from_flags().global_jit and bool(devices.decide(device))


def _checker(options: Options, functions: Mapping[str, function_pb2.FunctionDef]) -> support.Checker:
    return support.Checker(functions, True, options.only, options.excluded)


def _reading_before_loops(options: Options, fetched: frozenset[str]) -> Rewrite:
    """Variables that whole loops only read are read before them."""

    def compilable(node: NodeDef, library: Mapping[str, function_pb2.FunctionDef]) -> bool:
        return bool(_checker(options, library).node(node))

    return Rewrite("loop-reads", lambda graph: loop_reads.hoist(graph, compilable, fetched))


def _taking_apart(checker: support.Checker, torn: Collection[str] = ()) -> Rewrite:
    """Loops and branches that are not compiled whole are TensorFlow's to take apart. `torn`: names of those whose
    lists no cluster could hold."""

    def compilable(node: NodeDef) -> bool:
        return node.name not in torn and bool(checker.node(node))

    return Rewrite("loops-apart", lambda graph: whole_loops.lower_others(graph, compilable))


def _preparing(checker: support.Checker, preserve: frozenset[str]) -> list[Rewrite]:
    """What is done to a graph before its clusters are looked for."""

    def pure(node: NodeDef) -> bool:
        return bool(checker.node(node))

    return [
        Rewrite("random-ops", lambda graph: random_ops.expand_graph(graph.graph_def)),
        Rewrite("variable-forwarding", lambda graph: forwarding.forward(graph, pure, preserve)),
        Rewrite("effect-deferral", lambda graph: effects.defer(graph, pure, preserve)),
    ]
