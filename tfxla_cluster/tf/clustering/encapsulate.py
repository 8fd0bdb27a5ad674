"""Replace each cluster of a graph by one call, with the original ops as the branch taken when it cannot compile.

    members --> ready = TfxlaReady(args); call = If(ready, args, then: TfxlaRun(args), else: the original ops)

A function called from inside a kernel would wait for the thread it runs on, so falling back is a branch of the
graph. Control edges of members become edges of the call. Constants are copied into the cluster; values that
the compiler must know stay arguments and are listed in `ClusterFunction.constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tensorflow.core.framework import function_pb2, graph_pb2, types_pb2

from ...tf2xla.function_calls import called, reachable
from ..devices import HOST, host_of, place_of
from ..graph import host_memory, open_sizes
from ..graph import view as graphs
from ..graph.open_sizes import OpenSizes
from ..graph.view import Graph, NodeDef
from ..native_op.op import Watcher
from .copied_constants import is_copied, waits_for
from .given import Given, given
from .mark_for_compilation import CLUSTERED_ATTR, Cluster, Clustering

_DROPPED_ATTRS = ("_class", "_output_shapes", "_xla_inferred_shapes")


@dataclass
class ClusterFunction:
    """A cluster as a function. `constants`: positions of arguments whose values compiling needs.

    `library`: the functions that its nodes call, directly or not. `nodes`: names of the nodes in it, as the graph
    has them. `device`: the device type that all of them are placed on. `given`: what each argument is.
    """

    name: str
    fdef: function_pb2.FunctionDef
    input_types: list[int]
    output_types: list[int]
    constants: tuple[int, ...]
    nodes: list[str]
    library: dict[str, function_pb2.FunctionDef] = field(default_factory=dict)
    device: str = HOST
    given: tuple[Given, ...] = ()


class Program(Protocol):
    """What makes the nodes that run a cluster (tf.native_op.op.Program)."""

    watcher: Watcher | None

    def node(self, name: str, inputs: Sequence[str], op: str = ...) -> NodeDef:
        """A node of the native op; `inputs` as the graph or function it goes into names them."""


class Checks(Protocol):
    """What may stand between a cluster and its neighbours (tf.cluster_checks.Checks): each takes the name of a
    value of TF dtype number `kind` and gives the name of that value behind the check's nodes."""

    def input(self, result: graph_pb2.GraphDef, cluster: str, number: int, value: str, kind: int) -> str: ...

    def output(self, result: graph_pb2.GraphDef, cluster: str, number: int, value: str, kind: int) -> str: ...


MakeProgram = Callable[[ClusterFunction], Program]
RUN, READY = "TfxlaRun", "TfxlaReady"


@dataclass
class _Edges:
    """What crosses a cluster's border: `inputs` and `outputs` as (producer, port), `control` into it, by name."""

    inputs: list[tuple[int, int]]
    constants: list[int]
    outputs: list[tuple[int, int]]
    control: list[str]


def encapsulate(
    graph_def: graph_pb2.GraphDef,
    graph: Graph,
    clustering: Clustering,
    make_program: MakeProgram,
    fetched: Collection[str] = (),
    checks: Checks | None = None,
) -> tuple[graph_pb2.GraphDef, list[ClusterFunction]]:
    """The graph with calls in place of its clusters, and the clusters' functions.

    `graph` views `graph_def`, which is not changed. `fetched`: names that must still exist.
    `checks`: what is put around the clusters to look at their values.
    """
    cluster_of = clustering.cluster_of()
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    del result.node[:]
    functions: list[ClusterFunction] = []
    renamed: dict[tuple[str, int], str] = {}
    call_of: dict[str, str] = {}
    found = [(cluster, _edges(graph, cluster, cluster_of, fetched)) for cluster in clustering.clusters]
    crossing = [(cluster, edges) for cluster, edges in found if edges.outputs]
    sizes = OpenSizes(graph, (source for _, edges in crossing for source, _ in edges.inputs))
    for cluster, edges in crossing:
        first = len(result.node)
        function = cluster_function(graph, cluster, edges.inputs, edges.constants, edges.outputs, sizes)
        functions.append(function)
        call = f"{cluster.name}/call"
        for k, (node, port) in enumerate(edges.outputs):
            value = f"{call}:{k}" if k else call
            if checks is not None:
                value = checks.output(result, cluster.name, k, value, function.output_types[k])
            renamed[graph.nodes[node].name, port] = value
        call_of.update((graph.nodes[i].name, call) for i in cluster.members)
        for i in cluster.members:
            if graph.nodes[i].name in fetched:
                _add_stand_in(result, graph, i)
        _add_call(result, graph, cluster, function, edges, make_program(function), checks)
        device = graph.nodes[cluster.members[0]].device
        for node in result.node[first:]:
            node.device = host_of(device) if node.op == "Print" else device
    result.node.extend(node for node in graph.nodes if node.name not in call_of)
    for node in result.node:
        _rewire(node, renamed, call_of)
    return result, functions


