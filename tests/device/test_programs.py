"""Programs on a machine with an accelerator: a second CPU that counts as one, and a GPU where there is one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from tests.device.programs import PROGRAMS
from tests.programs_in_child import ROOT, environment


def _rows(*arguments: str) -> dict[str, str]:
    """The table that a check of its own process prints: program -> result."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.gpu_check", *arguments],
        env=environment(""),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    table = done.stdout.rpartition("program  ")[2].splitlines()[1:]
    rows = {words[0]: " ".join(words[2:]) for words in map(str.split, table)}
    assert rows, done.stderr[-3000:]
    return rows


@pytest.fixture(scope="module")
def stand_in() -> dict[str, str]:
    return _rows("--stand-in")


@pytest.mark.parametrize("name", [*PROGRAMS, "refusals", "reasons"])
def test_second_cpu(stand_in: dict[str, str], name: str) -> None:
    assert stand_in[name] == "ok"


@pytest.fixture(scope="module")
def with_backend() -> dict[str, str]:
    return _rows("--stand-in", "--backend")


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_cpu_with_a_backend(with_backend: dict[str, str], name: str) -> None:
    """Graphs as they are made for a GPU that we compile for."""
    assert with_backend[name] == "ok"


@pytest.mark.gpu
def test_gpu() -> None:
    if not tf.config.list_physical_devices("GPU"):
        pytest.skip("TensorFlow sees no GPU here")
    rows = _rows()
    assert set(rows.values()) == {"ok"}
    assert rows.keys() >= PROGRAMS.keys()
