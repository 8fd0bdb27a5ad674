"""Plots of benchmark rows."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tfxla_cluster.bench import plot
from tfxla_cluster.cli import bench, common
from tfxla_cluster.errors import OutputError, UsageError

ROWS = [
    ("softmax", {"ours": 0.13, "XLA": 0.14, "torch": 0.21}),
    ("sum", {"ours": 0.2, "XLA": 0.1}),
    ("refused", {"XLA": 0.1}),
]
installed = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")


@installed
@pytest.mark.parametrize("rows", [ROWS, []], ids=["some", "none"])
def test_a_picture_names_rows_and_contenders(rows: list[plot.Row], tmp_path: Path) -> None:
    import matplotlib

    path = tmp_path / "rows.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text as text
        plot.write(str(path), "GPU", rows)
    text = path.read_text()
    for word in ("softmax", "sum", "XLA", "torch", "1.08", "0.50"):
        assert (word in text) == bool(rows), word
    assert "refused" not in text


@installed
def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        plot.write(str(tmp_path / "no" / "rows.svg"), "GPU", ROWS)


@installed
def test_a_format_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"none of \.svg, \.png, \.pdf"):
        plot.check("rows.docx")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert common.run("tfxla-bench", bench.main, ["cpu", "--plot", "rows.svg"]) == 2
    assert "matplotlib" in capsys.readouterr().err
