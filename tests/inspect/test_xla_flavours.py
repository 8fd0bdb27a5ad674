"""Every form of dump that jaxlib and TensorFlow write on a CPU: no file is unknown or unread, and each shows the same
program, whether the dump has texts, protos, or a log alone. CI runs all of jaxlib's, and a third of TensorFlow's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.pages import site, start, tab
from tfxla_inspect import report
from tfxla_inspect.parsers import hlo
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import Directory, ModuleFiles, scan

TEXT, PROTO, PASSES = {"xla_dump_hlo_as_text": True}, {"xla_dump_hlo_as_proto": True}, {"xla_dump_hlo_pass_re": ".*"}
FLAVOURS: dict[str, dict[str, Any]] = {
    "plain": {},
    "passes": TEXT | PASSES,
    "one_pipeline": TEXT | {"xla_dump_hlo_pipeline_re": "simpl.*"},
    "protos": PROTO,
    "proto_passes": PROTO | PASSES,
    "compressed": PROTO | PASSES | {"xla_dump_compress_protos": True},
    "both": TEXT | PROTO,
    "dot": {"xla_dump_hlo_as_dot": True},
    "html": {"xla_dump_hlo_as_html": True},
    "url": TEXT | {"xla_dump_hlo_as_url": True},
    "short_text": TEXT | {"xla_dump_hlo_as_long_text": False},
    "long_text": {"xla_dump_hlo_as_long_text": True},
    "no_metadata": TEXT | {"xla_dump_disable_metadata": True},
    "large_constants": TEXT | {"xla_dump_large_constants": True},
    "snapshots": TEXT | {"xla_dump_hlo_snapshots": True},
    "inputs": {"xla_dump_hlo_unoptimized_snapshots": True},
    "inputs_as_text": TEXT | {"xla_dump_hlo_unoptimized_snapshots": True},
    "times_in_names": TEXT | PASSES | {"xla_dump_include_timestamp": True},
    "folders": TEXT | {"xla_dump_hlo_to_subfolder": True},
    "fusions": TEXT | {"xla_dump_fusion_visualization": True},
    "module_metadata": TEXT | {"xla_dump_module_metadata": True},
    "configuration": TEXT | {"xla_dump_full_hlo_config": True},
    "emitters": TEXT | {"xla_dump_emitter_re": ".*"},
    "plain_mlir": TEXT | {"xla_dump_emitter_re": ".*", "xla_dump_enable_mlir_pretty_form": False},
    "buffers": TEXT | {"xla_dump_buffer_assignment_analysis": True},
    "log": TEXT | PASSES | {"xla_dump_to": "-"},
}
# That hold no optimised module: drawings alone, or what an execution was given.
WITHOUT_AFTER = {"dot", "html", "inputs", "inputs_as_text"}
JAX = """
import json, sys
import jax, jax.numpy as jnp
def step(w, x):
    h = jnp.tanh(x @ w)
    return jnp.sum(h) + jax.lax.fori_loop(0, 3, lambda i, c: c * 0.5 + h[0, 0], 1.0)
arguments = jnp.ones((8, 16)), jnp.ones((3, 8))
for name, options in json.loads(sys.argv[2]).items():
    options = {"xla_dump_to": f"{sys.argv[1]}/{name}", **options}
    jax.jit(jax.grad(step)).lower(*arguments).compile(compiler_options=options)(*arguments)
"""
TENSORFLOW = """
import sys
import tensorflow as tf
v = tf.Variable(tf.ones([8, 16]))
@tf.function(jit_compile=sys.argv[1] == "must")
def step(x):
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.softmax(tf.tanh(x @ v)))
    return tape.gradient(y, v)
