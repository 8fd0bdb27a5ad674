"""`tfxla_cluster.explain(fn, *args)`: why each op would or would not be in a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ...tf2xla import sources
from ..graph.view import Graph
from . import support
from .mark_for_compilation import Options, find_clusters


def explain(fn: Callable[..., Any], *args: Any) -> str:
    """A line an op of the traced `fn(*args)`: `OP NODE (file:line): in CLUSTER`, or `left out (rule): reason`.

    Looks at the traced graph as it is; TensorFlow's own optimisers may still change it before clustering.
    UsageError where `fn` is no function.
    """
    sources.check_function(fn)
    function = fn if hasattr(fn, "get_concrete_function") else tf.function(fn)
    concrete = function.get_concrete_function(*args)
    graph_def = concrete.graph.as_graph_def(add_shapes=False)
    # The question is what automatic clustering would do, also while it is off; asking spends no fuel.
    options = replace(Options.from_flags(), global_jit=True, fuel=None)
    functions = {f.signature.name: f for f in graph_def.library.function}
    graph = Graph.of_graph_def(graph_def)
    checker = support.Checker(functions, True, options.only, options.excluded)
    clustering = find_clusters(graph, checker, options, frozenset())
    where = {i: cluster.name for cluster in clustering.clusters for i in cluster.members}
    lines = sources.all_lines(concrete.name.decode() if isinstance(concrete.name, bytes) else concrete.name)
    return "\n".join(
        _line(graph.nodes[i], where.get(i), clustering.decisions.get(i), lines) for i in range(len(graph.nodes))
    )


def _line(node: Any, cluster: str | None, decision: Any, lines: dict[str, str]) -> str:
    place = f" ({lines[node.name]})" if node.name in lines else ""
    answer = f"in {cluster}" if cluster else "left out"
    if not cluster and decision is not None:
        answer += f" ({decision.rule}): {decision.reason}"
    return f"{node.op} {node.name}{place}: {answer}"
