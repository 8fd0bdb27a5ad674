"""What may be compiled where: device names of every form, and drawn graphs whose nodes lie on several devices."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from tensorflow.core.framework import function_pb2, graph_pb2, types_pb2

from tests.tf.calls import CallProgram
from tests.tf.test_clustering import drawn
from tfxla_cluster.backends import registry
from tfxla_cluster.decision import YES, Decision, no
from tfxla_cluster.tf import devices, graph_pass
from tfxla_cluster.tf.clustering.encapsulate import encapsulate
from tfxla_cluster.tf.clustering.mark_for_compilation import CLUSTERED_ATTR, Options, find_clusters
from tfxla_cluster.tf.clustering.support import Checker
from tfxla_cluster.tf.graph import host_memory
from tfxla_cluster.tf.graph.acyclic import is_acyclic
from tfxla_cluster.tf.graph.pipeline import ViewedGraph
from tfxla_cluster.tf.graph.view import Graph
from tfxla_cluster.tf.must_compile import nested
from tfxla_cluster.tf.native_op.op import Program
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


def forget_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test is over the devices are asked for anew; what was known of them then comes back whole."""
    for name in ("machine", "has_others"):
        monkeypatch.setattr(devices._Known, name, getattr(devices._Known, name))
    monkeypatch.setattr(devices._Known, "devices", None)


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
    assert registry.FOR_DEVICES.keys() == devices.BACKENDS.keys()
    assert registry.for_device("CPU").name == devices.BACKENDS["CPU"]


def test_own_task_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "machine", lambda: devices.Machine((), ("worker", 1)))
    assert devices.decide("/job:worker/replica:0/task:1/device:CPU:0")
    assert devices.decide("/job:worker/replica:0/task:0/device:CPU:0").rule == "task"


def test_this_machine_is_what_tensorflow_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_devices(monkeypatch)
    monkeypatch.setattr(devices, "local_types", lambda: ["CPU", "NPU", "XLA_CPU", "CPU"])
    assert devices.machine() == devices.Machine(("NPU",), ("localhost", 0))
    forget_devices(monkeypatch)
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


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[int]]]:
    """A process whose GPUs have a backend; how often it was made ready, by type."""
    asked: dict[str, list[int]] = {"GPU": []}

    def ready() -> Decision:
        asked["GPU"].append(1)
        return YES

    monkeypatch.setattr(devices._Offers, "ways", {"GPU": ready})
    monkeypatch.setattr(devices._Offers, "decisions", {})
    forget_devices(monkeypatch)
    monkeypatch.setattr(devices, "local_types", lambda: ["CPU", "GPU", "GPU"])
    devices._decide.cache_clear()
    yield asked
    devices._decide.cache_clear()
    devices._Known.devices = None


def test_a_backend_that_is_there(offered: dict[str, list[int]]) -> None:
    assert devices.has_accelerator()
    assert not devices.has_missing()
    for name in ("", "/GPU:1", "/CPU:0", f"{TASK}/device:GPU:0"):
        assert devices.decide(name)
    assert offered["GPU"] == [1]


