"""The page of workers that compile together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.pages import site, tab
from tfxla_inspect import report, workers_page

EVIL = "<img src=x onerror=alert(1)>"


def told(event: str, rank: int = 0, **fields: Any) -> dict[str, Any]:
    record = {"kind": "ranks", "time": 100 + rank, "event": event, "task": f"worker {rank}", "thread": 1}
    return {**record, "function": f"__inference_step_{7 + rank}", "family": "__inference_step of 1", **fields}


SIZES = {"worker 1": [["x", [9, 4]]], "worker 0": [["x", [6, 4]], ["w", []]]}
RECORDS = [
    told("loaded", 1, by="worker 0", ms=12.34),
    told("met", sizes=SIZES, missing={}, ms=0.0),
    told("agreed", generic=True, by="worker 0"),
    told("alone", 2, reason=EVIL),
    told("met", 3, sizes={"worker 3": []}, missing={"worker 0": "worker 0 has ended (…)"}),
]


def rows(directory: Path, *records: Any) -> list[list[Any]]:
    (directory / "trace.1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found: list[list[Any]] = json.loads(tab(report.build(directory), workers_page.PAGE, "together"))["rows"]
    return found


def test_what_each_had_and_who_compiled(tmp_path: Path) -> None:
    found = rows(tmp_path, *RECORDS)
    assert found == [
        ["step of 1", "worker 0", "met", "worker 0: x[6, 4] w[]; worker 1: x[9, 4]", 0.0],
        ["step of 1", "worker 0", "agreed", "by worker 0; for all sizes", ""],
        ["step of 1", "worker 1", "loaded", "by worker 0", 12.3],
        ["step of 1", "worker 2", "alone", EVIL, ""],
        ["step of 1", "worker 3", "met", "worker 3: ; worker 0 has ended (…)", ""],
    ]
    page = report.build(tmp_path)
    assert site(page)[workers_page.PAGE]["note"] == "4 workers"
    assert EVIL not in page


def test_a_program_of_one_worker_has_no_such_page(tmp_path: Path) -> None:
    (tmp_path / "trace.1.jsonl").write_text(json.dumps({"kind": "run", "time": 1.0}) + "\n")
    assert workers_page.PAGE not in site(report.build(tmp_path))


@pytest.mark.parametrize(
    "sizes", [None, 3, [], {"worker 0": None}, {"worker 0": [["x"], 4, ["y", 5]]}, {"a": {"b": 1}}]
)
def test_odd_records(tmp_path: Path, sizes: Any) -> None:
    ((_, _, event, of, _),) = rows(tmp_path, told("met", sizes=sizes, missing=sizes, ms="?", generic="x", by=None))
    assert event == "met"
    assert isinstance(of, str)
