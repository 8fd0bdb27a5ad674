"""`tfxla-inspect autotune`: shows, merges, holds against a dump; says what is wrong in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.test_persisted import XLAS, entry
from tests.tuning.test_session import TUNE, module
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.options import CompileOptions, DumpOptions
from tfxla_cluster.tuning import session
from tfxla_cluster.tuning.persisted import files, results
from tfxla_cluster.tuning.persisted.results import VERSION, Key
from tfxla_cluster.tuning.tables import Tables
from tfxla_inspect import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["autotune", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_shows_ours_and_xlas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, xlas = tmp_path / "ours.pb", tmp_path / "xlas.txt"
    files.write(str(ours), results.of([entry("a")]))
    xlas.write_text(XLAS)
    code, out, err = run(capsys, ours, xlas, "--candidates")
    assert (code, err) == (0, "")
    assert f"1 results on CPU: x, version {VERSION} (tfxla_cluster 1)" in out
    assert "1 results on CUDA: 9.0" not in out.replace("2 results on CUDA: 9.0", "")
    assert "10.00 us  cols=32 rows=24" in out
    assert "WRONG_RESULT: by 3" in out
    assert "another program's" in out


# A result of XLA's -> what is shown of it.
KEYS = {
    "gemm { algorithm: 7 autotune_workspace_size: 4096 }": "gemm algorithm: 7 autotune_workspace_size: 4096",
    "conv { algorithm: 1 tensor_ops_enabled: true }": "conv algorithm: 1 tensor_ops_enabled: true",
    'cuda_conv_plan { exec_plan_id: "eng3" }': 'cuda_conv_plan exec_plan_id: "eng3"',
    "custom_kernel_fusion { kernel_index: 5 }": "custom_kernel_fusion kernel_index: 5",
    "triton { block_m: 32 num_warps: 4 }": "triton block_m: 32 num_warps: 4",
    "failure { kind: WRONG_RESULT }": "failure kind: WRONG_RESULT",
    "": "",
}


@pytest.mark.parametrize("key", KEYS)
def test_shows_what_another_program_chose(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """XLA's keys of products and convolutions among them; merged they stay what they are."""
    path, merged = tmp_path / "xlas.txt", tmp_path / "merged.txt"
    path.write_text(f'version: 3 results {{ device: "CUDA: 9.0" hlo: "it" version: 36 result {{ {key} }} }}')
    code, out, err = run(capsys, path, "--merge", merged)
    assert (code, err) == (0, "")
    (line,) = (line for line in out.splitlines() if "another program's" in line)
    assert line.split("another program's")[1].strip().startswith(f": {KEYS[key]}" if key else "it on")
    assert results.to_message(files.read(str(merged))) == results.to_message(files.read(str(path)))


def test_merges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, hlo in (("a", "x"), ("b", "y")):
        files.write(str(tmp_path / f"{name}.txt"), results.of([entry(hlo)]))
    code, out, _ = run(capsys, tmp_path / "a.txt", tmp_path / "b.txt", "--merge", tmp_path / "m.pb")
    assert code == 0
    assert "2 results" in out.splitlines()[-1]
    assert {key.hlo for key in files.read(str(tmp_path / "m.pb"))} == {"x", "y"}


def dumped(folder: Path) -> tuple[Path, results.Results]:
    """A program's dump, and the results of all its kernels."""
    tables, backend, compiling = Tables(), cpu.this_machine(), CompileOptions(fusion=False)
    dump = Sink(DumpOptions(str(folder))).module("m")
    compiler.compile_module(module(), backend, compiling, dump, session.choices(backend, compiling, TUNE, tables))
    return folder, tables.known()


def test_against_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, known = dumped(tmp_path / "dump")
    path = tmp_path / "r.txt"
    files.write(str(path), known)
    code, out, _ = run(capsys, path, "--program", folder)
    assert code == 0
    assert "3 of 3 kernels have a result" in out
    assert "missing" not in out
    changed = []
    for key, found in known.items():
        if "transpose" in key.hlo:
            changed.append(replace(found, key=replace(key, device="CUDA: 9.0, Cores: 132")))
        elif "[70]" in key.hlo:
            changed.append(replace(found, key=replace(key, version=VERSION + 1)))
        else:
            changed.append(replace(found, key=Key(key.device, "{\n  ROOT tmp_0 = f32[1] gone()\n}")))
    files.write(str(path), results.of(changed))
    code, out, _ = run(capsys, path, "--program", folder)
    assert code == 1
    assert "0 of 3 kernels have a result" in out
    assert ": t (there is one of CUDA: 9.0, Cores: 132)" in out
    assert f": w (there is one of version {VERSION + 1})" in out
    assert "no longer used (the program has no such kernel): tmp_0 = f32[1] gone()" in out
    assert "made on another device: " in out
    assert f"made by another version (this is {VERSION}): " in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{tmp}/none.txt"], 3, "no such file"),
        (["{tmp}/bad.txt"], 3, "not a file of autotuning results"),
        (["{tmp}/good.txt", "--program", "{tmp}/none"], 3, "no such directory"),
        (["{tmp}/good.txt", "--program", "{tmp}"], 3, "holds no kernels"),
        (["{tmp}/good.txt", "--merge", "{tmp}/good.txt/x"], 6, "cannot be written"),
    ],
)
def test_what_is_wrong(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.txt").write_text("nonsense {")
    files.write(str(tmp_path / "good.txt"), results.of([entry("a")]))
    found, _, err = run(capsys, *(a.format(tmp=tmp_path) for a in arguments))
    assert found == code
    assert said in err
    assert len(err.splitlines()) == 1
