"""`tfxla-inspect bisect` and `minimize` (tfxla_cluster.replay.faults) as commands: of files and of dumps, ours and
XLA's."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.replay.modules import chain
from tests.replay.test_locate import DIVIDE, SUBTRACT, plant
from tfxla_cluster.ir import text
from tfxla_inspect import cli

__all__ = ["plant"]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(text.render(chain(12, DIVIDE, 5)))
    return path


def test_nothing_fails(here: None, module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bisect", str(module)]) == 0
    assert "cpu: right, within the tolerances" in capsys.readouterr().out


def test_a_pass_is_named(plant: object, module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant("pass")
    assert cli.main(["bisect", str(module)]) == 1
    captured = capsys.readouterr()
    assert "cpu: wrong numbers in output 0, 1" in captured.out
    assert "pass sort-simplifier: wrong numbers" in captured.out
    assert "after fusion: wrong numbers" in captured.err  # the steps of the search


def test_of_our_dump(plant: object, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And zipped; its own optimised module is not taken for one to start from."""
    assert cli.main(["replay", str(module), f"--xla_dump_to={tmp_path / 'dump'}"]) == 0
    plant("pass")
    assert cli.main(["bisect", str(tmp_path / "dump")]) == 1
    with zipfile.ZipFile(tmp_path / "dump.zip", "w") as archive:
        for path in (tmp_path / "dump").iterdir():
            archive.write(path, path.name)
    assert cli.main(["bisect", f"{tmp_path / 'dump.zip'}:chain"]) == 1
    assert capsys.readouterr().out.count("pass sort-simplifier") == 2
    assert cli.main(["bisect", f"{tmp_path / 'dump'}:77"]) == 3
    assert "no module 77. It has: 0 (chain)" in capsys.readouterr().err


def xla_dump(folder: Path, wrong_from: int) -> Path:
    """A module between passes, as XLA dumps it: another one from a pass on."""
    folder.mkdir()
    right, wrong = (text.render(chain(6, step, 3)) for step in (SUBTRACT, "subtract(y, a{p})"))
    (folder / "module_0003.f.before_optimizations.txt").write_text(right)
    for number in range(7):
        name = f"module_0003.f.{number:04}.pipeline.after_p{number}.before_p{number + 1}.txt"
        (folder / name).write_text(wrong if number >= wrong_from else right)
    (folder / "module_0003.f.cpu_after_optimizations.txt").write_text(wrong if wrong_from < 7 else right)
    return folder


def test_of_a_dump_of_xla(here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bisect", str(xla_dump(tmp_path / "bad", 4))]) == 1
    assert "after_p4.before_p5.txt: wrong numbers" in capsys.readouterr().out
    assert cli.main(["bisect", str(xla_dump(tmp_path / "good", 7))]) == 0
    out = capsys.readouterr().out
    assert "9 forms of it mean the same" in out
    assert "xla: right" in out


def test_forms_with_elided_literals_are_not_compared(
    here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = xla_dump(tmp_path / "d", 7)
    path = folder / "module_0003.f.0002.pipeline.after_p2.before_p3.txt"
    path.write_text(path.read_text().replace("f32[] constant(0)", "f32[20] constant({...})"))
    assert cli.main(["bisect", str(folder)]) == 2
    assert "the literal was elided" in capsys.readouterr().err


def test_minimize_writes_what_names_the_pass(
    plant: object, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant("pass")
    assert cli.main(["minimize", str(module), "-o", str(tmp_path / "small")]) == 0
    captured = capsys.readouterr()
    assert "It is pass sort-simplifier" in captured.out
    assert "trials: " in captured.err
    script = tmp_path / "small" / "reproduce.py"
    assert "It is pass sort-simplifier" in script.read_text()
    opcodes = [i.opcode for i in text.parse((tmp_path / "small" / "module.hlo").read_text()).entry.instrs]
    assert len(opcodes) <= 4
    assert "divide" in opcodes
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], env=environment, timeout=120, check=False)
    assert done.returncode == 0  # where nothing is planted


def test_what_does_not_fail(here: None, module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["minimize", str(module), "-o", str(tmp_path / "small")]) == 1
    assert "nothing to minimise" in capsys.readouterr().out
    assert not (tmp_path / "small").exists()
