"""Ours against TensorFlow's clusters, node by node: `python -m tests.tf.compare_clusters [PROGRAM...]`.

TensorFlow's come from stock's mark_for_compilation dump (--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit), made in
a process of its own. Nodes are matched by name and op. What only one side clusters is listed; for what
only TensorFlow clusters, with our Decision; nodes that one side's graph lacks (grappler or this package made or
removed them) are counted apart.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = {
    "mlp": """
w = tf.Variable(tf.random.stateless_normal([8, 16], [1, 2]))
v = tf.Variable(tf.random.stateless_normal([16, 4], [3, 4]))
@tf.function
def program(a):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.tanh(a @ w) @ v))
    for variable, grad in zip([w, v], tape.gradient(loss, [w, v])):
        variable.assign_sub(0.1 * grad)
    return loss
program(tf.ones([5, 8]))
""",
    "mixed": """
@tf.function
def program(a):
    b = tf.tanh(a * 2.0 + 1.0) - a
    c = tf.py_function(lambda t: t + 1, [b], tf.float32)
    c.set_shape([4])
    u, _ = tf.unique(tf.cast(tf.exp(c) * 2.0 - 1.0, tf.int32))
    return tf.reduce_sum(tf.sin(c * 3.0) + tf.cos(c) * 2.0), u, tf.strings.as_string(u)
program(tf.ones([4]))
""",
    "loop": """
@tf.function
def program(a):
    def body(i, b):
        return i + 1, tf.tanh(b * 2.0 + 1.0) - tf.sin(b) * tf.cast(i, tf.float32)
    _, a = tf.while_loop(lambda i, b: i < 3, body, [0, a])
    return tf.cond(tf.reduce_sum(a) > 0.0, lambda: tf.exp(a) * 2.0 - 1.0 + tf.cos(a), lambda: a)
program(tf.ones([4]))
""",
}


@dataclass
class Marks:
    """Node name -> (op, cluster or '') of all graphs; `reasons`: (rule, reason) of unclustered nodes (ours)."""

    nodes: dict[str, tuple[str, str]] = field(default_factory=dict)
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Comparison:
    both: list[str]
    ours: list[str]
    theirs: dict[str, tuple[str, str]]
    apart: dict[str, int]


def run(code: str, ours: bool) -> Marks:
    """Run a program in its own process with clustering and its dump on."""
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "TF_DUMP_GRAPH_PREFIX": directory, "PROGRAM": code, "CUDA_VISIBLE_DEVICES": ""}
        # Plugin optimizers off what grappler would fuse: the graphs of both sides then have the same nodes.
        env["TF_XLA_FLAGS" if not ours else "TFXLA_TEST_FLAGS"] = (
            "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_clustering_debug"
        )
        subprocess.run(
            [sys.executable, "-m", "tests.tf.compare_clusters", "--child", "ours" if ours else "stock", directory],
            env=env,
            check=True,
            capture_output=True,
            timeout=200,
        )
        return read(directory)


def child(ours: bool, directory: str) -> None:
    import tensorflow as tf

    if ours:
        from tests.tf import calls
        from tfxla_cluster import flags, trace
        from tfxla_cluster.tf import grappler_plugin

        flags.set_values({**flags.parse(os.environ["TFXLA_TEST_FLAGS"]), "xla_dump_to": directory})
        grappler_plugin.enable(calls.graph_pass_of(lambda function: calls.CallProgram(function, True)).transform)
        assert trace.directory() == directory
    else:
        off = ("remapping", "layout_optimizer", "arithmetic_optimization", "shape_optimization", "constant_folding")
        tf.config.optimizer.set_experimental_options(dict.fromkeys(off, False))
    exec(os.environ["PROGRAM"], {"tf": tf})


def read(directory: str) -> Marks:
    import json

    from google.protobuf import text_format
    from tensorflow.core.framework import graph_pb2

    marks = Marks()
    for path in sorted(glob.glob(f"{directory}/mark_for_compilation*.pbtxt")):
        if "annotated" in path:
            continue
        graph_def = text_format.Parse(Path(path).read_text(), graph_pb2.GraphDef())
        if len(graph_def.node) <= 6:  # eager constants and initialisers
            continue
        for node in graph_def.node:
            cluster = node.attr["_XlaCluster"].s.decode() if "_XlaCluster" in node.attr else ""
            marks.nodes[node.name] = (node.op, cluster)
    for path in glob.glob(f"{directory}/trace.*.jsonl"):
        for line in Path(path).read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "unclustered":
                marks.reasons[record["node"]] = (record["rule"], record["reason"])
    return marks


def compare(ours: Marks, theirs: Marks) -> Comparison:
    """Of the nodes that compute something (constants are copied into clusters by both sides)."""
    result = Comparison([], [], {}, dict(Counter()))
    apart: Counter[str] = Counter()
    for name, (op, cluster) in theirs.nodes.items():
        if op == "Const":
            continue
        if name not in ours.nodes:
            apart["only in TensorFlow's graph"] += bool(cluster)
            continue
        mine = ours.nodes[name][1]
        if mine and cluster:
            result.both.append(name)
        elif mine:
            result.ours.append(name)
        elif cluster:
            result.theirs[name] = ours.reasons.get(name, ("", ""))
    apart["only in our graph"] = sum(n not in theirs.nodes and op != "Const" for n, (op, _) in ours.nodes.items())
    result.apart = dict(apart)
    return result


def main(names: list[str]) -> None:
    for name in names or PROGRAMS:
        found = compare(run(PROGRAMS[name], True), run(PROGRAMS[name], False))
        print(
            f"{name}: both {len(found.both)}, ours only {len(found.ours)} {found.ours}, "
            f"theirs only {len(found.theirs)}, apart {found.apart}"
        )
        for node, (rule, reason) in found.theirs.items():
            print(f"    {node}: {rule}: {reason}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2] == "ours", sys.argv[3])
    else:
        main(sys.argv[1:])
