"""`tfxla-bench gpu` without a GPU: rows lower, bundles hold code, timings and results are read right."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfxla_cluster import flags
from tfxla_cluster.backends import gpu
from tfxla_cluster.bench import gpu_beside, gpu_bundle, gpu_peers, gpu_rows, gpu_suite, gpu_tensorflow, gpu_timing
from tfxla_cluster.bench.measure import Timing
from tfxla_cluster.cli import bench, bench_gpu, common
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.decision import no
from tfxla_cluster.errors import InputFileError, UnsupportedError
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions
from tfxla_cluster.runtime.plan import KernelStep, walk

ROWS = {row.case: row for row in gpu_suite.all_rows()}
SMALL = replace(ROWS["x+y*z"], case="small", inputs=(gpu_rows.Draw((8, 16)),) * 3)


def test_files_of_rows_differ() -> None:
    assert len({row.file for row in ROWS.values()}) == len(ROWS)


@pytest.mark.parametrize("case", ROWS)
def test_every_row_lowers_to_a_module_of_its_inputs(case: str) -> None:
    row = ROWS[case]
    module = proto.read(gpu_bundle.lowered(row))
    assert [(d.shape, d.dtype) for d in gpu_suite.draws_of(module)] == [(d.shape, d.dtype) for d in row.inputs]


def test_an_exact_row_is_lowered_with_tf32_off() -> None:
    """And TensorFlow's switch stands as it did."""
    import tensorflow as tf

    row = replace(ROWS["matmul f32 8192"], inputs=(gpu_rows.Draw((8, 8)),) * 2)
    for exact, said in ((True, ("highest", "highest")), (False, None)):
        module = proto.read(gpu_bundle.lowered(replace(row, exact=exact)))
        (dot,) = [i for i in module.entry.instrs if i.opcode == "dot"]
        assert dot.attrs.get("operand_precision") == said
        assert tf.config.experimental.tensor_float_32_execution_enabled()


def test_gradient_of_layer_norm_is_that_of_its_forward_form() -> None:
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, scale, g = (tf.constant(rng.normal(size=s), tf.float32) for s in ((6, 40), (40,), (6, 40)))
    offset = tf.zeros([40])
    with tf.GradientTape() as tape:
        tape.watch((x, scale, offset))
        y = ROWS["layer norm"].tf_fn(tf, x, scale, offset)
    want = tape.gradient(y, (x, scale, offset), output_gradients=g)
    found = ROWS["layer norm bf16 768, gradient"].tf_fn(tf, x, scale, g)
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_a_bundle_holds_the_module_and_its_code(tmp_path: Path) -> None:
    assert gpu_bundle.make(SMALL, tmp_path, "sm_90", CompileOptions()) == ""
    (case,) = gpu_bundle.cases(tmp_path, "sm_90")
    assert case.code is not None
    plan, code = case.code
    (step,) = [s for s in walk(plan.steps) if isinstance(s, KernelStep)]
    assert step.origin == "generator"
    assert code.objects[0][:4] == b"\x7fELF"
    x, y, z = (np.full((8, 16), v, np.float32) for v in (1, 2, 3))
    np.testing.assert_array_equal(evaluate(case.module, [x, y, z])[0], x + y * z)
    (other,) = gpu_bundle.cases(tmp_path, "sm_80")
    assert other.code is None


@pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
def test_damaged_code_is_named(tmp_path: Path) -> None:
    gpu_bundle.make(SMALL, tmp_path, "sm_90", CompileOptions())
    code = tmp_path / "small.sm_90.code"
    code.write_bytes(code.read_bytes()[:-7])
    with pytest.raises(InputFileError, match=r"small.sm_90.code: its checksum differs"):
        list(gpu_bundle.cases(tmp_path, "sm_90"))


def test_what_is_refused_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise UnsupportedError("no kernel for it")

    monkeypatch.setattr(gpu_bundle.compiler, "compile_module", refuse)
    assert gpu_bundle.make(SMALL, tmp_path, "sm_90", CompileOptions()) == "no kernel for it"
    (case,) = gpu_bundle.cases(tmp_path, "sm_90")
    assert (case.code, case.refused) == (None, "no kernel for it")


def test_a_directory_without_modules(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="holds no HLO module"):
        list(gpu_bundle.cases(tmp_path, "sm_90"))


# --- timing ---
@dataclass
class Range:
    start: float
    end: float


@dataclass
class Event:
    name: str
    device_type: str
    start: float
    end: float

    @property
    def time_range(self) -> Range:
        return Range(self.start, self.end)


def mark(name: str, start: float, end: float) -> Event:
    return Event(f"tfxla-sample:{name}", "cpu", start, end)


