"""A light view of a GraphDef or FunctionDef: nodes by position, edges as integers, no copies of protos.

Positions, not names, are the currency of the passes that follow: a graph of 100,000 nodes is walked in
integers. Attributes are read through `attr`, because reading `node.attr['x']` inserts an empty AttrValue, which
TensorFlow later rejects ("Failed to bind all placeholders").
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import function_pb2, graph_pb2, op_def_pb2
from tensorflow.core.framework.node_def_pb2 import NodeDef as NodeDef
from tensorflow.python.framework import op_def_registry

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
KEPT_IDENTITY = "PlaceholderWithDefault"
"""An Identity that grappler does not take away."""
CLUSTER_ATTR = "_XlaCluster"
"""Of a node in a graph that is dumped: what it is compiled with."""
CONTROL_FLOW = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS | {"LoopCond"}
"""Ops of TensorFlow's lowered (v1) control flow: they route dead tensors and frames, nothing can move past them."""


def attr(node: NodeDef, name: str, default: Any = None) -> Any:
    """The value of an attribute (bool, int, float, bytes, dtype enum, shape, list, function) or `default`."""
    if name not in node.attr:
        return default
    value = node.attr[name]
    kind = value.WhichOneof("value")
    return default if kind is None else getattr(value, kind)


def type_list(node: NodeDef, name: str) -> list[int]:
    """The dtypes of a list(type) attribute, empty where absent."""
    value = attr(node, name)
    return [] if value is None else list(value.type)


def split_input(text: str) -> tuple[str, int]:
    """`name`, `name:3`, `^name` of a GraphDef as (name, port); port -1 is a control edge."""
    if text.startswith("^"):
        return text[1:], -1
    name, colon, port = text.rpartition(":")
    return (name, int(port)) if colon else (text, 0)


class Graph:
    """Nodes and edges of one graph; `functions` holds the definitions that its nodes may call.

    `data[i]` lists (producer, port) in input order, `control[i]` the producers of control edges, `users[i]` the
    positions that consume node i by either kind (each once). Producers that the graph lacks are left out.
    """

    def __init__(self, nodes: Sequence[NodeDef], functions: dict[str, function_pb2.FunctionDef] | None = None):
        self.nodes = list(nodes)
        self.functions = functions or {}
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        self.data: list[list[tuple[int, int]]] = []
        self.control: list[list[int]] = []
        self.users: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            self._connect(i, node)

    def _connect(self, i: int, node: NodeDef) -> None:
        data: list[tuple[int, int]] = []
        control: list[int] = []
        for text in node.input:
            name, port = split_input(text)
            source = self.index.get(name)
            if source is None:
                continue
            if port < 0:
                control.append(source)
            else:
                data.append((source, port))
        self.data.append(data)
        self.control.append(control)
        for source in dict.fromkeys([s for s, _ in data] + control):
            self.users[source].append(i)

    @classmethod
    def of_graph_def(cls, graph_def: graph_pb2.GraphDef) -> Graph:
        return cls(graph_def.node, {f.signature.name: f for f in graph_def.library.function})

    def __len__(self) -> int:
        return len(self.nodes)

    def sources(self, i: int) -> Iterator[int]:
        """Producers of node i, data then control; one that feeds two inputs comes twice."""
        for source, _ in self.data[i]:
            yield source
        yield from self.control[i]

    def is_back_edge(self, source: int) -> bool:
        return self.nodes[source].op in NEXT_ITERATIONS

    def topological(self) -> list[int]:
        """Positions, producers first; edges out of NextIteration (loop back edges) do not count.

        Among ready nodes the earlier position comes first to be released, so the order depends on the graph only.
        Nodes on any other cycle (an invalid graph) are left out.
        """
        waiting = [0] * len(self)
        for i in range(len(self)):
            waiting[i] = len({s for s in self.sources(i) if not self.is_back_edge(s)})
        order = [i for i, count in enumerate(waiting) if not count]
        for i in order:
            if self.is_back_edge(i):
                continue
            for user in self.users[i]:
                waiting[user] -= 1
                if not waiting[user]:
                    order.append(user)
        return order

    def op_def(self, op: str) -> op_def_pb2.OpDef | None:
        """The definition of an op or of a library function called as one."""
        if op in self.functions:
            return self.functions[op].signature
        return op_def_registry.get(op)

    def output_types(self, i: int) -> list[int]:
        """One dtype a port of node i."""
        node = self.nodes[i]
        definition = self.op_def(node.op)
        types: list[int] = []
        for argument in definition.output_arg if definition else ():
            types.extend(argument_types(node, argument))
        return types

    def output_name(self, i: int, port: int) -> str:
        """How a FunctionDef names the port: `arg:index`."""
        node = self.nodes[i]
        definition = self.op_def(node.op)
        for argument in definition.output_arg if definition else ():
            count = len(argument_types(node, argument))
            if port < count:
                return f"{argument.name}:{port}"
            port -= count
        raise IndexError(f"node {node.name} ({node.op}) has no output {port}")


def argument_types(node: NodeDef, argument: op_def_pb2.OpDef.ArgDef) -> list[int]:
    """The dtypes an OpDef argument stands for on this node (number_attr and type_list_attr make several)."""
    if argument.type_list_attr:
        return type_list(node, argument.type_list_attr)
    dtype = argument.type or attr(node, argument.type_attr, 0) or _default_type(node.op, argument.type_attr)
    count = attr(node, argument.number_attr, 0) if argument.number_attr else 1
    return [dtype] * count


def _default_type(op: str, name: str) -> int:
    definition = op_def_registry.get(op)
    for declared in definition.attr if definition else ():
        if declared.name == name:
            return declared.default_value.type
    return 0


def input_types(node: NodeDef, definition: op_def_pb2.OpDef | None) -> list[int]:
    """One dtype a data input of the node."""
    types: list[int] = []
    for argument in definition.input_arg if definition else ():
        types.extend(argument_types(node, argument))
    return types


def data_types(node: NodeDef) -> Iterable[int]:
    """Dtypes of a node's attributes: all of them that are types, and resources and variants that ops have by
    definition."""
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "type":
            yield value.type
        elif kind == "list":
            yield from value.list.type
    yield from _fixed_types(node.op)


@functools.cache
def _fixed_types(op: str) -> tuple[int, ...]:
    definition = op_def_registry.get(op)
    if definition is None:
        return ()
    return tuple(a.type for a in (*definition.input_arg, *definition.output_arg) if a.type)