step(tf.ones([4, 8]))
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory each, of one program in one process."""
    top = tmp_path_factory.mktemp("flavours")
    (top / "step.py").write_text(JAX)
    arguments = [sys.executable, str(top / "step.py"), str(top), json.dumps(FLAVOURS)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=500, check=True)
    (top / "log").mkdir()
    (top / "log" / "output.txt").write_text(done.stdout)
    return top


def problems(found: Directory) -> list[Any]:
    """What is unknown, or cannot be read as text where it is one."""
    reader = Reader(list(found.problems))
    for file in found.everything:
        if file.form != "binary":
            reader.text(file)
    return [*reader.problems, *(file.name for file in found.everything if file.kind == "unknown")]


def module(found: Directory) -> ModuleFiles:
    return next(m for m in found.modules if "step" in m.name)


@pytest.mark.parametrize("name", FLAVOURS)
def test_jax(dumps: Path, name: str) -> None:
    found = scan(dumps / name)
    assert not problems(found)
    own = module(found)
    before, after = (hlo.parse(Reader().text(own.one(kind))) for kind in ("before", "after"))
    plain = module(scan(dumps / "plain"))
    if name not in WITHOUT_AFTER:
        want = hlo.parse(Reader().text(plain.one("after")))
        assert after.opcodes() == want.opcodes()
        assert after.unread == 0
        assert len(own.all("buffers")) == 1
        if name != "no_metadata":
            shown = Counter(row.origin for block in after.blocks for row in block.rows)
            assert shown == Counter(row.origin for block in want.blocks for row in block.rows)
            assert any(frames[0]["file"].endswith("step.py") for frames in after.sources.values())
    if name not in {"dot", "html", "inputs_as_text"}:
        assert before.opcodes() == hlo.parse(Reader().text(plain.one("before"))).opcodes()


@pytest.mark.parametrize("name", ["proto_passes", "log", "folders"])
def test_reports_of_jax(dumps: Path, name: str) -> None:
    made = report.build(dumps / name)
    assert "Not read" not in start(made)
    page = next(page for page, entry in site(made).items() if "step" in entry["title"])
    lines = json.loads(tab(made, page, "lines"))["rows"]
    assert any(str(row[0]).startswith("step.py:") for row in lines)
    if name != "folders":
        assert json.loads(tab(made, page, "passes"))["rows"]


MUST = ["plain", "compressed", "both", "passes", "emitters", "dot"]  # with snapshots TensorFlow 2.21 crashes
AUTO = ["passes", "log", "protos", "times_in_names", "html"]
IN_CI = {("must", "compressed"), ("auto", "passes"), ("auto", "log")}
TF_RUNS = [
    pytest.param(how, name, marks=() if (how, name) in IN_CI else pytest.mark.slow, id=f"{how}-{name}")
    for how, names in (("must", MUST), ("auto", AUTO))
    for name in names
]


@pytest.mark.parametrize(("how", "name"), TF_RUNS)
def test_tensorflow(how: str, name: str, tmp_path: Path) -> None:
    directory = tmp_path / "dump"
    directory.mkdir()
    flags = {"xla_dump_to": str(directory), **FLAVOURS[name]}
    environment = os.environ | {
        "XLA_FLAGS": " ".join(
            f"--{key}={str(value).lower() if value in (True, False) else value}" for key, value in flags.items()
        ),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if how == "auto":
        environment["TF_XLA_FLAGS"] = "--tf_xla_clustering_debug --tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
        environment["TF_DUMP_GRAPH_PREFIX"] = str(directory)
    arguments = [sys.executable, "-c", TENSORFLOW, how]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=True)
    if name == "log":
        (directory / "output.txt").write_text(done.stdout)
    found = scan(directory)
    assert not problems(found)
    assert len(found.modules) == 1
    if name not in WITHOUT_AFTER:
        after = hlo.parse(Reader().text(found.modules[0].one("after")))
        assert after.count > 20
        assert after.unread == 0
    if how == "auto":
        assert {f.kind for f in found.files} >= {"graph", "graph_before", "graph_annotated"}
    assert "Not read" not in start(report.build(directory))
