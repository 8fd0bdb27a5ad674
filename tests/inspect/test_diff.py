"""`tfxla-inspect diff`: guard sets of records that a test writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfxla_inspect import cli, guard_sets


def entry(*dims: int | None, **more: Any) -> dict[str, Any]:
    return {"of": "argument 'x'", "dtype": "float32", "dims": list(dims), "guards": [], **more}


def record(number: int, *inputs: dict[str, Any], python: Any = None, process: Any = None) -> dict[str, Any]:
    serves = {"inputs": list(inputs), "python": python or {}, "process": process or {}}
    family = "__inference_step of 1"
    return {"kind": "compile", "time": number, "id": number, "hit": "", "family": family, "serves": serves}


RECORDS = [
    record(0, entry(8, 4), python={"k": "2"}, process={"target": "avx2"}),
    record(1, entry(None, 4, guards=["dim 0: at least 2"]), python={"k": "3"}, process={"target": "avx2"}),
    record(2, entry(8, 4), python={"k": "2"}, process={"target": "avx2"}),
    record(3, entry(2, value="[4, 8]"), entry(3, of="variable 'w'"), process={"target": "avx512" * 100}),
]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "trace.1.jsonl").write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    return tmp_path


def test_sizes_that_may_be_any_are_none(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", f"{dump}:0", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"- {dump}:0 [0/0] step: unknown"
    assert lines[1] == f"+ {dump}:1 [0/1] step: unknown"
    assert lines[2:] == [
        "argument 'x'", "  - float32[8, 4]", "  + float32[None, 4]",
        "Python value 'k'", "  - 2", "  + 3",
        "argument 'x': dim 0", "  - absent", "  + at least 2",
    ]  # fmt: skip


def test_the_same(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one dump and of two."""
    assert cli.main(["diff", f"{dump}:0", "2"]) == 0
    assert "they hold for the same" in capsys.readouterr().out
    other = tmp_path / "with:colon"
    other.mkdir()
    (other / "trace.7.jsonl").write_text(json.dumps(RECORDS[2]) + "\n")
    assert cli.main(["diff", f"{dump}:0", f"{other}:2"]) == 0


def test_values_and_long_texts(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", f"{dump}:0", "3"]) == 1
    out = capsys.readouterr().out
    assert "argument 'x': value\n  - absent\n  + [4, 8]" in out
    assert "variable 'w'\n  - absent\n  + float32[3]" in out
    assert "Python value 'k'\n  - 2\n  + absent" in out
    assert max(map(len, out.splitlines())) < 300


WRONG = {
    "no id": (["dump", "1"], 2),
    "no number": (["dump:x", "1"], 2),
    "no directory": (["1", "2"], 2),
    "one": (["dump:1"], 2),
    "no such module": (["DUMP:0", "77"], 3),
    "no dump": (["DUMP/nothing:0", "1"], 3),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(name: str, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, code = WRONG[name]
    words = [word.replace("DUMP", str(dump)) for word in words]
    try:
        found = cli.main(["diff", *words])
    except SystemExit as ended:  # argparse's
        found = int(ended.code or 0)
    assert found == code
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    "serves", [None, 3, [], {"inputs": 3}, {"inputs": [3]}, {"inputs": [{"dims": 3}]}, {"python": 3}]
)
def test_what_is_no_guard_set(serves: Any) -> None:
    """A trace may be cut off, or another program's."""
    rough = {"serves": serves}
    guard_sets.lines(rough)
    assert guard_sets.differences(rough, rough) == []
    assert all(d.was == guard_sets.ABSENT for d in guard_sets.differences({}, rough))
