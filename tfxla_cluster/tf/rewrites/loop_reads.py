"""Variables that a loop only reads are read once before it, so that the loop can be compiled as one op.

    While(x, variable)   body: ... ReadVariableOp(variable) ...
becomes
    While(x, ReadVariableOp(variable))   body: ... Identity(value) ...

Only where the loop writes no variable at all (two of its arguments may be one variable) and can be compiled then:
nothing in it can change a variable behind its back. What is ordered before the loop is ordered before the reads.
A variable without a value is an error then also where the loop ends before its first iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.framework.function_pb2 import FunctionDef

from ...tf2xla.function_calls import LOOPS
from ..graph.pipeline import ViewedGraph
from ..graph.view import NodeDef, split_input, type_list

Library = dict[str, FunctionDef]
_SUFFIX = "_tfxla_read_before"


@dataclass(frozen=True)
class _OverValues:
    """A loop over values: `functions` are its own, `kinds` the dtype of each variable by its argument's position."""

    loop: NodeDef
    functions: Library
    kinds: Mapping[int, int]


def hoist(
    graph: ViewedGraph, compilable: Callable[[NodeDef, Mapping[str, FunctionDef]], bool], fetched: Collection[str] = ()
) -> graph_pb2.GraphDef:
    """The graph with the reads before its loops; the same object where there are none.

    `compilable(node, library)`: may the loop, which calls functions of the library, be compiled? `fetched`: names of
    nodes whose values are asked for.
    """
    given = graph.graph_def
    library = {f.signature.name: f for f in given.library.function}
    found: dict[int, _OverValues] = {}
    for i, node in enumerate(given.node):
        if node.op in LOOPS and node.name not in fetched and _handles(node) and _only_reads_follow(graph, i):
            changed = _over_values(node, library)
            if changed is not None and compilable(changed.loop, {**library, **changed.functions}):
                found[i] = changed
    if not found:
        return given
    result = graph_pb2.GraphDef()
    result.CopyFrom(given)
    for i, changed in found.items():
        _replace(result, graph, i, changed)
        result.library.function.extend(f for name, f in changed.functions.items() if name not in library)
        library.update(changed.functions)
    return result


def _only_reads_follow(graph: ViewedGraph, i: int) -> bool:
    """Do all that take a variable from the loop only read it, or its shape?"""
    handles = _handles(graph.view.nodes[i])
    taking = [user for user in graph.view.users[i] if any(s == i and p in handles for s, p in graph.view.data[user])]
    return all(graph.view.nodes[user].op in ("ReadVariableOp", "VariableShape") for user in taking)


def _replace(result: graph_pb2.GraphDef, graph: ViewedGraph, i: int, changed: _OverValues) -> None:
    """The loop over values and its reads behind all nodes. What waits for the loop waits for the reads: the rest of
    it has no effect. They have its name, which a function may have to keep."""
    node = graph.view.nodes[i]
    waits = [text for text in node.input if text.startswith("^")]
    loop, place = result.node.add(), result.node[i]
    loop.CopyFrom(changed.loop)
    loop.name, loop.op = f"{node.name}/tfxla_over_values", "StatelessWhile"
    place.Clear()
    place.name, place.op, place.device = node.name, "NoOp", node.device
    for k, kind in changed.kinds.items():
        name = f"{node.name}/tfxla_read_{k}"
        read = result.node.add(name=name, op="ReadVariableOp", device=node.device, input=[node.input[k], *waits])
        read.attr["dtype"].type = kind
        loop.input[k] = name
        place.input.append(f"^{name}")
    place.input.extend(waits)
    for user in graph.view.users[i]:
        _take_from(result.node[user], node, loop.name, changed.kinds, waits)


def _take_from(user: NodeDef, old: NodeDef, new: str, kinds: Collection[int], waits: Iterable[str]) -> None:
    """Point a node's inputs from a loop at the loop over values; at the variable itself where it takes one."""
    for number, text in enumerate(user.input):
        name, port = split_input(text)
        if name != old.name or port < 0:
            continue
        user.input[number] = old.input[port] if port in kinds else f"{new}:{port}" if port else new
        if port in kinds:
            user.input.extend(text for text in waits if text not in user.input)


def _handles(node: NodeDef) -> list[int]:
    return [k for k, kind in enumerate(type_list(node, "T")) if kind == types_pb2.DT_RESOURCE]


def _over_values(node: NodeDef, library: Library) -> _OverValues | None:
    """The loop over values; None where it does more with a variable than to read it, or does not read it."""
    handles = _handles(node)
    names = [node.attr[key].func.name for key in ("cond", "body")]
    if not all(name in library for name in names):
        return None
    kinds = _kinds(library[names[0]], library[names[1]], handles)
    if len(kinds) < len(handles):
        return None
    loop = NodeDef()
    loop.CopyFrom(node)
    functions: Library = {}
    for key, name in zip(("cond", "body"), names):
        function = _function(library[name], kinds, is_body=key == "body")
        functions[function.signature.name] = function
        loop.attr[key].func.name = function.signature.name
    shapes = loop.attr["output_shapes"].list.shape
    for k, kind in kinds.items():
        loop.attr["T"].list.type[k] = kind
        if k < len(shapes):
            shapes[k].Clear()
            shapes[k].unknown_rank = True
    for name in ("_output_shapes", "_xla_inferred_shapes"):
        if name in loop.attr:
            del loop.attr[name]
    return _OverValues(loop, functions, kinds)


def _kinds(cond: FunctionDef, body: FunctionDef, handles: Iterable[int]) -> dict[int, int]:
    """The dtype of the variables that are passed on as they are, and read as one dtype and not used otherwise."""
    found: dict[int, int] = {}
    for k in handles:
        reads = [_reads(function, k) for function in (cond, body)]
        kinds = {kind for read in reads for kind in read or ()}
        passed_on = body.ret[body.signature.output_arg[k].name] == body.signature.input_arg[k].name
        if passed_on and None not in reads and len(kinds) == 1:
            found[k] = kinds.pop()
    return found


def _reads(function: FunctionDef, k: int) -> set[int] | None:
    """The dtypes that the k-th argument is read as; None where it is used in another way."""
    name = function.signature.input_arg[k].name
    users = [node for node in function.node_def if name in node.input]
    if any(node.op != "ReadVariableOp" for node in users):
        return None
    return {node.attr["dtype"].type for node in users}


def _function(function: FunctionDef, kinds: Mapping[int, int], is_body: bool) -> FunctionDef:
    """A copy of a loop's condition or body that takes the values of these arguments, and passes them on."""
    result = FunctionDef()
    result.CopyFrom(function)
    signature = result.signature
    signature.name += _SUFFIX
    for k, kind in kinds.items():
        for argument in (signature.input_arg[k], *([signature.output_arg[k]] if is_body else [])):
            argument.ClearField("handle_data")
            argument.type = kind
        result.resource_arg_unique_id.pop(k, None)
        if k in result.arg_attr:
            del result.arg_attr[k]
    arguments = {signature.input_arg[k].name for k in kinds}
    renamed: dict[str, str] = {}
    for node in result.node_def:
        if node.op == "ReadVariableOp" and node.input[0] in arguments:
            renamed[f"{node.name}:value:0"] = f"{node.name}:output:0"
            _become_identity(node)
    for node in result.node_def:
        for number, text in enumerate(node.input):
            node.input[number] = renamed.get(text, text)
    for name, text in list(result.ret.items()):
        result.ret[name] = renamed.get(text, text)
    return result


def _become_identity(node: NodeDef) -> None:
    kind = node.attr["dtype"].type
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = kind
