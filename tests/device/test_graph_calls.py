"""The measurement of CUDA graphs inside TensorFlow runs, and compares values, on a CPU too."""

from __future__ import annotations

import pytest

from tests.device import graph_calls


def test_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(graph_calls, "PROGRAMS", (graph_calls.softmax, graph_calls.training))
    assert graph_calls.main(["--device", "/CPU:0", "--calls", "2"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [
        [name, results] for name in ("softmax", "training") for results in ("dropped", "kept")
    ]


def test_other_values_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that gives another number at each call: with and without graphs it is not the same."""
    calls = iter(range(10**6))

    def counts() -> graph_calls.Program:
        return graph_calls.Program(lambda: None, ())

    def measure(*_: object) -> tuple[float, float, list[int]]:
        return 1.0, 1.0, [next(calls)]

    monkeypatch.setattr(graph_calls, "PROGRAMS", (counts,))
    monkeypatch.setattr(graph_calls, "measure", measure)
    assert graph_calls.main(["--device", "/CPU:0"]) == 1
    assert "WRONG" in capsys.readouterr().out
