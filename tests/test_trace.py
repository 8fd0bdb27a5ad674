"""The trace: lines that every reader takes, whole whatever ends the process, and what the first one says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tfxla_cluster import api, flags, trace
from tfxla_cluster.dump import manifest


def lines(directory: Path) -> list[str]:
    return [line for path in directory.glob("trace.*.jsonl") for line in path.read_text().splitlines()]


def strict(text: str) -> Any:
    """Raises for what JSON does not have."""

    def no(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=no)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        ([1.5, {"a": float("-inf")}], [1.5, {"a": "-inf"}]),
        ({"x": (float("inf"), 2)}, {"x": ["inf", 2]}),
        ({2, 1}, [1, 2]),
        (2**80, 2**80),
        ("\ud800\0\n", "\ud800\0\n"),
    ],
)
def test_a_record_is_json(value: Any, written: Any, tmp_path: Path) -> None:
    with flags.patch(xla_dump_to=str(tmp_path)):
        trace.record("fusion", reason=value)
    (line,) = lines(tmp_path)
    assert strict(line)["reason"] == written


WRITER = """
import sys
from tfxla_cluster import flags, trace
with flags.patch(xla_dump_to=sys.argv[1]):
    number = 0
    while True:
        trace.record("fusion", id=number, reason="x" * (number % 5000))
        number += 1
"""


def test_a_process_that_is_killed_leaves_whole_lines(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        deadline = time.monotonic() + 120
        while len(lines(tmp_path)) < 200 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    found = [strict(line)["id"] for line in lines(tmp_path)]
    assert len(found) >= 200
    assert found == list(range(len(found)))
    assert manifest.build(tmp_path)["skipped_lines"] == 0


def test_the_first_record_says_where_the_program_ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    monkeypatch.setenv("MY_SECRET", "x")
    with flags.patch(xla_dump_to=str(tmp_path)):
        api.record_run()
    (record,) = map(strict, lines(tmp_path))
    assert record["environment"]["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=2"
    assert "MY_SECRET" not in record["environment"]
    assert record["flags"]["xla_dump_to"] == str(tmp_path)
    assert record["host"]["cores"] == os.cpu_count()
    assert record["host"]["cpu"]
    assert record["host"]["memory bytes"] > 2**28
    assert {"tensorflow", "tfxla_cluster", "python"} <= set(record["versions"])
