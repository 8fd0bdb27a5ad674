"""A variable that is written and then read again: pass the written value on, so that one cluster can hold both.

    write v <- a; b = read v            becomes   write v <- a; b = a
    add d to v; b = read v              becomes   a = read v + d; write v <- a; b = a

An optimizer updates each moment and then reads it; without this every such pair starts a new cluster. Only where
the graph fixes the order of all reads and writes of the variable, outside loops, and all of them run
under the same conditions. Writes keep their nodes, names and control edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tensorflow.core.framework import graph_pb2

from .. import devices
from ..graph import deadness
from ..graph.pipeline import ViewedGraph
from ..graph.view import Graph, NodeDef, attr

_READ, _ASSIGN = "ReadVariableOp", "AssignVariableOp"
_UPDATES = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
_WRITES = frozenset({_ASSIGN, *_UPDATES})
_HANDLES = frozenset({"_Arg", "Placeholder", "VarHandleOp", "Switch"})
_OPAQUE = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless", "StatefulPartitionedCall", "If", "While", "Case"})
"""Ops that may run Python, which may write any variable."""
_LOOKERS = frozenset({"ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"})


def forward(graph: ViewedGraph, pure: Callable[[NodeDef], bool], preserve: Collection[str] = ()) -> graph_pb2.GraphDef:
    """The graph with written values passed on to later reads; the same object where there is none.

    A read becomes an Identity that still waits for the write, for often nothing else keeps the write from being
    pruned, and what comes after the read has to come after the write; one in `preserve` (kept for the caller)
    stays, and its users take such an Identity instead.
    `pure(node)`: may the node be part of a cluster? An update whose amount is computed outside clusters stays as
    it is: TensorFlow does it in place.
    """
    if not any(node.op in _WRITES for node in graph.graph_def.node):
        return graph.graph_def
    plan = _Plan(graph.view, pure)
    for uses in _uses_by_variable(graph.view).values():
        plan.variable(uses)
    return plan.apply(graph.graph_def, preserve)


def _uses_by_variable(graph: Graph) -> dict[tuple[int, int], list[int]]:
    """Handle -> the nodes that take it first, in topological order; variables that other ops take are left out."""
    uses: dict[tuple[int, int], list[int]] = {}
    unknown: set[tuple[int, int]] = set()
    for i in graph.topological():
        node = graph.nodes[i]
        for position, handle in enumerate(graph.data[i]):
            if node.op == _READ or (node.op in _WRITES and position == 0):
                uses.setdefault(handle, []).append(i)
            elif node.op not in _LOOKERS or position:
                unknown.add(handle)
    return {
        h: found
        for h, found in uses.items()
        if h not in unknown and graph.nodes[h[0]].op in _HANDLES and any(graph.nodes[i].op in _WRITES for i in found)
    }


@dataclass
class _Plan:
    """Edits: `values[i]`, the value an update now assigns; `reads[name]`, what users of a read take; `added`
    nodes."""

    graph: Graph
    pure: Callable[[NodeDef], bool]
    reads: dict[str, str] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    added: list[NodeDef] = field(default_factory=list)

    def __post_init__(self) -> None:
        order = self.graph.topological()
        self.conditions = deadness.analyse(self.graph, order)
        self.bit: dict[int, int] = {}
        self.opaque: list[int] = []
        self.before = [0] * len(self.graph)
        for i in order:
            found = 0
            for source in self.graph.sources(i):
                found |= self.before[source] | self.bit.get(source, 0)
            self.before[i] = found
            op = self.graph.nodes[i].op
            if op in _WRITES or op == _READ or op in _OPAQUE:
                self.bit[i] = 1 << len(self.bit)
                if op in _OPAQUE:
                    self.opaque.append(i)

    def precedes(self, a: int, b: int) -> bool:
        """Is there a path from a to b?"""
        return bool(self.before[b] & self.bit[a])

    def hidden_write(self, a: int, b: int) -> bool:
        """May something between a and b write the variable without naming it?"""
        return any(self.precedes(x, b) and not self.precedes(x, a) for x in self.opaque)

    def variable(self, uses: list[int]) -> None:
        """Plan the edits for one variable. `uses`: its reads and writes in topological order."""
        nodes = self.graph.nodes
        if not all(devices.decide(nodes[i].device) for i in uses):
            return
        conditions = {self.conditions[i] for i in uses}
        if len(conditions) > 1 or any(kind[0] in ("frame", "loop") for kind in next(iter(conditions))):
            return
        writes = [i for i in uses if nodes[i].op in _WRITES]
        if any(not self.precedes(a, b) for a, b in itertools.pairwise(writes)):
            return
        if len({attr(nodes[i], "dtype") for i in uses}) > 1:
            return
        value, last = "", -1
        for i in uses:
            if last >= 0 and (not self.precedes(last, i) or self.hidden_write(last, i)):
                return
            if nodes[i].op == _READ:
                if value and last >= 0:
                    self.reads[nodes[i].name] = value
                elif last < 0:
                    value = value or nodes[i].name
            else:
                value, last = self._write(i, value if self._is_current(i, value, last) else "", last), i

    def _is_current(self, write: int, value: str, last: int) -> bool:
        """Is `value` what the variable holds when `write` runs? A first read counts if it comes before it."""
        if not value or last >= 0:
            return bool(value)
        read = self.graph.index[value]
        return self.precedes(read, write) and not self.hidden_write(read, write)

    def _write(self, i: int, current: str, last: int) -> str:
        """The value after write i, '' where it is not known; an update becomes a sum and an assignment.

        `last`: the write before it, -1 where there is none."""
        node = self.graph.nodes[i]
        if node.op == _ASSIGN:
            # A value that exists under wider conditions than the write would make its readers run more often.
            alive = deadness.of_edge(self.graph, self.conditions, *self.graph.data[i][1])
            return str(node.input[1]) if alive == self.conditions[i] else ""
        amount = self.graph.nodes[self.graph.data[i][1][0]]
        total = NodeDef(name=f"{node.name}/tfxla_value", op=_UPDATES[node.op], device=node.device)
        total.attr["T"].type = attr(node, "dtype")
        if not (amount.op == "Const" or self.pure(amount)) or not self.pure(total):
            return ""
        if not current:
            current = self._read_before(i, last)
        total.input.extend([current, node.input[1]])
        total.experimental_debug_info.CopyFrom(node.experimental_debug_info)
        if not total.experimental_debug_info.original_node_names:
            total.experimental_debug_info.original_node_names.append(node.name)
        self.added.append(total)
        self.values[i] = total.name
        return total.name

    def _read_before(self, i: int, last: int) -> str:
        """A new read of what update i adds to: after all that may have written it, though the amount is not waited
        for, through which the update may have waited for them."""
        node = self.graph.nodes[i]
        earlier = [x for x in self.opaque if self.precedes(x, i)] + ([last] if last >= 0 else [])
        read = NodeDef(name=f"{node.name}/tfxla_read", op=_READ, device=node.device, input=[node.input[0]])
        read.input.extend(
            dict.fromkeys(
                [text for text in node.input if text.startswith("^")]
                + [f"^{self.graph.nodes[x].name}" for x in earlier]
            )
        )
        read.attr["dtype"].type = attr(node, "dtype")
        self.added.append(read)
        return read.name

    def apply(self, graph_def: graph_pb2.GraphDef, preserve: Collection[str]) -> graph_pb2.GraphDef:
        if not self.reads:
            return graph_def
        kept = {name: value for name, value in self.reads.items() if name in preserve}
        result = graph_pb2.GraphDef()
        result.CopyFrom(graph_def)
        result.node.extend(self.added)
        for node in result.node:
            if node.name in self.reads and node.name not in kept:
                _make_identity(node, self.reads[node.name])
            if any(text in kept for text in node.input):
                inputs = [_forwarded(text) if text in kept else text for text in node.input]
                del node.input[:]
                node.input.extend(inputs)
        for name, value in kept.items():
            read = self.graph.nodes[self.graph.index[name]]
            node = result.node.add(name=name, op=_READ, device=read.device, input=[name, f"^{name}"])
            node.attr["dtype"].type = attr(read, "dtype")
            _make_identity(node, _forwarded(value) if value in kept else value)
            node.name = _forwarded(name)
        for i, value in self.values.items():
            node = result.node[i]
            node.op = _ASSIGN
            node.input[1] = value
            node.attr["validate_shape"].b = True
        return result


def _forwarded(name: str) -> str:
    """The Identity that users of a read take where the read itself stays."""
    return f"{name}/tfxla_value"


def _make_identity(node: NodeDef, value: str) -> None:
    """A read becomes an Identity of the value that was written; it keeps its name and control edges."""
    dtype = attr(node, "dtype")
    control = [text for text in node.input if text.startswith("^")]
    del node.input[:]
    node.input.extend([value, *control])
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = dtype