def test_a_sample_is_from_its_first_kernel_to_its_last() -> None:
    events = [
        Event("kernel", "gpu", 1, 2),  # before the first sample
        mark("a", 10, 50),
        Event("kernel", "gpu", 12, 20),
        Event("copy", "gpu", 30, 41),
        Event("tfxla-sample:a", "gpu", 12, 41),  # what CUPTI makes of the mark
        Event("launch", "cpu", 11, 12),
        mark("b", 60, 70),
        Event("kernel", "gpu", 61, 64),
        mark("a", 80, 99),
        Event("kernel", "gpu", 85, 87),
        Event("kernel", "gpu", 110, 200),
    ]
    assert gpu_timing._of_torch(events, "gpu") == {"a": [0.029, 0.002], "b": [0.003]}


def test_a_sample_without_work_on_the_gpu_is_no_sample() -> None:
    with pytest.raises(AssertionError, match="a ran nothing"):
        gpu_timing._of_torch([mark("a", 10, 50)], "gpu")


def test_marks_and_work_of_tensorflows_profile() -> None:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    for plane, line, name, start in (
        ("/host:CPU", "python", "tfxla-sample:a", 10),
        ("/host:CPU", "python", "tf.function", 11),
        ("/device:GPU:0", "Stream #14(Compute)", "kernel", 12),
        ("/device:GPU:0", "XLA Ops", "kernel", 11),
    ):
        made = space.planes.add(name=plane)
        made.event_metadata[1].name = name
        lines = made.lines.add(name=line, timestamp_ns=5000)
        lines.events.add(metadata_id=1, offset_ps=start * 10**6, duration_ps=3 * 10**6)
    marks, work = gpu_tensorflow.of_profile(space.SerializeToString())
    assert marks == [("a", 15.0, 18.0)]
    assert work == [("kernel", 17.0, 20.0)]
    assert gpu_timing.spans(marks, [(17.0, 20.0)]) == {"a": [0.003]}


# --- results ---
MS = {"ours": 2.0, "torch": 3.0, "torch.compile": 2.5, "XLA": 4.0, "copy": 1.5, "product": 8.0}


def timings(sides: Sequence[Any], rounds: int) -> dict[str, Timing]:
    names = [name for side in sides for name in side._contenders]
    return {name: Timing(MS[name], MS[name] * 0.9, MS[name] * 1.1, rounds) for name in names}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """NumPy for PyTorch; contender -> what it gives, or raises."""
    gives: dict[str, Any] = {"torch": np.ones(4), "torch.compile": np.ones(4), "XLA": np.ones(4), "ours": np.ones(4)}

    def maker(name: str) -> Callable[[], Callable[[], object]]:
        def call() -> object:
            if isinstance(gives[name], Exception):
                raise gives[name]
            return gives[name]

        return lambda: call

    def error(found: list[Any], expected: list[Any]) -> float:
        return float(np.abs(found[0] - expected[0]).max())

    monkeypatch.setattr(gpu_peers, "drawn", lambda inputs: [np.ones(draw.shape, np.float32) for draw in inputs])
    monkeypatch.setattr(gpu_peers, "makers", lambda row, tensors: {n: maker(n) for n in ("torch", "torch.compile")})
    monkeypatch.setattr(gpu_peers, "xla", lambda module, tensors: maker("XLA")())
    monkeypatch.setattr(gpu_peers, "copier", lambda moved: None)
    monkeypatch.setattr(gpu_peers, "product", lambda size, dtype: None)
    monkeypatch.setattr(gpu_peers, "tensors_of", lambda result: [result])
    monkeypatch.setattr(gpu_peers, "error", error)
    monkeypatch.setattr(gpu_suite, "_bytes", lambda tensors: sum(t.nbytes for t in tensors))
    monkeypatch.setattr(gpu_suite, "Ours", lambda executable, tensors: maker("ours")())
    monkeypatch.setattr(gpu_timing, "burst", timings)
    monkeypatch.setattr(gpu_timing, "sustained", timings)
    return gives


def case() -> gpu_bundle.Case:
    return gpu_bundle.Case("small", proto.read(gpu_bundle.lowered(SMALL)))


def test_a_row_with_all_its_peers(library: dict[str, Any]) -> None:
    data = gpu_suite.run(case(), SMALL, "executable", 20).data()
    assert data["failed"] == {}
    assert data["bytes"] == 3 * 8 * 16 * 4 + 32
    assert data["floor_ms"] == MS["copy"]
    assert data["burst"]["vs_best_peer"] == 1.25
    assert data["burst"]["vs_xla"] == 2.0
    assert data["burst"]["samples"] == 20
    assert data["sustained"]["ms"] == {}
    assert set(data["errors"]) == {"torch.compile", "XLA", "ours"}


