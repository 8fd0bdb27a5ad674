"""`tfxla-inspect show`, `top` and `explain` on a dump (tfxla_inspect.showing, top, explanation)."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.inspect import sample
from tfxla_inspect import cli, showing, table_text

KERNEL = "multiply_reduce_fusion_k0"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert cli.main(list(words)) == code
    return capsys.readouterr().out


def test_the_tree(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", str(dump))
    assert "1 clusters; 1 ops in none" in out
    assert f"`-- {KERNEL}  " in out
    assert "compiled in 33.0 ms" in out
    assert "codegen 20.0 ms, passes 7.5 ms" in out
    assert "\033" not in out


def test_hlo_and_what_passes_changed(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "%wide = f32[8,32]{1,0} broadcast(%y)" in said(capsys, "show", str(dump), "before")
    assert "multiply_reduce_fusion" in said(capsys, "show", f"{dump}:0", "after")
    passes = said(capsys, "show", str(dump), "passes")
    assert "after algsimp" in passes
    assert "+ " in passes
    step = passes.splitlines()[1].split()[0] if "0001" not in passes else "1"
    assert "add(" in said(capsys, "show", str(dump), step)


def test_kernels_in_each_language(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "define void" in said(capsys, "show", str(dump), "--kernel", KERNEL)
    assert "vmulps" in said(capsys, "show", str(dump), "--kernel", KERNEL, "--as", "assembly")
    assert cli.main(["show", str(dump), "--kernel", "none"]) == 3
    assert f"no kernel none in triton or llvm_before or llvm or kernel_ir or ptx or assembly. There is: {KERNEL}" in (
        capsys.readouterr().err
    )


def test_colours(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", str(dump), "before", "--color", "always")
    assert "\033[36m%wide\033[0m = \033[32mf32[8,32]\033[0m{1,0} \033[33mbroadcast\033[0m(" in out
    plain = said(capsys, "show", str(dump), "before")
    for code in ("\033[0m", "\033[36m", "\033[32m", "\033[33m", "\033[90m"):
        out = out.replace(code, "")
    assert out == plain


def test_long_texts_are_paged_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(showing.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(showing.subprocess, "run", lambda command, **more: called.append((command, more["input"])))
    showing.page("line\n" * 500)
    assert called == [(["/bin/less", "-RS"], "line\n" * 500)]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "{dump}", "9999"], 2, "no text of a pass 9999. It has: before, after, "),
        (["show", "{dump}:7", "after"], 3, "no module 7. It has: 0 (cluster_0)"),
        (["show", "{tmp}/none"], 3, "none: "),
        (["top", "{tmp}/none"], 3, "none: "),
        (["explain", "--op", "x", "{tmp}"], 3, "empty"),
        (["explain", "{tmp}"], 2, "--op"),
    ],
)
def test_mistakes(
    words: list[str], code: int, message: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = cli.main([w.format(dump=dump, tmp=tmp_path) for w in words])
    except SystemExit as exit_:
        found = exit_.code
    assert found == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.fixture
def timed(dump: Path, tmp_path: Path) -> Path:
    """With two more kernels: a slow one at its floor, a quick one far from it."""
    folder = tmp_path / "timed"
    shutil.copytree(dump, folder)
    (path,) = folder.glob("*.kernels.json")
    (first,) = json.loads(path.read_text())
    names = {"slow_at_floor": (10.0, 0.99), "far_from_floor": (6.0, 0.1)}
    more = [{**first, "symbol": n, "instr": n, "launches": [], "floor_ms": f} for n, (_, f) in names.items()]
    path.write_text(json.dumps([first, *more]))
    (plan,) = folder.glob("*.launch_plan.json")
    made = json.loads(plan.read_text())
    made["steps"] += [{"type": "KernelStep", "symbol": name, "instr": name} for name in names]
    plan.write_text(json.dumps(made))
    steps = [{"instr": n, "count": 10, "ms": ms} for n, (ms, _) in names.items()]
    record = {"kind": "execution", "module": "cluster_0", "id": 0, "count": 10, "ms": 16.0, "steps": steps, "time": 1}
    (folder / "trace.99999999.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_kernels_by_time_and_by_distance_from_the_floor(timed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_time = said(capsys, "top", str(timed)).splitlines()
    assert by_time[0].split()[:3] == ["kernel", "ms", "share"]
    assert by_time[1].startswith("slow_at_floor")
    by_floor = said(capsys, "top", f"{timed}:0", "--by", "floor", "-n", "1").splitlines()
    assert by_floor[1].startswith("far_from_floor")
    assert "6.0" in by_floor[1]  # times its floor
    assert by_floor[-1] == "and 1 more (-n)"


def test_nothing_was_timed(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(dump, tmp_path / "d")
    for trace in (tmp_path / "d").glob("trace.*"):
        trace.unlink()
    assert cli.main(["top", str(tmp_path / "d")]) == 3
    assert "no kernel was timed (1 kernels are listed)" in capsys.readouterr().err


def test_why_an_op_is_in_no_cluster(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (sample.LEFT, "AsString"):
        out = said(capsys, "explain", str(dump), "--op", name)
        assert f"{sample.LEFT} (AsString) of __inference_step_7 (train.py:9): in no cluster" in out
        assert "no-kernel: no XLA kernel takes strings" in out


def test_which_kernel_and_why_not_with_its_neighbour(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", str(dump), "--op", "model/mul")
    assert "model/mul: in cluster_0 of __inference_step_7" in out
    assert f"kernel {KERNEL}" in out
    assert "sample.py:2" in out
    assert "%wide and %reduce not in one kernel: reuse: computed twice otherwise" in out


def test_why_a_function_was_compiled_again(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", str(dump), "--op", "cluster_0")
    assert "2 compilations" in out
    assert "size: argument 'x': dim 0 was 8, is 9" in out
    assert "argument 'x' dim 0: 8 -> 9" in out


def test_what_is_near(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is text/as_string" in said(capsys, "explain", str(dump), "--op", "as_str", code=1)


def test_a_program_is_run_first(tmp_path: Path, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that writes what a dump has where the flags say; its failure is said."""
    program = tmp_path / "prog.py"
    program.write_text(
        "import os, shutil, sys\n"
        "target = os.environ['TFXLA_FLAGS'].rpartition('--xla_dump_to=')[2]\n"
        f"shutil.copytree({str(dump)!r}, target, dirs_exist_ok=True)\nsys.exit(int(sys.argv[1]))\n"
    )
    words = [sys.executable, str(program)]
    assert "in no cluster" in said(capsys, "explain", "--op", "AsString", *words, "0")
    assert "in no cluster" in said(capsys, "explain", "--op", "AsString", str(program), "0")
    assert cli.main(["explain", "--op", "AsString", *words, "3"]) == 1
    assert "ended with code 3" in capsys.readouterr().err
    assert cli.main(["explain", "--op", "AsString", str(tmp_path / "none")]) == 3
    assert "cannot be run" in capsys.readouterr().err


def test_tables() -> None:
    made = table_text.table(("a", "b"), [("x" * 80, "1"), ("y", "22")], right={1}).splitlines()
    assert made[1].endswith("...   1")
    assert made[2].endswith("  22")
