"""`tfxla-bench cpu`: its rows, their JSON, what fails. No test holds a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfxla_cluster.bench import contenders, cpu_steps, measure, torch_process
from tfxla_cluster.bench.gpu_suite import Result
from tfxla_cluster.bench.measure import summary as timing
from tfxla_cluster.bench.rows import all_rows
from tfxla_cluster.bench.steps import table
from tfxla_cluster.cli import bench, bench_cpu, common

DETAILS = {"trace_s": 1.0, "first_step_s": 3.0, "loss": 0.5, "peak_gib": 0.5}


def result(name: str, batch: int, rounds: int, **how: Any) -> Result:
    """What a step gives that takes the stock 4 ms and others 2."""
    contenders = how.get("contenders", {"stock jit": "", "graph": "", "ours": "", "ours, clusters": ""})
    found = Result(f"{name}, {batch} examples", "step")
    found.sustained = {c: timing([4.0 if c == "stock jit" else 2.0]) for c in contenders}
    found.details = {c: dict(DETAILS) for c in contenders}
    return found


def test_a_step_gives_a_row_of_steps_and_one_of_compile_time() -> None:
    step, first = cpu_steps.rows("MLP", 3, result)
    assert (step["case"], step["family"], step["ours_ms"], step["clusters_ms"]) == ("MLP", "steps", 2.0, 2.0)
    assert step["peers"] == {"stock jit": 4.0, "graph": 2.0}
    assert (step["vs_stock_jit"], step["vs_best_peer"]) == (2.0, 1.0)
    assert step["peak_memory_mb"]["ours"] == pytest.approx(2**29 / 1e6)
    assert (first["family"], first["ours_ms"], first["peers"]) == ("compile time", 2000.0, {"stock jit": 2000.0})


def test_calls_have_a_row_each_way() -> None:
    by_function, direct = cpu_steps.rows(table.CALL, 3, result)
    assert by_function["case"].endswith("tf.function")
    assert direct["case"].endswith("tfxla_cluster.jit")
    for row in (by_function, direct):
        assert row["family"] == "call overhead"
        assert row["peers"] == {"stock jit": 4.0, "graph": 2.0, "jax": 2.0}


def test_what_failed_has_no_ratio() -> None:
    def failing(name: str, batch: int, rounds: int, **how: Any) -> Result:
        found = result(name, batch, rounds, **how)
        found.failed = {"ours": "not native"}
        found.sustained = {c: t for c, t in found.sustained.items() if c != "ours"}
        return found

    step, _ = cpu_steps.rows("MLP", 3, failing)
    assert (step["ours_ms"], step["vs_best_peer"], step["failed"]) == (None, None, {"ours": "not native"})
    assert bench_cpu.line(step) == "MLP: no figure: {'ours': 'not native'}"
    assert bench_cpu.summary([step]) == {}


def test_rows_are_chosen_by_name_and_family() -> None:
    assert cpu_steps.chosen("LSTM") == ["LSTM"]
    assert cpu_steps.chosen("steps") == cpu_steps.chosen("compile time") == list(table.CPU_BATCHES)
    assert cpu_steps.chosen("call overhead") == [table.CALL]
    assert cpu_steps.chosen("") == [*table.CPU_BATCHES, table.CALL]


def test_the_command_writes_all_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_steps, "rows", lambda name, rounds: cpu_steps_rows(name, rounds, result))
    out = tmp_path / "rows.json"
    words = ["cpu", "--filter", "m", "--rounds", "1", "--json", str(out)]
    monkeypatch.setattr("tfxla_cluster.bench.rows.all_rows", lambda: [r for r in SINGLE if r.case == "matmul 256"])
    assert common.run("tfxla-bench", bench.main, words) == 0
    data = json.loads(out.read_text())
    assert set(data["families"]) == {"contraction", "steps", "compile time"}
    assert set(data["families"]["steps"]) == {"geomean_vs_stock_jit", "geomean_vs_best_peer", "worst_vs_best_peer"}
    (product,) = [row for row in data["rows"] if row["family"] == "contraction"]
    installed = {"torch.compile"} if torch_process.is_installed() else set()
    assert set(product["peers"]) == {"graph", "stock jit", "jax", "numpy"} | installed
    assert product["floor_ms"] > 0
    assert data["missing_peers"] == bench_cpu.missing_peers()


def test_a_peer_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_process, "is_installed", lambda: False)
    with torch_process.peer() as none:
        assert none is None
    without = bench_cpu.missing_peers()
    monkeypatch.setattr(torch_process, "is_installed", lambda: True)
    assert set(without) - set(bench_cpu.missing_peers()) == {"torch.compile"}


def test_rows_of_pytorch_need_neither_tensorflow_nor_jax() -> None:
    """PyTorch's process imports neither: the function of each row is found without."""
    cases = [row.case for row in SINGLE]
    assert len(set(cases)) == len(cases)
    program = (
        "import sys; from tfxla_cluster.bench.rows import torch_fn\n"
        f"for case in {cases}: assert callable(torch_fn(case)), case\n"
        "print([name for name in ('tensorflow', 'jax', 'triton') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class Elsewhere:
    """A contender with a clock of its own."""

    cpu_s = 0.0

    def milliseconds(self) -> float:
        self.cpu_s += 0.001
        return 7.0


def test_a_contender_elsewhere_tells_its_own_time() -> None:
    elsewhere = Elsewhere()
    timings, _ = measure.interleave({"here": lambda: None, "there": elsewhere}, rounds=3)
    assert timings["there"].median == 7.0
    assert elsewhere.cpu_s > 0.004, "rounds that only warm up count too"


def test_what_the_other_process_says_is_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = [row for row in SINGLE if row.case == "matmul 256"]

    class Peer(Elsewhere):
        def __init__(self, reason: str) -> None:
            self.reason = reason

        def make(self, made: Any, inputs: list[Any], expected: list[Any]) -> str:
            assert made is row
            np.testing.assert_allclose(expected[0], inputs[0] @ inputs[1], rtol=1e-3, atol=1e-3)
            return self.reason

    for reason in ("", "TypeError: no"):
        calls, _, failed = contenders.make(row, Peer(reason))
        assert ("torch.compile" in calls) is (not reason)
        assert failed == ({"torch.compile": reason} if reason else {})


def test_pytorch_gives_what_stock_gives() -> None:
    pytest.importorskip("torch")
    with torch_process.peer() as torch:
        assert torch is not None
        for row in (row for row in SINGLE if row.case in ("matmul 256", "top-k 8", "unsorted_segment_max")):
            calls, _, failed = contenders.make(row, torch)
            assert not failed
            assert measure.interleave({"torch": calls["torch.compile"]}, rounds=1)[0]["torch"].median > 0


SINGLE = all_rows()
cpu_steps_rows = cpu_steps.rows
