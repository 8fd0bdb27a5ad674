"""Lists of tensors (variants) that belong together: no compiled part can take one or give one back.

Nodes that hand a variant to each other are one group. A cluster holds all of a group or none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tensorflow.core.framework import function_pb2, op_def_pb2, types_pb2
from tensorflow.python.framework import tensor_util

from . import view as graphs
from .view import NodeDef

OUTSIDE = ""
"""Member of a group that an argument or a result of a function belongs to."""
Group = frozenset[str]


def of_nodes(
    nodes: Sequence[NodeDef],
    op_def: Callable[[str], op_def_pb2.OpDef | None],
    functions: Collection[str],
    results: Iterable[str] = (),
) -> list[Group]:
    """The groups of a graph's nodes, or a function's, by names. `functions`: names of the library's;
    `results`: the inputs, as nodes name theirs, that are variants and results of the function."""
    names = {node.name for node in nodes}
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for node in nodes:
        if node.op in functions or types_pb2.DT_VARIANT in graphs.data_types(node):
            find(node.name)
            for text, kind in zip(node.input, graphs.input_types(node, op_def(node.op))):
                if kind == types_pb2.DT_VARIANT:
                    parent[find(_producer(text, names))] = find(node.name)
    for text in results:
        parent[find(_producer(text, names))] = find(OUTSIDE)
    found: dict[str, set[str]] = {}
    for name in parent:
        found.setdefault(find(name), set()).add(name)
    return [frozenset(group) for group in found.values()]


def of_function(function: function_pb2.FunctionDef, graph: graphs.Graph) -> list[Group]:
    """The groups of a function of the graph's library."""
    results = [function.ret[a.name] for a in function.signature.output_arg if a.type == types_pb2.DT_VARIANT]
    return of_nodes(function.node_def, graph.op_def, graph.functions, results)


def not_held(nodes: Sequence[NodeDef], groups: Iterable[Group], stays: Callable[[NodeDef], bool]) -> set[str]:
    """Names of the nodes whose group cannot lie in one cluster, since not all of it `stays`."""
    by_name = {node.name: node for node in nodes}

    def kept(name: str) -> bool:
        node = by_name.get(name)
        return node is not None and node.op != "Const" and stays(node) and not is_unsafe(node, by_name)

    return {name for group in groups if not all(map(kept, group)) for name in group}


def is_unsafe(node: NodeDef, nodes: Mapping[str, NodeDef]) -> bool:
    """Does the node make a list that may take any number of elements, as a loop without an end known beforehand does
    for its gradient, or take an element by an index that is data? Compiled, a list has a size, and no index is
    checked. `nodes`: those of the same graph or function by name."""
    if node.op == "EmptyTensorList":
        most = nodes.get(node.input[1].partition(":")[0])
        return most is not None and most.op == "Const" and int(tensor_util.MakeNdarray(most.attr["value"].tensor)) < 0
    return node.op in _INDEXED and _is_data(node.input[1], nodes)


_INDEXED = frozenset({"TensorListGetItem", "TensorListSetItem", "TensorListGather"})
_COUNTING = frozenset(
    ("Identity", "AddV2", "Add", "Sub", "Mul", "Neg", "Minimum", "Maximum", "FloorMod", "FloorDiv", "Cast", "Range")
)
_COUNTS = frozenset({"Const", "Size", "Shape", "TensorListLength", "TensorListPopBack"})
"""Ops whose result is no data of the user's: an index that the forward half of a loop pushed, for one."""


def _is_data(text: str, nodes: Mapping[str, NodeDef]) -> bool:
    """Is the value computed by more than counting, from constants and a function's arguments?"""
    pending = [text]
    seen: set[str] = set()
    while pending:
        name = pending.pop().partition(":")[0]
        node = nodes.get(name)
        if node is None or name in seen or name.startswith("^") or node.op in _COUNTS:
            continue
        if node.op not in _COUNTING:
            return True
        seen.add(name)
        pending.extend(node.input)
    return False


def _producer(text: str, names: Collection[str]) -> str:
    name = text.partition(":")[0]
    return name if name in names else OUTSIDE
