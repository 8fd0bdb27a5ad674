"""Profiles of steps, from spans as a GPU's profiler gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.device.kernel_times import BYTES, OPERATIONS, known_kernels, summed

SPANS = [("b", 130.0, 170.0), ("a", 100.0, 110.0), ("b", 150.0, 160.0), ("a", 200.0, 220.0)]


def test_kernels_of_two_steps() -> None:
    profile = summed(SPANS, 2, {"a": (0.004, "fusion.1: add.1")})
    assert [(k.name, k.runs, k.ms) for k in profile.kernels] == [("b", 1.0, 0.025), ("a", 1.0, 0.015)]
    assert [k.least_ms for k in profile.kernels] == [0.0, 0.004]
    assert profile.ms == 0.06
    assert profile.busy_ms == pytest.approx(0.035)  # what overlaps counts once
    assert profile.lines(1)[-1].endswith("1 others")


def test_nothing_ran() -> None:
    with pytest.raises(AssertionError, match="nothing ran"):
        summed([], 1)


def test_the_least_is_that_of_bytes_or_of_products(tmp_path: Path) -> None:
    row = {"instr": "f", "opcode": "fusion", "bytes": BYTES / 1e3, "flops": OPERATIONS / 100}
    rows = [
        {**row, "symbol": "kernel_0_add", "instrs": ["add.1"]},
        {**row, "symbol": "kernel_1_dot_1", "instrs": ["dot.1", "add.2"]},
    ]
    (tmp_path / "module_0001.x.kernels.json").write_text(json.dumps(rows))
    assert known_kernels(tmp_path) == {
        "tfxla_add": (pytest.approx(1.0), "f: add.1"),
        "tfxla_dot_1": (pytest.approx(10.0), "f: dot.1 add.2"),
    }
