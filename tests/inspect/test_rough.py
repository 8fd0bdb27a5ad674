"""Directories that are no dump, dumps cut anywhere, and dumps of programs in which nothing was compiled."""

from __future__ import annotations

import html
import json
import random
import re
import shutil
from pathlib import Path

import pytest

from tests.inspect import sample
from tests.inspect.pages import blocks
from tfxla_cluster import __version__
from tfxla_inspect import cli
from tfxla_inspect.report import build

BINARY = random.Random(5).randbytes(3000)
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True}


def report(directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard error, and the words of the start page ('' where nothing was written)."""
    out = directory.parent / "out.html"
    code = cli.main(["report", str(directory), "-o", str(out)])
    page = out.read_text() if out.exists() else ""
    start = page[page.find('<main id="start"') : page.find('<main id="page"')]
    return code, capsys.readouterr().err, " ".join(html.unescape(re.sub("<[^>]+>", " ", start)).split())


FOREIGN = [
    {"manifest.json": b'{"name": "app", "icons": []}', "index.html": b"<p>"},
    {"module_1.txt": b"not HLO", "module_list.csv": b"a,b"},
    {"module_0000.notes.md": b"# notes"},
    {"model.pbtxt": b"node { }", "saved_model.pb": BINARY},
    {"trace.jsonl": b"{}", "trace.json.gz": BINARY, "trace.x.jsonl": b"{}"},
    {"holiday.jpg": BINARY},
]


@pytest.mark.parametrize("files", FOREIGN, ids=[next(iter(f)) for f in FOREIGN])
def test_a_foreign_directory_is_one_line(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    for name, data in files.items():
        (tmp_path / "d" / name).write_bytes(data)
    code, error, page = report(tmp_path / "d", capsys)
    assert code == 3
    assert error.count("\n") == 1
    assert "holds no dump" in error
    assert not page


def test_an_empty_directory_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for make in (lambda d: None, lambda d: (d / ".module_counter").write_text("1"), lambda d: (d / "sub").mkdir()):
        directory = tmp_path / "d"
        directory.mkdir()
        make(directory)
        code, error, page = report(directory, capsys)
        assert code == 3
        assert error.count("\n") == 1
        assert "empty" in error
        assert "--xla_dump_to" in error
        assert not page
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("trace.1.jsonl", b'{"kind": "run", "argv": ["pro', "1 lines that are no record"),
        ("trace.1.jsonl", b"\n[]\n7\nnull\n{\n", "4 lines that are no record"),
        ("trace.1.jsonl", BINARY, "binary data where text was expected"),
        ("trace.1.jsonl", b"", "empty"),
        ("trace.1.jsonl", b"[" * 100_000, "1 lines that are no record"),
        ("module_0000.m.kernels.json", b'[{"symbol": "k', "no JSON"),
        ("module_0000.m.launch_plan.json", b"[]", "JSON, but no dict"),
        ("module_0000.m.timings.json", b'{"total_ms": NaN', "no JSON"),
        (
            "module_0000.m.cpu_after_optimizations.txt",
            b"HloModule m\nENTRY e {\n  x = f32[",
            "breaks off inside a comp",
        ),
        ("module_0000.m.cpu_after_optimizations.txt", b"Hlo", "no computation in it"),
        ("module_0000.m.cpu_after_optimizations.txt.gz", b"\x1f\x8b\x08", "cannot be read"),
        ("mark_for_compilation.pbtxt", b'node {\n  name: "x"\n  op: "Ad', "breaks off inside a node"),
        ("mark_for_compilation.pbtxt", BINARY, "binary data"),
    ],
)
def test_a_damaged_file_is_a_row(
    name: str, data: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    (tmp_path / "d" / name).write_bytes(data)
    code, error, page = report(tmp_path / "d", capsys)
    assert (code, error) == (0, "")
    assert said in page
    assert name in page


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_every_file_of_a_dump_cut_at_once(at: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = sample.write(tmp_path / "d")
    for file in directory.iterdir():
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * at)])
    code, error, page = report(directory, capsys)
    assert code == 0
    assert not error
    assert "1 module compiled" in page
    assert "Not read" in page


def _run(flags: dict[str, object]) -> dict[str, object]:
    return {"kind": "run", "argv": ["p.py"], "flags": flags, "versions": {"tfxla_cluster": __version__}}


LEFT = {"kind": "unclustered", "node": "j", "op": "StringJoin", "rule": "string", "reason": "strings", "function": "f"}
STATS = {"kind": "stats", "stats": {"functions": 0}}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([_run({}), STATS], "auto-clustering was off"),
        ([_run({"tf_xla_auto_jit": "2"}), STATS], "--tf_xla_cpu_global_jit"),
        ([_run(AUTO), STATS], "called no tf.function"),
        ([_run(AUTO)], "cut short"),
        ([_run(AUTO), {"kind": "function", "name": "f"}, STATS], "none of their ops is one that compiles"),
        ([_run(AUTO), {"kind": "function", "name": "f"}, LEFT, STATS], "string (1 nodes)"),
        ([_run({}), {"kind": "fallback", "what": "f", "reason": "no kernel", "to": "xla"}], "fell back"),
    ],
)
def test_a_dump_without_modules_says_why(
    records: list[dict[str, object]], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "trace.1.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    code, error, page = report(tmp_path / "d", capsys)
    assert (code, error) == (0, "")
    assert "No module was compiled" in page
    assert said in page


def test_numbers_that_are_no_json_are_unknown(tmp_path: Path) -> None:
    """A page's script reads what is embedded as JSON, which has no NaN; an integer beyond all floats is none either."""
    directory = sample.write(tmp_path / "d")
    odd = '[{"symbol": "multiply_reduce_fusion_k0", "bytes": NaN, "flops": 1e999, "tasks": -Infinity, "n": 1%s}]'
    (directory / "module_0000.cluster_0.kernels.json").write_text(odd % ("0" * 400))
    (directory / "trace.9.jsonl").write_text(
        '{"kind": "compile", "id": 0, "ms": NaN, "phases": {"passes": Infinity}}\n'
    )
    made = blocks(build(directory))
    parsed = [json.loads(text, parse_constant=pytest.fail) for text in made.values() if text[:1] in "[{"]
    assert any("multiply_reduce_fusion_k0" in json.dumps(value) for value in parsed)
