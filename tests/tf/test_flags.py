"""Each flag does what its help says, or says that it has no effect."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import compiler, counters, flag_options, flags
from tfxla_cluster.backends import gpu_code
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.decision import no
from tfxla_cluster.ir.text import parse, render
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.tf.clustering import mark_for_compilation

PACKAGE = Path(tfxla_cluster.__file__).parent
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 2}


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    tfxla_cluster.clear_cache()  # executables of other tests' modules
    with flags.patch(**AUTO, tfxla_dynamic="off"), tfxla_cluster.enable():  # each test compiles its own
        yield


def run(x: object = (1.0, 2.0), **changes: object) -> tuple[dict[str, int], np.ndarray]:
    """A fresh plain function of five ops under these flags: (what it added to stats, its result)."""

    @tf.function
    def f(x):
        return tf.reduce_sum(tf.abs(tf.math.log(x) * 2.0 + 1.0))

    with flags.patch(**changes):
        before = counters.snapshot()
        result = f(tf.constant(x)).numpy()
        after = counters.snapshot()
    return {k: after[k] - before[k] for k in before if isinstance(before[k], int)}, result


WANT = float(np.abs(np.log(np.array([1, 2], np.float32)) * 2 + 1).sum())


def test_every_flag_is_read_somewhere() -> None:
    text = "\n".join(p.read_text() for p in PACKAGE.rglob("*.py") if p.name != "flags.py")
    unread = {name for name, flag in flags.FLAGS.items() if f'"{name}"' not in text and not flag.no_effect}
    assert not unread


@pytest.mark.parametrize("name", [n for n, f in flags.FLAGS.items() if f.no_effect])
def test_a_flag_without_effect_says_so_once(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    flags._told.discard(name)
    for _ in range(2):
        with flags.patch(**{name: not flags.FLAGS[name].default}):
            pass
    assert capfd.readouterr().err.count(f"--{name} has no effect") == 1
    assert "No effect here" in flags.help_text()


@pytest.mark.parametrize(
    ("changes", "clusters"),
    [
        ({}, 1),
        ({"tf_xla_min_cluster_size": 50}, 0),
        ({"tf_xla_cluster_exclude_ops": "Log,Mul,Add,AddV2,Abs,Sum"}, 0),
        ({"tf_xla_ops_to_cluster": "MatMul"}, 0),
        ({"tf_xla_cpu_global_jit": False}, 0),
        ({"tf_xla_auto_jit": "-1"}, 0),
        ({"tf_xla_auto_jit": "fusible"}, 1),
        ({"tf_xla_max_cluster_size": 1}, 0),
    ],
)
def test_what_is_clustered(changes: dict[str, object], clusters: int) -> None:
    found, result = run(**changes)
    assert found["clusters"] == clusters
    assert result == pytest.approx(WANT)


def test_fuel() -> None:
    used = mark_for_compilation._process_fuel.used
    assert run(tf_xla_clustering_fuel=used)[0]["clusters"] == 0
    assert run(tf_xla_clustering_fuel=used + 10_000)[0]["clusters"] == 1


def test_always_defer_never_compiles() -> None:
    found, result = run(tf_xla_always_defer_compilation=True)
    assert found["clusters"] == 1
    assert found["compilations"] == 0
    assert found["executions"] == 0
    assert result == pytest.approx(WANT)


def test_async_runs_tensorflows_ops_first_and_the_cluster_later() -> None:
    @tf.function
    def f(x):
        return tf.reduce_sum(tf.abs(tf.math.log(x) * 2.0 + 1.0) * 1.5)

    x = tf.constant([1.0, 2.0])
    with flags.patch(tf_xla_async_compilation=True):
        before = tfxla_cluster.stats()["executions"]
        results = [float(f(x))]
        deadline = time.monotonic() + 60
        while tfxla_cluster.stats()["executions"] == before and time.monotonic() < deadline:
            time.sleep(0.02)
            results.append(float(f(x)))
    assert tfxla_cluster.stats()["executions"] > before
    assert len(results) > 1
    np.testing.assert_allclose(results, 1.5 * WANT, rtol=1e-6)


@pytest.mark.parametrize(
    ("flag", "value", "where"),
    [
        ("tf_xla_check_cluster_input_numerics", (np.inf, 1.0), "input 0 (x) of cluster_"),
        ("tf_xla_check_cluster_output_numerics", (0.0, 1.0), "output 0 of cluster_"),
    ],
)
def test_numeric_checks_raise(flag: str, value: object, where: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(where)):
        run(value, **{flag: True})
    assert run(**{flag: True})[1] == pytest.approx(WANT)


def test_cluster_outputs_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    run(tf_xla_print_cluster_outputs=True)
    assert re.search(r"output 0 of cluster_\d+: \[3\.386", capfd.readouterr().err)


def test_names_from_a_hash(tmp_path: Path) -> None:
    names = []
    for k in range(2):
        directory = tmp_path / str(k)
        run(tf_xla_deterministic_cluster_names=True, xla_dump_to=str(directory))
        names += {n for p in directory.glob("module_*") for n in re.findall(r"cluster_([0-9a-f]{16})_\d+", p.name)}
    assert len(names) == 2
    assert names[0] == names[1]


def test_metadata_is_left_out(tmp_path: Path) -> None:
    for k, on in enumerate((False, True)):
        directory = tmp_path / str(k)
        run((1.0 + k, 2.0, 3.0), xla_dump_disable_metadata=on, xla_dump_to=str(directory))
        text = "".join(p.read_text() for p in directory.glob("*.txt"))
        assert text
        assert ("metadata=" in text) != on


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_kernels_for_a_gpu_in_the_dump(tmp_path: Path) -> None:
    run((7.0, 8.0, 9.0), tfxla_gpu_target="sm_90", xla_dump_to=str(tmp_path))
    (ptx,) = tmp_path.glob("*.sm_90.ptx")
    assert ".target sm_90" in ptx.read_text()
    assert len(list(tmp_path.glob("*.sm_90.*.cubin"))) == ptx.read_text().count(".visible .entry")


def test_kernels_for_a_gpu_without_triton_are_source_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu_code._memory.clear()
    monkeypatch.setattr(workers, "usable", lambda: no("triton", "Triton is not installed"))
    run((8.0, 9.0, 10.0), tfxla_gpu_target="sm_90", xla_dump_to=str(tmp_path))
    assert list(tmp_path.glob("*.sm_90.triton.py"))
    assert not list(tmp_path.glob("*.sm_90.ptx"))
    assert "Triton is not installed" in capsys.readouterr().err
    (trace,) = tmp_path.glob("trace.*.jsonl")
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    (said,) = [r for r in records if r["kind"] == "fallback"]
    assert (said["to"], said["reason"]) == ("kernel source alone", "Triton is not installed")


@pytest.mark.parametrize("off", [False, True])
def test_constant_folding(off: bool) -> None:
    module = parse(
        "HloModule m\nENTRY e {\n a = f32[] constant(2)\n b = f32[] constant(3)\n"
        " p = f32[] parameter(0)\n c = f32[] power(a, b)\n ROOT r = f32[] add(c, p)\n}\n"
    )
    before = flag_options.compile_options().key()
    with flags.patch(tf_xla_disable_constant_folding=off):
        options = flag_options.compile_options()
        text = render(compiler.optimise(module, host.target(), options))
        assert (options.key() != before) == off
    assert (("%a =" in text and "%b =" in text) or "multiply" in text) == off
