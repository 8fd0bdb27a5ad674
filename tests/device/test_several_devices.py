"""Several devices of one process: two CPUs here, and all GPUs where there are two."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from tests.device.several_devices import PROGRAMS
from tests.programs_in_child import ROOT, environment


def _table(*arguments: str) -> list[list[str]]:
    """The rows that a check of its own process prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.several_devices", *arguments],
        env=environment(""),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    rows = [line.split() for line in done.stdout.rpartition(" result\n")[2].splitlines()]
    assert rows, done.stderr[-3000:]
    return rows


def test_two_cpus() -> None:
    """One row a program here: on CPUs there are no graphs to tell apart."""
    rows = _table("--processors", "2")
    assert {row[0] for row in rows} == {program.__name__ for program in PROGRAMS}
    assert all(row[3:] == ["ok"] for row in rows)
    assert all(int(row[2]) > 0 for row in rows)


@pytest.mark.gpu
def test_gpus() -> None:
    if len(tf.config.list_physical_devices("GPU")) < 2:
        pytest.skip("TensorFlow sees fewer than two GPUs here")
    rows = _table()
    assert len(rows) == 2 * len(PROGRAMS)
    assert all(row[3:] == ["ok"] for row in rows)
