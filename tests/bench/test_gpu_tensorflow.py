"""`tfxla-bench gpu` through TensorFlow, on the CPU where there is no GPU: contenders of two processes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tfxla_cluster.bench import (
    gpu_beside,
    gpu_peer_process,
    gpu_peers,
    gpu_rows,
    gpu_suite,
    gpu_tensorflow,
    gpu_timing,
    handed_arrays,
)
from tfxla_cluster.bench.gpu_timing import Samples
from tfxla_cluster.codegen.kernel import lower

ROWS = {row.case: row for row in gpu_suite.all_rows()}
SMALL = replace(ROWS["x+y*z"], inputs=(gpu_rows.Draw((8, 16)),) * 3)


class CountedSide:
    """Samples are 1, 2, ... milliseconds in the order of all calls."""

    order: list[str] = []  # noqa: RUF012 - one order for all sides, cleared by `counted`

    def __init__(self, contenders: Mapping[str, Callable[[], object]]) -> None:
        self.contenders = contenders
        self.samples: Samples = {}

    def start(self) -> None:
        self.order.append("start")

    def round(self) -> None:
        for name, call in self.contenders.items():
            call()
            self.order.append(name)
            self.samples.setdefault(name, []).append(float(len(self.order)))

    def stop(self) -> Samples:
        return self.samples

    def turn(self, calls: int) -> Mapping[str, float]:
        for name in self.contenders:
            self.order.append(f"{name} x {calls}")
        return {name: float(calls) for name in self.contenders}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The order of what was called; sides of all libraries are counted ones, PyTorch's tensors are NumPy's."""
    CountedSide.order = []
    monkeypatch.setattr(gpu_tensorflow, "TensorFlowSide", CountedSide)
    monkeypatch.setattr(gpu_peer_process, "TorchSide", CountedSide)
    monkeypatch.setattr(handed_arrays, "tensor", as_numpy)
    monkeypatch.setattr(gpu_peers, "tensors_of", lambda found: found)
    monkeypatch.setattr(gpu_peers, "makers", lambda row, tensors: {"torch": lambda: lambda: [formula(tensors)]})
    monkeypatch.setattr(gpu_peers, "xla", lambda module, tensors: lambda: [formula(tensors)])
    monkeypatch.setattr(gpu_peers, "error", lambda found, wanted: float(np.abs(found[0] - wanted[0]).max()))
    monkeypatch.setattr(gpu_suite, "product", lambda tensors: lambda: None)
    monkeypatch.setattr(gpu_peer_process.gpu_suite, "all_rows", lambda: [SMALL])
    return CountedSide.order


def as_numpy(array: handed_arrays.Array, device: str) -> np.ndarray:
    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s32": np.int32}[array.dtype]
    return array.data.view(dtype).reshape(array.shape)


def formula(tensors: Sequence[np.ndarray]) -> np.ndarray:
    return tensors[0] + tensors[1] * tensors[2]


class InThisProcess:
    """A child_process.Child that is none; answers go through JSON."""

    def __init__(self, directory: Path) -> None:
        self.served = gpu_peer_process.Served(directory)

    def ask(self, question: str) -> Any:
        return json.loads(json.dumps(self.served.answer(question)))


def peers(directory: Path) -> gpu_beside.Peers:
    child: Any = InThisProcess(directory)
    return gpu_beside.Peers(child, directory)


def test_contenders_of_both_processes_take_turns(counted: list[str], tmp_path: Path) -> None:
    result = gpu_tensorflow.run(SMALL, 2, peers(tmp_path))
    assert result.failed == {}
    one_round = ["stock jit", "graph", "ours", "copy", "torch", "XLA"]
    assert counted == ["start", "start", *one_round, *one_round]
    assert set(result.burst) == set(one_round)
    assert result.sustained == {}
    assert set(result.errors) == {"stock jit", "graph", "ours", "torch", "XLA"}
    assert max(result.errors.values()) <= 1e-6
    assert result.moved == 4 * 8 * 16 * 4
    data = result.data()["burst"]
    assert data["vs_stock_jit"] == result.burst["stock jit"].median / result.burst["ours"].median
    assert data["vs_xla"] == result.burst["XLA"].median / result.burst["ours"].median