def test_a_backend_that_is_not_there_says_why(offered: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    devices.offer("GPU", lambda: no("gpu-driver", "there is no CUDA driver"))
    assert not devices.has_accelerator()
    assert devices.decide("/CPU:0")
    assert devices.decide("/GPU:0").reason == (
        "it is placed on GPU:0, and there is no backend for GPU devices (there is no CUDA driver)"
    )
    assert "GPU" in devices.decide("").reason


def test_this_machine_has_no_gpu_or_can_use_it() -> None:
    found = registry.usable("GPU")
    assert found or "CUDA" in found.reason or "Triton" in found.reason
    assert registry.usable("CPU")
    assert not registry.usable("NPU")


def test_clusters_on_gpus(offered: dict[str, list[int]], graphs: Iterator[tuple[int, graph_pb2.GraphDef]]) -> None:
    """Each on one device; without --tf_xla_cpu_global_jit on GPUs alone; int32 at their borders stays the host's."""
    found_on: Counter[tuple[str, int]] = Counter()
    for seed, graph_def in graphs:
        graph = Graph.of_graph_def(graph_def)
        for cpu_too in (True, False):
            clustering = find_clusters(graph, Checker({}), Options(global_jit=cpu_too, min_size=1))
            for cluster in clustering.clusters:
                places = [devices.place_of(graph.nodes[i].device) for i in cluster.members]
                (place,) = {(p.target, p.number) for p in places}
                assert cpu_too or place[0] == "GPU", seed
                found_on[place] += 1
        result, _ = encapsulate(graph_def, graph, clustering, lambda f: CallProgram(f, True))
        assert is_acyclic(result), seed
        for node in result.node:
            if node.op == "If":
                wanted = [k for k, kind in enumerate(node.attr["Tin"].list.type, 1) if kind == types_pb2.DT_INT32]
                assert list(node.attr[host_memory.INPUTS].list.i) == wanted
    assert min(found_on.values()) > 20
    assert set(found_on) == {("CPU", 0), ("CPU", 1), ("GPU", 0), ("GPU", 1)}


def _sizes_graph(device: str) -> graph_pb2.GraphDef:
    """x + reshape(y, [rows(x) * 2, -1]), and rows(x) * 2 for others."""
    graph = graph_pb2.GraphDef()

    def node(name: str, op: str, *inputs: str, **kinds: int) -> None:
        made = graph.node.add(name=name, op=op, input=inputs, device=device)
        for attr, kind in kinds.items():
            made.attr[attr].type = kind

    f32, i32 = types_pb2.DT_FLOAT, types_pb2.DT_INT32
    node("x", "Placeholder", dtype=f32)
    node("k", "Placeholder", dtype=i32)
    node("more", "AddV2", "k", "k", T=i32)
    node("a", "Tanh", "x", T=f32)
    node("shape", "Shape", "a", T=f32, out_type=i32)
    node("twice", "AddV2", "shape", "shape", T=i32)
    node("half", "Sub", "twice", "shape", T=i32)
    node("b", "Reshape", "a", "half", T=f32, Tshape=i32)
    node("c", "Cast", "more", SrcT=i32, DstT=f32)
    node("d", "Mul", "b", "c", T=f32)
    node("outside", "Neg", "twice", T=i32)
    node("keep", "Placeholder", "^outside", dtype=f32)
    return graph


@pytest.mark.parametrize("device", [f"{TASK}/device:GPU:0", f"{TASK}/device:CPU:0"])
def test_int32_at_a_border_stays_with_tensorflow(offered: dict[str, list[int]], device: str) -> None:
    graph = Graph.of_graph_def(_sizes_graph(device))
    (cluster,) = find_clusters(graph, Checker({}), Options(min_size=1)).clusters
    members = {graph.nodes[i].name for i in cluster.members}
    between = {"a", "shape", "twice", "half", "b", "c", "d"}
    assert members == (between if "GPU" in device else between | {"more", "outside"})


def test_inputs_whose_values_compiling_needs_are_the_hosts(offered: dict[str, list[int]]) -> None:
    program = Program("test", [1, 3], [1], lambda views, device: pytest.fail("not compiled here"), host=[1])
    assert list(program.node("n", ["x", "k"]).attr[host_memory.INPUTS].list.i) == [1]
    program.close()


def test_what_libraries_do_faster_on_gpus(offered: dict[str, list[int]]) -> None:
    for place, rule in (("/GPU:0", "slow_on_gpus"), ("/CPU:0", "")):
        node = graph_pb2.GraphDef().node.add(name="c", op="Cholesky", device=place)
        node.attr["T"].type = types_pb2.DT_FLOAT
        assert Checker({}).node(node).rule == rule
    assert Checker({}).node(graph_pb2.GraphDef().node.add(name="f", op="FFT")).rule == "library"


def test_the_host_of_a_device() -> None:
    assert devices.host_of(f"{TASK}/device:GPU:1") == f"{TASK}/device:CPU:0"
    assert devices.host_of("/GPU:1") == "/device:CPU:0"
    assert devices.host_of(f"{TASK}/device:CPU:1") == f"{TASK}/device:CPU:1"
    assert devices.host_of("") == ""


def test_loops_on_gpus_are_taken_apart(offered: dict[str, list[int]]) -> None:
    loop = graph_pb2.GraphDef().node.add(name="w", op="StatelessWhile", device="/GPU:0")
    assert Checker({}).node(loop).rule == "whole_loop"
    loop.device = "/CPU:0"
    assert Checker({}).node(loop).rule != "whole_loop"
    assert not graph_pass._keeps_loops("/GPU:0")
    assert not graph_pass._keeps_loops("")


@pytest.mark.parametrize(("variable", "together"), [("/GPU:0", True), ("/GPU:1", False), ("/CPU:0", False)])
def test_a_call_and_its_variables_lie_together(offered: dict[str, list[int]], variable: str, together: bool) -> None:
    graph = graph_pb2.GraphDef()
    graph.node.add(name="v", op="_Arg", device=variable)
    call = graph.node.add(name="c", op="StatefulPartitionedCall", device="/GPU:0", input=["v"])
    call.attr["Tin"].list.type.append(types_pb2.DT_RESOURCE)
    assert bool(nested.placed(call, graph)) is together
