"""Records of executions: written as an executable runs on, each time all that is known of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime.hand import HandCode, sum_plan
from tfxla_cluster import execution_records, flags
from tfxla_cluster.dump.schema import RECORD_KINDS
from tfxla_cluster.execution_records import ExecutionRecords
from tfxla_cluster.runtime.cpu.executable import Executable

DATA = [np.ones(40, np.float32)] * 2


class Memory:
    """Executables with names, and how often each ran."""

    def __init__(self, *timed: int) -> None:
        made = [Executable(sum_plan(4, 10), HandCode(), timed=count) for count in timed]
        self.loaded: list[Any] = [
            SimpleNamespace(module=f"m{n}", id=n, record=one.record, executable=one) for n, one in enumerate(made)
        ]
        self.runs = {id(one): 0 for one in self.loaded}
        self.records = ExecutionRecords(lambda: self.loaded, lambda: self.runs)

    def run(self, number: int, times: int) -> None:
        one = self.loaded[number]
        for _ in range(times):
            one.executable.run(DATA)
        self.runs[id(one)] += times


def written(directory: Path) -> list[dict[str, Any]]:
    lines = [line for path in directory.glob("trace.*.jsonl") for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["kind"] == "execution"]


def test_records_are_few_and_each_says_all(tmp_path: Path) -> None:
    memory = Memory(5, 5)
    with flags.patch(xla_dump_to=str(tmp_path)):
        memory.records.write_grown()
        assert written(tmp_path) == []
        for _ in range(100):
            memory.run(0, 1)
            memory.records.write_grown()
        assert [record["count"] for record in written(tmp_path)] == [1, 2, 4, 8, 16, 32, 64]
        memory.run(1, 3)
        memory.records.write_all()
    last = {record["module"]: record for record in written(tmp_path)}
    assert {name: (r["count"], r["timed"], r["id"]) for name, r in last.items()} == {"m0": (100, 5, 0), "m1": (3, 3, 1)}
    for record in last.values():
        assert set(record) >= set(RECORD_KINDS["execution"].fields)
        assert [(s["instr"], s["count"]) for s in record["steps"]] == [(n, record["timed"]) for n in ("add", "mul")]
        assert record["ms"] == pytest.approx(sum(s["ms"] for s in record["steps"]))
        for step in record["steps"]:
            assert 0 < step["min_ms"] <= step["median_ms"] <= step["ms"]
            assert step["symbol"] in ("add", "mul")


def test_what_is_not_timed_is_not_told(tmp_path: Path) -> None:
    memory = Memory(0)
    memory.run(0, 2)
    with flags.patch(xla_dump_to=str(tmp_path)):
        memory.records.write_all()
    assert written(tmp_path) == []


def test_a_thread_writes_while_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_records, "PERIOD", 0.01)
    memory = Memory(5)
    memory.records.watch()  # no dump: nothing to look for
    with flags.patch(xla_dump_to=str(tmp_path)):
        for _ in range(2):
            memory.records.watch()
        memory.run(0, 1)
        deadline = time.monotonic() + 30
        while not written(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        monkeypatch.setattr(execution_records, "PERIOD", 3600)
    assert [record["count"] for record in written(tmp_path)] == [1]


def test_an_executable_that_is_dropped_is_told_and_forgotten(tmp_path: Path) -> None:
    memory = Memory(5)
    memory.run(0, 3)
    memory.records.write_dropped(memory.loaded[0])  # no dump
    with flags.patch(xla_dump_to=str(tmp_path)):
        memory.records.write_grown()
        memory.run(0, 1)
        memory.records.write_dropped(memory.loaded[0])
    assert [record["count"] for record in written(tmp_path)] == [3, 4]
    assert memory.records._written == {}