def test_products_are_also_measured_back_to_back(
    counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(SMALL, flops=1e9)
    monkeypatch.setattr(gpu_peer_process.gpu_suite, "all_rows", lambda: [row])
    clock = itertools.count()
    monkeypatch.setattr(gpu_timing, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    result = gpu_tensorflow.run(row, 3, peers(tmp_path))
    names = ["stock jit", "graph", "ours", "torch", "XLA"]
    assert set(result.burst) == {*names, "copy", "product"}
    assert list(result.sustained) == names
    assert {t.rounds for t in result.sustained.values()} == {3}
    turns = [called for called in counted if " x " in called]
    assert turns == [f"{name} x 20" for name in names] * (len(turns) // len(names))
    assert len(turns) // len(names) == 3 + 1  # one to warm up, as the clock goes


def test_a_turn_is_timed_after_as_many_calls_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the contender before it decides how much power the GPU has left."""
    done: list[str] = []
    clock = itertools.count()

    def read() -> float:
        done.append("clock")
        return float(next(clock))

    monkeypatch.setattr(gpu_timing, "time", SimpleNamespace(perf_counter=read))
    calls = {name: lambda name=name: done.append(name) for name in "ab"}
    assert gpu_timing.turn(calls, 2, lambda: done.append("wait")) == {"a": 500.0, "b": 500.0}
    one = ["x", "x", "wait", "clock", "x", "x", "wait", "clock"]
    assert done == [name if word == "x" else word for name in "ab" for word in one]


def test_a_peer_that_is_wrong_has_no_figure(
    counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_peers, "xla", lambda module, tensors: lambda: [tensors[0]])
    result = gpu_tensorflow.run(SMALL, 2, peers(tmp_path))
    assert list(result.failed) == ["XLA"]
    assert "differs from stock jit by" in result.failed["XLA"]
    assert "XLA" not in result.burst


def test_what_ran_another_way_has_no_figure(
    counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(SMALL, case="inverse", inputs=(gpu_rows.Draw((4, 4)),), tf_fn=lambda tf, x: tf.linalg.inv(x))
    monkeypatch.delitem(lower.LOWERINGS, "custom-call")
    monkeypatch.setattr(gpu_peer_process.gpu_suite, "all_rows", lambda: [row])
    monkeypatch.setattr(gpu_peers, "makers", lambda row, tensors: {})
    monkeypatch.setattr(gpu_peers, "xla", lambda module, tensors: lambda: [np.linalg.inv(tensors[0])])
    result = gpu_tensorflow.run(replace(row, tolerance=1e-3), 2, peers(tmp_path))
    assert list(result.failed) == ["ours"]
    assert "ours" not in result.burst


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 4.0], [1.0, -4.0], 2.0),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.nan], [np.nan, 1.0], np.inf),
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([1.0], [1.0, 2.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_errors_are_parts_of_the_largest_element(found: list[float], expected: list[float], error: float) -> None:
    import tensorflow as tf

    given, wanted = (tf.constant(values, tf.float32) for values in (found, expected))
    assert gpu_tensorflow._error([given], [wanted]) == error


def test_arrays_are_handed_over_as_they_are(tmp_path: Path) -> None:
    inputs = [np.arange(6, dtype=np.int32).reshape(2, 3), np.array(1.5, ml_dtypes.bfloat16)]
    expected = [np.zeros((0, 2), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4).T]
    names = {"int32": "s32", "bfloat16": "bf16", "float32": "f32"}
    arrays = {"inputs": inputs, "expected": expected}
    named = {kind: [(names[a.dtype.name], a) for a in found] for kind, found in arrays.items()}
    handed_arrays.write(tmp_path, "a case", named, b"module")
    case, *read = handed_arrays.read(tmp_path)
    assert case == "a case"
    assert handed_arrays.module(tmp_path) == b"module"
    for kind, found in zip(("inputs", "expected"), read, strict=True):
        for want, got in zip(arrays[kind], found, strict=True):
            np.testing.assert_array_equal(as_numpy(got, "cpu"), want)
