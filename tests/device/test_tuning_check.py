"""The device's check of tuning, on this machine's processor: phases at a tiny program, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.device import tuning_check
from tests.device.tuning_check import Program, distance, kernels, maker, programs, told, tune, use
from tfxla_cluster.backends import cpu
from tfxla_cluster.tuning import tables


def _crossed() -> tuple[Callable[..., Any], Sequence[Any]]:
    kept = tf.Variable(tf.zeros([40, 30]))

    def step(x: Any) -> Any:
        kept.assign_add(tf.transpose(tf.tanh(x)) * 0.5)
        return tf.reduce_sum(kept, 0)

    return step, [tf.constant(np.linspace(-2, 2, 1200, dtype=np.float32).reshape(30, 40))]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_check, "programs", lambda small: [Program("crossed", _crossed)])
    monkeypatch.setattr(tuning_check, "CALLS", 1)
    tables.PROCESS.clear()  # as in a process that has not tuned yet


def test_the_phases(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dump = str(tmp_path / "r.txt"), str(tmp_path / "dump")
    with tfxla_cluster.config.patch():
        digests = tune(True, path, dump, 60)
    assert "forms measured" in capsys.readouterr().out
    tables.PROCESS.clear()
    with tfxla_cluster.config.patch():
        assert use(True, path) == (digests, [])
    assert "graph" in capsys.readouterr().out
    monkeypatch.setattr(tuning_check, "SLOWER", 0.0)
    slow = kernels(path, dump, cpu.this_machine())
    assert f"{len(slow)} kernels in another form" in capsys.readouterr().out
    monkeypatch.setattr(tuning_check, "NEAR", 0.0)
    monkeypatch.setattr(tuning_check, "distance", lambda values, wanted: 0.5)
    with tfxla_cluster.config.patch():
        assert use(True, path)[1] == ["crossed is off by 5.0e-01"]


def test_programs_are_those_of_their_names() -> None:
    assert [p.name for p in programs(True)] == ["feed forward", "convolutions", "bert"]
    for program in programs(True):
        step, args = program.make()
        assert all(np.isfinite(np.asarray(t, np.float32)).all() for t in tf.nest.flatten(step(*args)))


def test_distance_is_by_the_largest_element() -> None:
    a = np.array([1.0, 4.0], np.float32)
    assert distance([a, a], [a, a + np.float32(1)]) == pytest.approx(0.2)
    assert distance([a[:0]], [a[:0]]) == 0


def _record(choice: dict[str, int], ms: float) -> dict[str, Any]:
    rows = [
        {"choice": {"block": 1}, "ms": 2.0, "failure": "", "message": ""},
        {"choice": {"block": 2}, "ms": ms, "failure": "", "message": ""},
        {"choice": {"block": 4}, "ms": None, "failure": "WRONG_RESULT", "message": "off"},
        {"choice": {"block": 8}, "ms": None, "failure": "DISQUALIFIED", "message": "the same code as block=1"},
    ]
    common = {"event": "tuned", "instr": "f", "space": 1000, "seconds": 1.5, "default_ms": 2.0}
    return {**common, "choice": choice, "ms": ms, "candidates": rows}


def test_what_is_told() -> None:
    library = {"cublaslt": 130100, "workspace": 0, "type": 14, **{f"algorithm{n}": n for n in range(8)}}
    records = [_record({"block": 1}, 1.9), _record({"block": 2}, 1.0), _record(library, 0.5)]
    assert [maker(r) for r in records] == ["default", "tuned form", "cuBLASLt"]
    said = "; ".join(told([*records, {"event": "failed", "instr": "g", "reason": "no memory"}]))
    assert "3 kernels in 4.5 s, 12 of 3000 forms measured; 0.004 of the 3 spaces beyond 100" in said
    assert "cuBLASLt 1, default 1, tuned form 1; defaults 6.000 ms, chosen 3.400 ms" in said
    assert "fell out: {'WRONG_RESULT of ours': 3}; failed: g: no memory" in said
