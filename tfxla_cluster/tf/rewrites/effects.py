"""Ops that only check and raise (Assert, CheckNumerics) and others with effects, and the work that waits for them.

A check stays outside: its condition is a result of the cluster, and TensorFlow's own op raises after the
cluster, with the user's line. But pure work that is ordered after it, or after any other effect, by a control edge
would split the cluster there. `defer` moves such edges behind the pure work; whatever the user can see
(variables, printing, results) still waits.

    effect --^--> pure op --> ... --> assign      becomes      effect --^--> assign
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tensorflow.core.framework import graph_pb2

from ..graph import deadness
from ..graph import view as graphs
from ..graph.pipeline import ViewedGraph

_CANNOT_WAIT = graphs.MERGES | graphs.EXITS | graphs.NEXT_ITERATIONS | {"LoopCond"}


def defer(
    graph: ViewedGraph, pure: Callable[[graphs.NodeDef], bool], preserve: Collection[str], work_limit: int | None = None
) -> graph_pb2.GraphDef:
    """The graph with effects moved behind the pure work that waits for them; the same object if none is.

    `pure(node)`: may the node be part of a cluster? `preserve`: names that are fetched or kept. An effect for which
    nothing visible would wait is left, unless it is preserved: it would be pruned. `work_limit`: edges that may
    be walked (default 50 a node).
    """
    return _Deferral(graph, pure, preserve, work_limit).run()


class _Deferral:
    def __init__(
        self,
        graph: ViewedGraph,
        pure: Callable[[graphs.NodeDef], bool],
        preserve: Collection[str],
        work_limit: int | None,
    ) -> None:
        self.graph_def, self.graph, self.preserve = graph.graph_def, graph.view, preserve
        self.pure = [
            node.name not in preserve and (node.op in ("Const", "NoOp") or pure(node)) for node in self.graph.nodes
        ]
        self.work = 50 * len(self.graph) + 10_000 if work_limit is None else work_limit
        self.changes: dict[int, list[str]] = {}

    def run(self) -> graph_pb2.GraphDef:
        waiting = self._waiting()
        if not waiting:
            return self.graph_def
        alive = deadness.analyse(self.graph, self.graph.topological())
        for effect, users in waiting.items():
            movable = [u for u in users if self._runs_anyway(effect, u, alive)]
            if movable and self.work > 0:
                self._move(effect, movable)
        if not self.changes:
            return self.graph_def
        result = graph_pb2.GraphDef()
        result.CopyFrom(self.graph_def)
        for i, inputs in self.changes.items():
            del result.node[i].input[:]
            result.node[i].input.extend(inputs)
        return result

    def _waiting(self) -> dict[int, list[int]]:
        """Effect -> the pure nodes that wait for it: by a control edge, or for a value that it only checks."""
        found: dict[int, list[int]] = {}
        for i in range(len(self.graph)):
            if not self.pure[i]:
                continue
            sources = [s for s in self.graph.control[i] if not self.pure[s]]
            sources += [s for s, _ in self.graph.data[i] if self.graph.nodes[s].op == "CheckNumerics"]
            for source in sources:
                if self.graph.nodes[source].op not in ("_Arg", "Placeholder"):
                    found.setdefault(source, []).append(i)
        return found

    def _runs_anyway(self, effect: int, user: int, alive: list[deadness.Conditions]) -> bool:
        """Does the user run under the same conditions without its edge from the effect?"""
        others = [deadness.of_edge(self.graph, alive, s, port) for s, port in self.graph.data[user] if s != effect]
        others += [alive[s] for s in self.graph.control[user] if s != effect]
        if self.graph.nodes[effect].op == "CheckNumerics":
            others.append(alive[self.graph.data[effect][0][0]])
        return alive[effect] <= frozenset().union(*others)

    def _move(self, effect: int, users: list[int]) -> None:
        name = self.graph.nodes[effect].name
        visible = self._first_visible(users)
        if not (visible or name in self.preserve) or any(self.graph.nodes[i].op in _CANNOT_WAIT for i in visible):
            return
        checked = self.graph.nodes[effect].input[0] if self.graph.nodes[effect].op == "CheckNumerics" else name
        for i in users:
            inputs = [checked if graphs.split_input(text) == (name, 0) else text for text in self._inputs(i)]
            self.changes[i] = [text for text in inputs if text != f"^{name}"]
        for i in visible:
            if f"^{name}" not in self._inputs(i) and not (name in self.preserve and self._is_result(i)):
                self.changes[i] = [*self._inputs(i), f"^{name}"]

    def _inputs(self, i: int) -> list[str]:
        return self.changes[i] if i in self.changes else list(self.graph.nodes[i].input)

    def _is_result(self, i: int) -> bool:
        return self.graph.nodes[i].op == "_Retval"

    def _first_visible(self, starts: list[int]) -> list[int]:
        """The first nodes that are not pure on every path from `starts`, in graph order."""
        seen, stack, found = set(starts), list(starts), set()
        while stack:
            users = self.graph.users[stack.pop()]
            self.work -= len(users) + 1
            for user in users:
                if not self.pure[user]:
                    found.add(user)
                elif user not in seen:
                    seen.add(user)
                    stack.append(user)
        return sorted(found)
