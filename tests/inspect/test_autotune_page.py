"""The page of tuning: what won, how much faster it is, and why candidates fell out."""

from __future__ import annotations

import json
from pathlib import Path

from tests.inspect import sample
from tests.inspect.pages import site, tab
from tfxla_inspect import report

RECORD = {
    "kind": "autotune",
    "event": "tuned",
    "instr": "fusion.3",
    "device": "sm_90",
    "choice": {"rows": 4},
    "ms": 0.5,
    "default_ms": 1.0,
    "seconds": 2.5,
    "candidates": [
        {"choice": {}, "ms": 1.0},
        {"choice": {"rows": 8}, "failure": "wrong", "message": "differs by 3"},
        {"choice": {"rows": 4}, "ms": 0.5},
    ],
}


def build(tmp_path: Path, records: list[dict[str, object]]) -> str:
    (tmp_path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    (tmp_path / "trace.9.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return report.build(tmp_path)


def test_what_won_and_by_how_much(tmp_path: Path) -> None:
    (row,) = json.loads(tab(build(tmp_path, [RECORD]), "autotune", "kernels"))["rows"]
    assert row == ["fusion.3", "tuned", "sm_90", "rows 4", 0.5, 1.0, 2.0, 3, 1, 2.5, ""]


def test_candidates_stand_by_time_and_say_why_they_fell_out(tmp_path: Path) -> None:
    data = json.loads(tab(build(tmp_path, [RECORD]), "autotune", "candidates"))
    assert data["group"] == 0
    assert [row[1:] for row in data["rows"]] == [
        ["rows 4", 0.5, "", ""],
        ["the default", 1.0, "", ""],
        ["rows 8", "", "wrong", "differs by 3"],
    ]


def test_results_that_were_only_read(tmp_path: Path) -> None:
    made = build(
        tmp_path, [{"kind": "autotune", "event": "loaded", "reason": "3 results", "candidates": 7, "ms": None}]
    )
    assert json.loads(tab(made, "autotune", "kernels"))["rows"][0][1] == "loaded"
    assert next(t for t in site(made)["autotune"]["tabs"] if t["id"] == "candidates")["k"] == "note"


def test_no_page_without_tuning(tmp_path: Path) -> None:
    assert "autotune" not in site(build(tmp_path, [{"kind": "run"}]))
