"""`tfxla-inspect diff` of HLO (tfxla_inspect.structure): matched by what is computed, not by names or printers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import oracle
from tests.replay.modules import SMALL
from tfxla_cluster.ir import text
from tfxla_inspect import cli, structure


def written(hlo: str) -> str:
    """As it is printed, an instruction a line."""
    return text.render(text.parse(hlo))


FUSED = written("""HloModule f
fused { p = f32[8,4] parameter(0)
  q = f32[8,4] parameter(1)
  m = f32[8,4] multiply(p, q)
  ROOT t = f32[8,4] tanh(m) }
ENTRY e { x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  ROOT r = f32[8,4] fusion(x, y), kind=kLoop, calls=fused }
""")
APART = written("""HloModule g
ENTRY main.7 { y.1 = f32[8,4]{1,0} parameter(1), metadata={op_name="y"}
  x.2 = f32[8,4]{1,0} parameter(0)
  multiply.3 = f32[8,4]{1,0} multiply(x.2, y.1)
  ROOT tanh.4 = f32[8,4]{1,0} tanh(multiply.3), metadata={op_name="t"} }
""")


def found(one: str, other: str) -> list[str]:
    return structure.differences(structure.of_text(one), structure.of_text(other))


def test_names_order_layouts_and_metadata_are_no_difference() -> None:
    renamed = re.sub(r"%([xymtpq])\b", r"%\1.77", FUSED).replace("%fused", "%fused_computation.3")
    assert renamed.count(".77") > 8
    assert not found(FUSED, renamed)
    assert not found(APART, APART.replace("{1,0}", "").replace("main.7", "entry"))


def test_what_another_printer_writes() -> None:
    """XLA's own text of a module, and ours."""
    assert not found(oracle.normal_text(SMALL), written(SMALL))


def test_fusion_borders_bytes_and_kernels() -> None:
    lines = found(FUSED, APART)
    assert "kernels: 1 and 2" in lines
    assert "bytes that kernels read and write: 384 and 640" in lines
    assert "- kernel multiply, tanh -> f32[8,4]" in lines
    assert "+ kernel tanh -> f32[8,4]" in lines
    assert "fused in the first alone: multiply f32[8,4] into tanh f32[8,4]" in lines
    assert not [line for line in lines if "computes" in line]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("multiply(%x.2, %y.1)", "subtract(%x.2, %y.1)"),
        ("multiply(%x.2, %y.1)", "multiply(%y.1, %y.1)"),
        ("tanh(", "negate("),
    ],
)
def test_other_computations(old: str, new: str) -> None:
    assert old in APART
    lines = found(APART, APART.replace(old, new))
    assert any("- computes" in line for line in lines)
    assert any("+ computes" in line for line in lines)


def test_operands_the_other_way_round() -> None:
    minus = APART.replace(" multiply(", " subtract(")
    assert found(minus, minus.replace("subtract(%x.2, %y.1)", "subtract(%y.1, %x.2)"))


def test_of_files_dumps_and_stages(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.hlo").write_text(FUSED)
    (tmp_path / "two.hlo").write_text(APART)
    assert cli.main(["diff", str(tmp_path / "one.hlo"), str(tmp_path / "two.hlo")]) == 1
    assert "fused in the first alone" in capsys.readouterr().out
    assert cli.main(["diff", str(tmp_path / "one.hlo"), str(tmp_path / "one.hlo")]) == 0
    assert "they compute the same in the same kernels" in capsys.readouterr().out
    assert cli.main(["diff", f"{dump}:0", f"{dump}:0", "--stage", "before", "--other-stage", "after"]) == 1
    out = capsys.readouterr().out
    assert "they hold for the same" in out
    assert "fused in the second alone: multiply f32[8,32] into reduce f32[8]" in out
