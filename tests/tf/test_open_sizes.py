"""Which sizes of a graph's values are open (tfxla_cluster.tf.graph.open_sizes), and that clusters see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

import tfxla_cluster
from tests.close import assert_near
from tfxla_cluster import counters, flags
from tfxla_cluster.tf.graph import open_sizes
from tfxla_cluster.tf.graph.open_sizes import OpenSizes
from tfxla_cluster.tf.graph.view import Graph, NodeDef

F32 = tf.float32.as_datatype_enum
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True}


def argument(name: str, dims: list[int | None] | None, handle: list[int] | None = None) -> NodeDef:
    node = NodeDef(name=name, op="_Arg")
    node.attr["T"].type = F32 if handle is None else tf.resource.as_datatype_enum
    node.attr["index"].i = 0
    if dims is not None:
        node.attr["_output_shapes"].list.shape.add().CopyFrom(tf.TensorShape(dims).as_proto())
    if handle is not None:
        node.attr["_handle_dtypes"].list.type.append(F32)
        node.attr["_handle_shapes"].list.shape.add().CopyFrom(tf.TensorShape(handle).as_proto())
    return node


def node(name: str, op: str, *inputs: str, **types: int) -> NodeDef:
    made = NodeDef(name=name, op=op, input=inputs)
    for key, value in types.items():
        made.attr[key].type = value
    return made


def product(x: NodeDef) -> Graph:
    """x @ w, with a tanh that waits for something that cannot be imported."""
    return Graph(
        [
            node("odd", "NoSuchOp"),
            x,
            argument("w", None, [5, 8]),
            node("read", "ReadVariableOp", "w", dtype=F32),
            node("xw", "MatMul", x.name, "read", T=F32),
            node("out", "Tanh", "xw", "^odd", T=F32),
        ]
    )


def sizes(graph: Graph, *names: str) -> list[list[int] | None]:
    wanted = [graph.index[name] for name in names]
    shapes = OpenSizes(graph, wanted)
    return [None if (s := shapes.shape(i, 0)) is None else [d.size for d in s.dim] for i in wanted]


def test_what_follows_from_open_arguments_is_open() -> None:
    assert sizes(product(argument("x", [None, 5])), "x", "read", "out") == [[-1, 5], None, [-1, 8]]


def test_arguments_of_known_sizes_leave_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sizes.importer, "import_graph_def", None)  # nor is anything imported
    assert sizes(product(argument("x", [7, 5])), "x", "out") == [None, None]
    assert sizes(product(argument("x", None)), "x", "out") == [None, None]


def test_placeholders_and_data_sets_say_theirs() -> None:
    placeholder = node("x", "Placeholder", dtype=F32)
    placeholder.attr["shape"].shape.CopyFrom(tf.TensorShape([None, 5]).as_proto())
    assert sizes(product(placeholder), "x", "out") == [[-1, 5], [-1, 8]]
    batch = node("x", "IteratorGetNext", "iterator")
    batch.attr["output_types"].list.type.append(F32)
    batch.attr["output_shapes"].list.shape.add().CopyFrom(tf.TensorShape([None, 5]).as_proto())
    iterator = node("iterator", "_Arg", T=tf.resource.as_datatype_enum)
    assert sizes(Graph([iterator, batch, node("out", "Tanh", "x", T=F32)]), "out", "iterator") == [[-1, 5], None]


def test_called_functions_are_looked_into() -> None:
    traced = tf.function(lambda x: tf.transpose(x) + 1.0).get_concrete_function(tf.TensorSpec([None, 5]))
    call = node("out", "PartitionedCall", "x")
    call.attr["Tin"].list.type.append(F32)
    call.attr["Tout"].list.type.append(F32)
    call.attr["f"].func.name = traced.function_def.signature.name
    functions: dict[str, function_pb2.FunctionDef] = {traced.function_def.signature.name: traced.function_def}
    assert sizes(Graph([argument("x", [None, 5]), call], functions), "out") == [[5, -1]]


def test_what_tensorflow_does_not_import_is_not_open() -> None:
    graph = Graph([argument("x", [None, 5]), node("out", "NoSuchOp", "x")])
    assert sizes(graph, "x", "out") == [None, None]


def cut(x: Any) -> Any:
    """Two clusters with an op between them that is not compiled."""
    y = tf.tanh(tf.nn.softmax(x * 2.0) + 1.0)
    z = tf.strings.to_number(tf.strings.as_string(tf.round(y * 64.0))) / 64.0
    return tf.reduce_mean(tf.exp(z) * tf.sigmoid(z - 1.0), 0) + tf.reduce_max(y)


def whole(x: Any) -> Any:
    return tf.tanh(tf.tanh(x) * 2.0 + tf.exp(-x)) * tf.sigmoid(x - 1.0)


@pytest.mark.parametrize(("function", "clusters"), [(whole, 1), (cut, 2)])
def test_clusters_of_open_traces_compile_once(function: Callable[[Any], Any], clusters: int) -> None:
    with flags.patch(**AUTO, tf_xla_min_cluster_size=2), tfxla_cluster.enable():
        tfxla_cluster.clear_cache()
        traced = tf.function(function, input_signature=[tf.TensorSpec([None, 3])])
        before = int(counters.snapshot()["compilations"])
        for n in (6, 9, 4, 13, 31):
            x = tf.constant(np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32))
            assert_near(traced(x), function(x), 2e-6, f"size {n}")
        assert int(counters.snapshot()["compilations"]) - before == clusters
        for n in (1, 0):  # have executables of their own
            x = tf.zeros([n, 3])
            assert_near(traced(x), function(x), 2e-6, f"size {n}")


def test_keras_compiles_a_short_last_batch_with_all_others() -> None:
    def losses() -> list[float]:
        tf.keras.utils.set_random_seed(1)
        layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3)]
        model = tf.keras.Sequential([tf.keras.layers.Input((5,)), *layers])
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        x, y = np.random.default_rng(0).random((21, 5), np.float32), np.arange(21) % 3
        return list(model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False).history["loss"])

    tfxla_cluster.disable()
    stock = losses()
    with flags.patch(**AUTO), tfxla_cluster.enable():
        tfxla_cluster.clear_cache()
        before = int(counters.snapshot()["compilations"])
        assert_near(losses(), stock, 1e-5)
        assert int(counters.snapshot()["compilations"]) - before == 1
