"""`tfxla-bench gpu --steps` on the CPU, with small models in this process: turns, losses, what fails."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
import tensorflow as tf

from tests.device.test_step_times import TASKS
from tfxla_cluster.bench import gpu_tensorflow
from tfxla_cluster.bench.steps import call, keras_models, table, turns, worker
from tfxla_cluster.bench.steps.task import FLAGS, Task
from tfxla_cluster.cli import bench, bench_gpu, common


class Contender:
    """A step's process that is none; `answers` replaces what it says, by question."""

    def __init__(self, mode: str, answers: dict[str, Any]) -> None:
        self.mode, self.answers = mode, answers

    def ask(self, question: str) -> Any:
        asked.append(f"{self.mode} {question}")
        given = {"first": {"first_step_s": 2.0, "loss": 1.0}, "turn 3": {"ms": 4.0}, "end": {"peak_gib": 1.5}}
        return {"turn 2": {}, **given, **self.answers}[question]

    def close(self) -> None:
        asked.append(f"{self.mode} closed")


asked: list[str] = []


def run(**answers: dict[str, Any]) -> Any:
    """`answers`: mode -> question -> what it says."""
    asked.clear()

    def start(name: str, mode: str, batch: int) -> Any:
        return Contender(mode, answers.get(mode, {}))

    return turns.run("BERT-base", 16, 2, start)


def test_contenders_take_turns_after_their_first_steps() -> None:
    result = run(must={"turn 3": {"ms": 2.0}})
    modes = ["stock", "graph", "must", "auto"]
    turns = [f"{mode} turn 3" for mode in modes]
    assert asked[:8] == [f"{mode} {question}" for mode in modes for question in ("first", "turn 2")]
    assert asked[8:16] == turns * 2
    assert asked[-4:] == [f"{mode} closed" for mode in reversed(modes)]
    assert result.failed == {}
    assert result.ratios(result.timings) == {"stock jit": 2.0, "graph": 2.0}
    details = {"first_step_s": 2.0, "loss": 1.0, "peak_gib": 1.5, "examples_per_s": 8000.0}
    assert result.details["ours"] == details
    data = result.data()
    assert data["sustained"]["vs_stock_jit"] == 2.0
    assert "floor_ms" not in data
    assert any("first_step_s 2, loss 1" in line for line in bench_gpu.lines(result))
    assert bench_gpu.summary([result])["step"] == {"vs_best_peer": 2.0, "worst_vs_best_peer": 2.0, "vs_stock_jit": 2.0}


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("first", {"failed": "a batch of 16 does not fit"}, "a batch of 16 does not fit"),
        ("first", {"first_step_s": 2.0, "loss": 1.1}, "its first loss is 1.1, that of the others 1"),
        ("first", {"first_step_s": 2.0, "loss": float("nan")}, "its first loss is nan, that of the others 1"),
        ("turn 2", {"failed": "it raised"}, "it raised"),
        ("turn 3", {"failed": "it raised"}, "it raised"),
        ("end", {"failed": "not native"}, "not native"),
    ],
)
def test_what_fails_has_no_figure(question: str, answer: dict[str, Any], said: str) -> None:
    result = run(must={question: answer})
    assert result.failed == {"ours": said}
    assert set(result.sustained) == {"stock jit", "graph", "ours, clusters"}


@pytest.mark.parametrize("mode", ["graph", "must"])
def test_a_worker_answers(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import tfxla_cluster

    served = worker.Served(TASKS["bert"], mode, 2)
    with tfxla_cluster.config.patch(**FLAGS.get(mode, {})):
        if mode in FLAGS:
            tfxla_cluster.enable()
        try:
            first = served.answer("first")
            assert set(first) == {"trace_s", "first_step_s", "loss"}
            assert first["first_step_s"] > first["trace_s"] > 0
            assert served.answer("turn 2")["ms"] > 0
            if mode in FLAGS:
                counts = worker._counts()
                monkeypatch.setattr(worker, "_counts", lambda: {**counts, "kernels": counts["kernels"] + 1})
                assert "not native" in served.answer("end")["failed"]
                monkeypatch.setattr(worker, "_counts", lambda: counts)
            assert 0 <= served.answer("end")["peak_gib"] < 8
        finally:
            tfxla_cluster.disable()
    json.dumps(first)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), "a batch of 2 does not fit into the GPU's memory"),
        (ValueError("wrong\nmore"), "ValueError: wrong"),
    ],
)
def test_a_worker_says_what_it_raises(error: Exception, said: str) -> None:
    def data(batch: int) -> list[tf.Tensor]:
        raise error

    task = Task(lambda: tf.identity, data, 2)
    assert worker.Served(task, "graph", 2).answer("first") == {"failed": said}


def test_every_step_has_a_batch_and_a_task() -> None:
    for name, batch in {**table.BATCHES, **table.CPU_BATCHES, table.CALL: call.ELEMENTS}.items():
        assert table.task(name).batch == batch


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    chosen, result = [], run()

    def one(name: str, batch: int, rounds: int) -> Any:
        chosen.append((name, batch, rounds))
        return result

    monkeypatch.setattr(turns, "run", one)
    monkeypatch.setattr(gpu_tensorflow, "machine", lambda: "a GPU")
    out = tmp_path / "steps.json"
    words = ["gpu", "--steps", "--filter", "BERT", "--batch", "32", "--rounds", "2", "--json", str(out)]
    assert common.run("tfxla-bench", bench.main, words) == 0
    assert chosen == [("BERT-base", 32, 2)]
    assert json.loads(out.read_text())["missing_peers"] == []
    with pytest.raises(SystemExit):
        bench.main(["cpu", "--steps"])
    options = argparse.Namespace(filter="no such step", batch=None, rounds=2)
    with pytest.raises(bench_gpu.UsageError, match="no step matches"):
        bench_gpu.run_steps(options)


@pytest.mark.parametrize("mode", ["jit", "jax", "stock"])
def test_what_a_call_costs(mode: str) -> None:
    served = worker.Served(table.task(table.CALL), mode, call.ELEMENTS)
    x, y = (t.numpy() for t in table.task(table.CALL).data(call.ELEMENTS))
    assert abs(served.answer("first")["loss"] - float((tf.tanh(x) * y + 1).numpy().sum())) < 1e-3
    assert served.answer("turn 3")["ms"] > 0
    assert "failed" not in served.answer("end")
    small = worker.Served(TASKS["bert"], "jax", 2)
    assert small.answer("first") == {"failed": "UsageError: the step is not written for JAX"}


@pytest.mark.parametrize("name", ["MLP", "CNN 8x8", "LSTM", "transformer"])
def test_steps_of_the_cpu_are_native_and_have_the_loss_of_the_graph(name: str) -> None:
    """Through one step of each."""
    small = keras_models.transformer(1, 16, 2, 8) if name == "transformer" else table.task(name)
    losses = {}
    for mode in ("graph", "jit"):
        served = worker.Served(small, mode, 2)
        losses[mode] = served.answer("first")["loss"]
        assert "failed" not in served.answer("end")
    assert abs(losses["graph"] - losses["jit"]) < 1e-4 * abs(losses["graph"])
