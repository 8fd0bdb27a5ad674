"""tfxla-opt: text in, text out, one line for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfxla_cluster.cli import common, opt

MODULE = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  c = f32[4] copy(x)\n  ROOT r = f32[4] negate(c)\n}\n"
DATA = Path(__file__).parents[1] / "data"


def test_runs_named_passes(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(MODULE)
    out = tmp_path / "out.txt"
    assert opt.main([str(tmp_path / "in.txt"), "--passes=layout-normaliser,dce", "-o", str(out)]) == 0
    assert "copy" not in out.read_text()
    assert "negate(%x)" in out.read_text()


def test_reads_protos_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main([str(DATA / "softmax.hlo.pb"), "--strict", "--print-changes"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("HloModule")
    assert "after algebraic-simplifier" in captured.err


def test_lists_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--list-passes"]) == 0
    assert "algebraic-simplifier" in capsys.readouterr().out.splitlines()


BAD = [
    (["missing.txt"], 3, "cannot read missing.txt"),
    ([], 2, "no module given"),
    (["{dir}/in.txt", "--passes=nothing"], 2, "unknown pass 'nothing'"),
    (["{dir}/bad.txt"], 3, "bad.txt:1:1"),
    (["{dir}/invalid.txt"], 4, "(E3)"),
    (["{dir}/bytes.pb"], 3, "not an HloModuleProto"),
    (["{dir}/in.txt", "-o", "{dir}/no/such"], 6, "cannot be written"),
]


@pytest.mark.parametrize(("argv", "code", "message"), BAD, ids=range(len(BAD)))
def test_mistakes(argv: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (
        ("in.txt", MODULE),
        ("bad.txt", "nonsense"),
        ("bytes.pb", "nonsense"),
        ("invalid.txt", MODULE.replace("negate", "not")),
    ):
        (tmp_path / name).write_text(content)
    assert common.run("tfxla-opt", opt.main, [a.format(dir=tmp_path) for a in argv]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
