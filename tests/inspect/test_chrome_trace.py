"""The trace for Perfetto: whole, valid, spans where they belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.inspect import sample
from tfxla_inspect import cli

PHASE = {"kind": "phase", "name": "passes", "ms": 250.0, "time": 100.5, "thread": 5, "module": "m"}
STEP = {"instr": "fusion", "symbol": "k", "count": 4, "ms": 2.0, "min_ms": 0.4, "median_ms": 0.5}
RAN = {"kind": "execution", "id": 0, "count": 9, "timed": 2, "time": 101.0, "thread": 6, "steps": [STEP]}


def events(directory: Path, *records: Any) -> list[dict[str, Any]]:
    (directory / "module_0000.m.kernels.json").write_text("[]")
    (directory / "trace.77.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert cli.main(["trace", str(directory), "-o", str(directory / "out.json")]) == 0
    found = json.loads((directory / "out.json").read_text())["traceEvents"]
    assert isinstance(found, list)
    return found


def test_phases_are_spans_that_end_where_they_were_written(tmp_path: Path) -> None:
    found = events(tmp_path, {**PHASE, "name": "first", "time": 100.25, "ms": 0.0}, PHASE)
    (span,) = (e for e in found if e["name"] == "passes")
    assert (span["ph"], span["ts"], span["dur"], span["pid"], span["tid"]) == ("X", 0.0, 250_000.0, 77, 5)
    (first,) = (e for e in found if e["name"] == "first")
    assert first["ts"] == 0.0


def test_steps_of_an_execution_follow_one_another(tmp_path: Path) -> None:
    other = {**STEP, "instr": "dot", "median_ms": 0.25, "count": 2}
    found = events(tmp_path, PHASE, {**RAN, "steps": [STEP, other]})
    steps = [e for e in found if e.get("cat") == "step"]
    assert [(e["name"], e["dur"]) for e in steps] == [("fusion", 1000.0), ("dot", 250.0)]
    assert steps[1]["ts"] == pytest.approx(steps[0]["ts"] + 1000.0)
    assert any(e["name"] == "thread_name" and e["tid"] == steps[0]["tid"] for e in found)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"kind": "fusion", "time": 1.0, "a": "x" * 10_000, "thread": "no number"},
        {**PHASE, "ms": None},
        {**PHASE, "time": "soon"},
        {**RAN, "steps": [{}, {"instr": "x", "count": 0}]},
        {"kind": ["list"], "time": 2.0, "thread": 1},
    ],
)
def test_odd_records(record: dict[str, Any], tmp_path: Path) -> None:
    found = events(tmp_path, PHASE, record)
    assert all({"ph", "name", "pid"} <= set(e) for e in found)
    assert max(len(json.dumps(e)) for e in found) < 3000


def test_a_whole_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = sample.write(tmp_path / "dump")
    assert cli.main(["trace", str(directory), "-o", str(tmp_path / "t.json")]) == 0
    assert "perfetto" in capsys.readouterr().out
    kinds = {e.get("cat") for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]}
    assert {"compile", "step"} <= kinds
    assert cli.main(["trace", str(tmp_path / "none"), "-o", str(tmp_path / "t.json")]) == 3