def _add_stand_in(result: graph_pb2.GraphDef, graph: Graph, i: int) -> None:
    """A node of the member's name that passes on the call's results (its inputs are rewired to the call)."""
    name, types = graph.nodes[i].name, graph.output_types(i)
    node = result.node.add(
        name=name,
        op="IdentityN" if len(types) > 1 else "Identity",
        device=graph.nodes[i].device,
        input=[f"{name}:{port}" if port else name for port in range(len(types))],
    )
    if len(types) > 1:
        node.attr["T"].list.type.extend(types)
    else:
        node.attr["T"].type = types[0]


def _edges(graph: Graph, cluster: Cluster, cluster_of: dict[int, Cluster], fetched: Collection[str]) -> _Edges:
    members = set(cluster.members)
    inputs: dict[tuple[int, int], None] = {}
    constants: dict[int, None] = {}
    control: dict[str, None] = {}
    for i in cluster.members:
        for source, port in graph.data[i]:
            if source in members:
                continue
            if is_copied(graph, source):
                constants[source] = None
                control.update(dict.fromkeys(graph.nodes[s].name for s in waits_for(graph, source) if s not in members))
            else:
                inputs[source, port] = None
        control.update(dict.fromkeys(graph.nodes[s].name for s in waits_for(graph, i) if s not in members))
    outputs = {
        (s, port): None
        for i in cluster.members
        for u in graph.users[i]
        if cluster_of.get(u) is not cluster
        for s, port in graph.data[u]
        if s == i
    }
    for i in cluster.members:
        if graph.nodes[i].name in fetched:
            outputs.update(dict.fromkeys((i, port) for port in range(len(graph.output_types(i)))))
    return _Edges(list(inputs), list(constants), list(outputs), list(control))


def cluster_function(
    graph: Graph,
    cluster: Cluster,
    inputs: list[tuple[int, int]],
    constants: list[int],
    outputs: list[tuple[int, int]],
    sizes: OpenSizes,
) -> ClusterFunction:
    """The members as a FunctionDef: `inputs` become its arguments, `outputs` its results, both in this order. The
    arguments say, as those of a trace do, which of their sizes the graph leaves open."""
    name = f"tfxla_{cluster.name}"
    fdef = function_pb2.FunctionDef()
    fdef.signature.name = name
    members = set(cluster.members)
    types = {i: graph.output_types(i) for i in {source for source, _ in inputs + outputs}}
    place: dict[tuple[int, int], str] = {}
    for k, (source, port) in enumerate(inputs):
        place[source, port] = f"tfxla_arg_{k}"
        fdef.signature.input_arg.add(name=place[source, port], type=types[source][port])
        shape = sizes.shape(source, port)
        if shape is not None:
            fdef.arg_attr[k].attr[open_sizes.ARG_SHAPES].list.shape.add().CopyFrom(shape)
    for i in [*constants, *cluster.members]:
        _add_member(fdef.node_def.add(), graph, i, members, place)
    for k, (source, port) in enumerate(outputs):
        fdef.signature.output_arg.add(name=f"tfxla_result_{k}", type=types[source][port])
        fdef.ret[f"tfxla_result_{k}"] = f"{graph.nodes[source].name}:{graph.output_name(source, port)}"
    names = [name for i in cluster.members for name in called(graph.nodes[i], graph.functions.get)]
    library = {f.signature.name: f for f in reachable(names, graph.functions.get)}
    return ClusterFunction(
        name,
        fdef,
        [a.type for a in fdef.signature.input_arg],
        [a.type for a in fdef.signature.output_arg],
        tuple(k for k, source in enumerate(inputs) if source in cluster.constants),
        [graph.nodes[i].name for i in cluster.members],
        library,
        place_of(graph.nodes[cluster.members[0]].device).target,
        tuple(given(graph, source, port) for source, port in inputs),
    )


