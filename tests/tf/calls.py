"""Stands in for the native op: a cluster's call becomes a PartitionedCall of its function."""

from __future__ import annotations

from contextlib import contextmanager

import tensorflow as tf

from tests.tf import double
from tfxla_cluster import flags
from tfxla_cluster.tf import graph_pass
from tfxla_cluster.tf.clustering import encapsulate, report
from tfxla_cluster.tf.must_compile.hook import Hook
from tfxla_cluster.tf.must_compile.nested import NestedCalls


class CallProgram:
    """Always ready; `run` calls the cluster's original function."""

    executions, is_gone, watcher = 0, False, None

    def __init__(self, function: encapsulate.ClusterFunction, ready: bool) -> None:
        self.function, self.ready = function, ready

    def node(self, name, inputs, op=encapsulate.RUN):
        node = tf.compat.v1.NodeDef(name=name)
        if op == encapsulate.READY:
            node.op = "Const"
            node.input.extend(dict.fromkeys(f"^{i.lstrip('^').split(':')[0]}" for i in inputs))
            node.attr["dtype"].type = tf.bool.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(self.ready))
            return node
        node.op = "PartitionedCall"
        node.input.extend(inputs)
        node.attr["f"].func.name = self.function.name
        node.attr["Tin"].list.type.extend(self.function.input_types)
        node.attr["Tout"].list.type.extend(self.function.output_types)
        return node


class Seen:
    """What the pass did: `functions` (clusters called), `graphs` (graphs transformed)."""

    def __init__(self) -> None:
        self.functions: list[encapsulate.ClusterFunction] = []
        self.clusterings: list[tuple] = []

    def ops(self) -> list[str]:
        return [n.op for f in self.functions for n in f.fdef.node_def if n.op != "Const"]

    def left(self) -> dict[str, str]:
        """Node name -> rule, of all graphs."""
        return {g.nodes[i].name: d.rule for g, c in self.clusterings for i, d in c.decisions.items()}


def graph_pass_of(make_program) -> graph_pass.GraphPass:
    """The pass with these programs for clusters."""
    compiler = double.Compiler()
    return graph_pass.GraphPass(Hook(compiler), NestedCalls(compiler), make_program)


@contextmanager
def clustering(monkeypatch, ready: bool = True, **changes):
    """Auto-clustering with calls in place of native code."""
    seen = Seen()

    def make(function):
        seen.functions.append(function)
        return CallProgram(function, ready)

    original = report.report

    def seen_too(before, graph_def, graph, found):
        seen.clusterings.append((graph, found))
        original(before, graph_def, graph, found)

    ours = graph_pass_of(make)
    monkeypatch.setattr(report, "report", seen_too)
    settings = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, **changes}
    with flags.patch(**settings):
        ours.enable()
        try:
            yield seen
        finally:
            ours.disable()