def test_a_product_has_two_states_and_a_floor_of_operations(library: dict[str, Any]) -> None:
    row = replace(SMALL, flops=2.0 * 8192**3 / 4)
    data = gpu_suite.run(case(), row, "executable", 20).data()
    assert data["floor_ms"] == MS["product"] / 4
    assert data["sustained"]["ms"] == {n: MS[n] for n in ("torch", "torch.compile", "XLA", "ours")}


@pytest.mark.parametrize(
    ("name", "gives", "said"),
    [
        ("XLA", RuntimeError("out of memory\nmore"), "RuntimeError: out of memory"),
        ("torch.compile", ImportError("no Triton"), "ImportError: no Triton"),
        ("ours", np.full(4, 1.5), "differs from PyTorch by 5.0e-01"),
    ],
)
def test_what_fails_or_is_wrong_has_no_figure(name: str, gives: Any, said: str, library: dict[str, Any]) -> None:
    library[name] = gives
    result = gpu_suite.run(case(), SMALL, "executable", 20)
    assert result.failed == {name: said}
    assert name not in result.burst
    assert f"small: no figure of {name}: {said}" in bench_gpu.lines(result)


def test_a_module_that_has_no_kernel(library: dict[str, Any]) -> None:
    result = gpu_suite.run(case(), SMALL, no("refused", "sort has no kernel"), 20)
    assert result.failed == {"ours": "sort has no kernel"}
    assert result.data()["burst"]["vs_best_peer"] is None


def test_a_users_module_is_measured_against_xla(library: dict[str, Any]) -> None:
    result = gpu_suite.run(case(), None, "executable", 20)
    assert (result.case, result.family, set(result.burst)) == ("small", "module", {"XLA", "ours", "copy"})


# --- the command ---
def options(directory: Path, **changes: Any) -> argparse.Namespace:
    values = {"modules": str(directory), "filter": "", "rounds": 20, "json": "", "plot": ""}
    return argparse.Namespace(**{**values, **changes})


@pytest.mark.parametrize(("broken", "code"), [("", 0), ("XLA", 1), ("ours", 1)])
def test_a_run_fails_where_a_figure_is_missing(
    broken: str, code: int, library: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b.pb").write_bytes(gpu_bundle.lowered(SMALL))
    if broken:
        library[broken] = RuntimeError("broken")
    monkeypatch.setattr(gpu_beside, "LIBRARIES", {})
    monkeypatch.setattr(bench_gpu.gpu, "this_machine", bench_gpu.gpu.described)
    monkeypatch.setattr(bench_gpu, "_executable", lambda case, backend: "executable")
    assert bench_gpu.run(options(tmp_path, json=str(tmp_path / "out.json"))) == code
    data = json.loads((tmp_path / "out.json").read_text())
    assert [row["case"] for row in data["rows"]] == ["b"]
    assert data["missing_peers"] == (["XLA"] if broken == "XLA" else [])
    if not broken:
        assert data["families"] == {"module": {"vs_best_peer": 2.0, "worst_vs_best_peer": 2.0, "vs_xla": 2.0}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cpu", "--modules", "d"], "are for tfxla-bench gpu"),
        (["gpu", "--modules", "d", "--make-bundle", "e"], "not allowed with"),
        (["gpu", "--make-bundle", "d", "--filter", "nothing like it"], "no row matches"),
    ],
)
def test_wrong_use(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = common.run("tfxla-bench", bench.main, words)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert said in capsys.readouterr().err


def test_tensorflow_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.run("tfxla-bench", bench.main, ["gpu"]) == UnsupportedError.exit_code
    assert "TensorFlow sees no GPU" in capsys.readouterr().err


def test_a_library_that_is_not_installed_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_beside, "LIBRARIES", {"no_such_library": "it"})
    assert common.run("tfxla-bench", bench.main, ["gpu", "--modules", str(tmp_path)]) == 2


@pytest.mark.parametrize("dump", [False, True])
def test_modules_are_compiled_anew_where_they_are_tuned(
    dump: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code in a bundle was made without results of tuning, so it serves only where none are asked for."""
    code: Any = (object(), object())
    backend, module = gpu.described(), "HloModule m\nENTRY e { x = f32[5] parameter(0)\n  ROOT n = f32[5] negate(x) }"
    case = gpu_bundle.Case("negated", text.parse(module), code)
    monkeypatch.setattr(gpu.Gpu, "load", lambda self, *args: args[:2] == code and "bundled")
    made = []

    def compiled(module: Module, machine: object, how: object, choices: object) -> SimpleNamespace:
        made.append((module, choices))
        return SimpleNamespace(executable="compiled")

    monkeypatch.setattr("tfxla_cluster.compiler.compile_module", compiled)
    results = tmp_path / "results.txt"
    with flags.patch(xla_gpu_dump_autotune_results_to=str(results) if dump else ""):
        assert bench_gpu._executable(case, backend) == ("compiled" if dump else "bundled")
    assert results.exists() == dump == bool(made)
