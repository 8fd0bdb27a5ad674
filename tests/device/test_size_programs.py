"""The check of programs whose sizes vary on a GPU, on whatever TensorFlow runs on here."""

from __future__ import annotations

import pytest

from tests import fresh
from tests.device import size_programs

ours = pytest.fixture(autouse=True)(fresh.compiler)


def test_a_program_and_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert size_programs.main(["chosen rows", "Keras fit", "--sizes", "3"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row[:18].strip() for row in rows] == ["chosen rows", "Keras fit"]
    assert all(row.endswith("ok") for row in rows)
    assert rows[0].split()[2:4] == ["2", "3"]  # executables, sizes


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(size_programs, "_differs", lambda one, other: "one is 3 off")
    assert size_programs.main(["dropout", "--sizes", "2"]) == 1
    assert "at 6: one is 3 off" in capsys.readouterr().out
