"""What may be compiled where: device names of every form, and drawn graphs whose nodes lie on several devices."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tensorflow.core.framework import function_pb2, graph_pb2

from tests.tf.calls import CallProgram
from tests.tf.test_clustering import drawn
from tfxla_cluster.backends import registry
from tfxla_cluster.tf import devices
from tfxla_cluster.tf.clustering.encapsulate import encapsulate
from tfxla_cluster.tf.clustering.mark_for_compilation import CLUSTERED_ATTR, Options, find_clusters
from tfxla_cluster.tf.clustering.support import Checker
from tfxla_cluster.tf.graph.acyclic import is_acyclic
from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.graph.view import Graph
from tfxla_cluster.tf.rewrites import effects, forwarding, random_ops

TASK = "/job:localhost/replica:0/task:0"
PLACES = (
    "",
    "/CPU:0",
    f"{TASK}/device:CPU:0",
    f"{TASK}/device:CPU:1",
    f"{TASK}/device:GPU:0",
    "/device:GPU:1",
    "/GPU:0",
)


@pytest.fixture(params=[("GPU",), ("GPU", "NPU")])
def with_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> devices.Machine:
    """A process that has devices without a backend."""
    machine = devices.Machine(request.param, ("localhost", 0))
    monkeypatch.setattr(devices, "machine", lambda: machine)
    return machine


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("/CPU:0", ""),
        ("/cpu:0", ""),
        ("/device:CPU:1", ""),
        ("/job:localhost/replica:0/task:0/device:CPU:0", ""),
        ("/replica:0/task:0/device:CPU:0", ""),
        ("/GPU:0", "device"),
        ("/gpu:1", "device"),
        ("/device:GPU:*", "device"),
        ("/job:localhost/replica:0/task:0/device:GPU:0", "device"),
        ("/device:TPU:0", "device"),
        ("", "device"),
        ("/job:localhost", "device"),
        ("/job:worker/replica:0/task:1/device:CPU:0", "task"),
        ("/job:worker/task:1/device:GPU:0", "task"),
        ("/job:ps", "task"),
    ],
)
def test_names_with_a_gpu(with_gpu: devices.Machine, name: str, rule: str) -> None:
    decision = devices.decide(name)
    assert (bool(decision), decision.rule) == (not rule, rule)
    assert bool(decision) or "GPU" in decision.reason or "TPU" in decision.reason or rule == "task"


@pytest.mark.parametrize("name", ["", "/CPU:0", "/GPU:0", f"{TASK}/device:CPU:1", "/device:GPU:3"])
def test_where_all_devices_have_a_backend_names_do_not_count(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(devices, "machine", lambda: devices.Machine((), ("localhost", 0)))
    assert devices.decide(name)


def test_each_type_has_the_backend_that_is_named_for_it() -> None:
    assert {kind: make().name for kind, make in registry.FOR_DEVICES.items()} == devices.BACKENDS


def test_own_task_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "machine", lambda: devices.Machine((), ("worker", 1)))
    assert devices.decide("/job:worker/replica:0/task:1/device:CPU:0")
    assert devices.decide("/job:worker/replica:0/task:0/device:CPU:0").rule == "task"


def test_this_machine_is_what_tensorflow_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices._Known, "devices", None)
    monkeypatch.setattr(devices, "local_types", lambda: ["CPU", "NPU", "XLA_CPU", "CPU"])
    assert devices.machine() == devices.Machine(("NPU",), ("localhost", 0))
    monkeypatch.setattr(devices._Known, "devices", None)
    monkeypatch.setattr(devices, "local_types", lambda: ["CPU"])
    assert not devices.has_missing()


def placed(seed: int) -> graph_pb2.GraphDef:
    """A drawn graph whose nodes lie on drawn devices."""
    draw = random.Random(seed)
    graph = drawn(seed)
    some = draw.sample(PLACES, 3)
    for node in graph.node:
        node.device = draw.choice(some)
    return graph


@pytest.fixture
def graphs() -> Iterator[tuple[int, graph_pb2.GraphDef]]:
    return ((seed, placed(seed)) for seed in range(300))


def test_clusters_lie_on_one_device_with_a_backend(
    with_gpu: devices.Machine, graphs: Iterator[tuple[int, graph_pb2.GraphDef]]
) -> None:
    made = left = 0
    for seed, graph_def in graphs:
        graph = Graph.of_graph_def(graph_def)
        found = find_clusters(graph, Checker({}), Options(min_size=1))
        for cluster in found.clusters:
            places = {devices.place_of(graph.nodes[i].device)[1:] for i in cluster.members}
            assert places in ({("CPU", 0)}, {("CPU", 1)}), seed
        left += sum(d.rule == "device" for d in found.decisions.values())
        result, functions = encapsulate(graph_def, graph, found, lambda f: CallProgram(f, True))
        made += len(functions)
        assert is_acyclic(result), seed
        assert all(f.device == "CPU" for f in functions)
        for node in result.node:
            if CLUSTERED_ATTR in node.attr:
                assert devices.place_of(node.device).type == "CPU", seed
        kept = {node.name: node.device for node in graph_def.node}
        assert all(kept.get(node.name, node.device) == node.device for node in result.node), seed
    assert made > 100
    assert left > 1000


def test_without_such_devices_all_of_it_is_clustered(graphs: Iterator[tuple[int, graph_pb2.GraphDef]]) -> None:
    for _, graph_def in graphs:
        found = find_clusters(Graph.of_graph_def(graph_def), Checker({}), Options(min_size=1))
        assert not any(d.rule == "device" for d in found.decisions.values())


def test_rewrites_leave_what_lies_elsewhere(with_gpu: devices.Machine) -> None:
    graph = graph_pb2.GraphDef()
    graph.node.add(name="v", op="VarHandleOp", device="/GPU:0")
    graph.node.add(name="x", op="Placeholder", device="/GPU:0").attr["dtype"].type = 1
    graph.node.add(name="a", op="AssignVariableOp", device="/GPU:0", input=["v", "x"]).attr["dtype"].type = 1
    graph.node.add(name="r", op="ReadVariableOp", device="/GPU:0", input=["v", "^a"]).attr["dtype"].type = 1
    graph.node.add(name="seed", op="Placeholder", device="/GPU:0").attr["dtype"].type = 9
    graph.node.add(name="k", op="StatelessRandomGetKeyCounter", device="/GPU:0", input=["seed"])
    checker = Checker({})
    assert [n.op for n in random_ops.expand_graph(graph).node] == [n.op for n in graph.node]
    assert forwarding.forward(ViewedGraph(graph), lambda node: bool(checker.node(node))) is graph
    assert effects.defer(ViewedGraph(graph), lambda node: bool(checker.node(node)), ()) is graph


@pytest.mark.parametrize(
    ("inner", "rule"), [("/GPU:0", "device"), ("", ""), ("/CPU:0", ""), ("/job:ps/task:0", "task")]
)
def test_a_called_function_lies_where_its_nodes_ask(with_gpu: devices.Machine, inner: str, rule: str) -> None:
    called = function_pb2.FunctionDef()
    called.signature.name = "called"
    node = called.node_def.add(name="n", op="Neg", device=inner, input=["x"])
    node.attr["T"].type = 1
    call = graph_pb2.GraphDef().node.add(name="c", op="PartitionedCall", device="/CPU:0")
    call.attr["f"].func.name = "called"
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    assert Checker({"called": called}).node(call).rule == rule
