"""What is declared is there: record kinds and their fields, log topics, flags, fields of the target.

Statically for every kind, and by one program that is run with everything on.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfxla_cluster import flags, trace
from tfxla_cluster.dump.schema import COMMON, RECORD_KINDS
from tfxla_cluster.target import Target

ROOT = Path(__file__).resolve().parents[1]
TREES = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "tfxla_cluster").rglob("*.py"))}
# Fields that a record has only after a failure, on or for a GPU, in one of the tests named beside.
ON_FAILURE = {
    "autotune": {"reason"},  # tests/tuning/test_session.py
    "cross_compile": set(RECORD_KINDS["cross_compile"].fields),  # tests/cli/test_exec.py
    "error": set(RECORD_KINDS["error"].fields),  # tests/test_internal_errors.py
    "limit": set(RECORD_KINDS["limit"].fields),  # tests/tf/test_diagnosis.py
    "graph": set(RECORD_KINDS["graph"].fields),  # tests/runtime/test_gpu_graphs.py
    "ranks": set(RECORD_KINDS["ranks"].fields),  # tests/ranks/test_workers.py
    "store": set(RECORD_KINDS["store"].fields),  # tests/runtime/test_store.py
}
PROGRAM = """
import tensorflow as tf, tfxla_cluster

@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([3])])
def must(x, w):
    return tf.reduce_sum(tf.tanh(x) * w + 1.0, 1)

@tf.function
def auto(x):
    y = tf.tanh(x) * 2.0 + 1.0
    return tf.strings.length(tf.strings.as_string(y)), tf.reduce_sum(y * y - y)

v = tf.Variable(tf.ones([3]))

@tf.function(jit_compile=True)
def assigns(x):
    v.assign_add(x)
    return v * 2.0

for n in (4, 5, 1):
    must(tf.ones([n, 3]), tf.ones([3]))
    auto(tf.ones([n, 3]))
assigns(tf.ones([3]))
tf.function(lambda x: tf.unique(tf.boolean_mask(x, x > 0))[0], jit_compile=True)(tf.ones([3]))
with tfxla_cluster.config.patch(tfxla_watch_numerics=True):
    tf.function(tf.math.log, jit_compile=True)(tf.zeros([3]))
"""


def literals(function: str) -> set[Any]:
    """First arguments of the calls of this name or attribute in the package that are literals."""
    return {
        node.args[0].value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and function in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def test_every_kind_of_record_is_declared_and_made() -> None:
    made = literals("record")
    assert made == set(RECORD_KINDS)


def test_topics_print_kinds_that_there_are() -> None:
    assert {kind for pair in trace.TOPICS.values() for kinds in pair for kind in kinds} <= set(RECORD_KINDS)
    assert all(any(pair) for pair in trace.TOPICS.values())


@pytest.mark.parametrize("name", flags.FLAGS)
def test_every_flag_is_read_or_says_that_it_has_no_effect(name: str) -> None:
    read = name in literals("get")
    assert read != bool(flags.FLAGS[name].no_effect)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Target)])
def test_every_field_of_the_target_is_read(field: str) -> None:
    readers = [
        path
        for path, tree in TREES.items()
        if path.name != "target.py"
        and any(
            isinstance(n, ast.Attribute) and n.attr == field and isinstance(n.ctx, ast.Load) for n in ast.walk(tree)
        )
    ]
    assert readers


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records of two runs with a dump, timings, tuning and a store; the second finds what the first compiled."""
    directory = tmp_path_factory.mktemp("declared")
    (directory / "program.py").write_text(PROGRAM)
    on = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=2 --tfxla_timings"
    on += f" --xla_gpu_per_fusion_autotune_cache_dir={directory / 'tuned'}"
    words = f"{on} --xla_dump_to={directory / 'dump'} --tf_xla_persistent_cache_directory={directory / 'store'}"
    start = "import tfxla_cluster.bootstrap, runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", start, str(directory / "program.py")],
            env={**os.environ, "TFXLA_FLAGS": words, "PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for path in (directory / "dump").glob("trace.*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", RECORD_KINDS)
def test_a_run_writes_every_field(kind: str, records: list[dict[str, Any]]) -> None:
    found = [record for record in records if record["kind"] == kind]
    seen = {name for record in found for name, value in record.items() if value is not None}
    assert not {*RECORD_KINDS[kind].fields} - seen - ON_FAILURE.get(kind, set())
    assert seen <= {*RECORD_KINDS[kind].fields, *COMMON}


def test_phases_add_up(records: list[dict[str, Any]]) -> None:
    """Of each compilation, to what the program waited for."""
    compiled = [r for r in records if r["kind"] == "compile" and not r["hit"]]
    for record in compiled:
        assert {"lowering", "generic", "passes", "lower", "codegen", "assembler", "load", "dump"} <= set(
            record["phases"]
        )
        assert sum(record["phases"].values()) == pytest.approx(record["wall_ms"])
        assert min(record["phases"].values()) > -1e-3
        assert sum(record["passes"].values()) <= record["phases"]["passes"] + record["phases"]["dump"] + 1e-3
    assert any("trace" in record["phases"] for record in compiled)


def test_kernels_and_executions_tell_of_the_same_modules(records: list[dict[str, Any]]) -> None:
    kernels = [r for r in records if r["kind"] == "kernel"]
    assert all(r["bytes"] > 0 and r["instrs"] for r in kernels)
    assert any(r["sources"] for r in kernels)
    timed = [r for r in records if r["kind"] == "execution" and r["id"] is not None]
    assert {r["id"] for r in timed} <= {r["id"] for r in kernels}
    for record in timed:
        assert record["count"] >= 1
        assert record["ms"] == pytest.approx(sum(step["ms"] for step in record["steps"]))
        assert max(step["count"] for step in record["steps"]) >= 1