def _add_member(node: NodeDef, graph: Graph, i: int, members: set[int], place: dict[tuple[int, int], str]) -> None:
    original = graph.nodes[i]
    node.CopyFrom(original)
    node.device = ""
    node.attr[CLUSTERED_ATTR].b = True
    for name in _DROPPED_ATTRS:
        if name in node.attr:
            del node.attr[name]
    del node.input[:]
    for source, port in graph.data[i]:
        named = place.get((source, port))
        node.input.append(named or f"{graph.nodes[source].name}:{graph.output_name(source, port)}")
    node.input.extend(f"^{graph.nodes[s].name}" for s in waits_for(graph, i) if s in members)


def _add_call(
    result: graph_pb2.GraphDef,
    graph: Graph,
    cluster: Cluster,
    function: ClusterFunction,
    edges: _Edges,
    program: Program,
    checks: Checks | None,
) -> None:
    """The ready and call nodes, and the two branch functions. Data inputs still name the original producers."""
    data = [_value(result, graph, cluster, s, port) for s, port in edges.inputs]
    if checks is not None:
        data = [checks.input(result, cluster.name, k, value, function.input_types[k]) for k, value in enumerate(data)]
    control = [f"^{name}" for name in edges.control]
    ready = program.node(f"{cluster.name}/ready", data + control, READY)
    call = result.node.add(name=f"{cluster.name}/call", op="If", input=[ready.name, *data, *control])
    call.attr["Tcond"].type = types_pb2.DT_BOOL
    call.attr["Tin"].list.type.extend(function.input_types)
    call.attr["Tout"].list.type.extend(function.output_types)
    call.attr["output_shapes"].list.SetInParent()
    host_memory.keep_branch(call)
    native = _native_branch(function, program)
    call.attr["then_branch"].func.name = native.signature.name
    call.attr["else_branch"].func.name = function.name
    for node in (ready, call):
        node.attr[CLUSTERED_ATTR].b = True
    result.node.add().CopyFrom(ready)
    result.library.function.add().CopyFrom(native)
    result.library.function.add().CopyFrom(function.fdef)


def _value(result: graph_pb2.GraphDef, graph: Graph, cluster: Cluster, source: int, port: int) -> str:
    """The name of a cluster's input. One that a Switch sends down another side than the first goes through a node.

    Grappler's control-flow sink turns the If into regions and back; an op of a branch that only waits for an argument
    then makes the first output of the argument's node an input too, of a Switch the dead one, and the call never runs.
    """
    node = graph.nodes[source]
    if not port or node.op not in graphs.SWITCHES:
        return f"{node.name}:{port}" if port else node.name
    gate = result.node.add(
        name=f"{cluster.name}/{node.name}_{port}", op=graphs.KEPT_IDENTITY, input=[f"{node.name}:{port}"]
    )
    gate.attr["dtype"].type = graph.output_types(source)[port]
    gate.attr["shape"].shape.unknown_rank = True
    gate.attr[CLUSTERED_ATTR].b = True
    return gate.name


def _native_branch(function: ClusterFunction, program: Program) -> function_pb2.FunctionDef:
    fdef = function_pb2.FunctionDef()
    fdef.signature.CopyFrom(function.fdef.signature)
    fdef.signature.name = f"{function.name}_native"
    fdef.signature.is_stateful = True
    node = program.node("run", [a.name for a in fdef.signature.input_arg], RUN)
    node.attr[CLUSTERED_ATTR].b = True
    fdef.node_def.add().CopyFrom(node)
    results = f"run:{'results' if node.op == RUN else 'output'}"
    if program.watcher is not None:
        results = program.watcher.add_to(fdef, "run", [a.name for a in fdef.signature.input_arg])
    for k, argument in enumerate(fdef.signature.output_arg):
        fdef.ret[argument.name] = f"{results}:{k}"
    return fdef


def _rewire(node: NodeDef, renamed: dict[tuple[str, int], str], call_of: dict[str, str]) -> None:
    """Point a node's inputs at the calls; control inputs that became equal, or equal a data input, are dropped."""
    if not any(graphs.split_input(text)[0] in call_of for text in node.input):
        return
    inputs: dict[str, None] = {}
    data: list[str] = []
    for text in node.input:
        name, port = graphs.split_input(text)
        if port < 0:
            inputs[f"^{call_of.get(name, name)}"] = None
        else:
            data.append(renamed.get((name, port), text))
    del node.input[:]
    node.input.extend(data + list(inputs))
