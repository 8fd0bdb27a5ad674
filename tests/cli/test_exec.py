"""tfxla-exec: what it reports, and that bad input gives one line and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfxla_cluster import flags
from tfxla_cluster.cli import common
from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.codegen.kernel import lower
from tfxla_cluster.dump.schema import RECORD_KINDS
from tfxla_cluster.ir import proto, text
from tfxla_cluster.replay import arrays, runs

MODULE = """HloModule small
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[5,7] parameter(0)
  i = s32[] parameter(1)
  f = f32[] convert(i)
  b = f32[5,7] broadcast(f), dimensions={}
  m = f32[5,7] multiply(x, b)
  c = f32[] constant(0)
  r = f32[5] reduce(m, c), dimensions={1}, to_apply=add
  ROOT t = (f32[5], s32[]) tuple(r, i) }
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return str(path)


@pytest.fixture(autouse=True)
def _flags() -> object:
    yield
    flags.reset_values()


def run(*argv: str) -> int:
    return common.run("tfxla-exec", exec_.main, argv)


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    "extra",
    [(), ("--no-fusion",), ("--until", "none"), ("--until", "dce", "--no-fusion"), ("--repeat", "3", "--seed", "5")],
)
def test_agrees_with_the_evaluator(module: str, extra: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, "--json", "--reference", "evaluator", *extra) == 0
    found = report(capsys)
    assert found["ok"]
    assert found["module"] == "small"
    assert len(found["outputs"]) == 2
    assert [c["mismatches"] for c in found["compared"]] == [0, 0]


def test_another_backend_counts_no_native_kernel(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    for backend in ("cpu", "interpreter"):
        assert run(module, "--json", "--reference", "evaluator", "--backend", backend) == 0
        found = report(capsys)
        counts.append((found["kernels"], found["native_kernels"]))
    assert counts[0][0] == counts[0][1] == counts[1][0] > 0
    assert counts[1][1] == 0


def test_lines_for_people(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, "--reference", "evaluator") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("small: compiled in")
    assert "agrees" in lines[1]


def test_protos_and_saved_inputs(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved run replays: the same outputs, from the proto and the .npy files."""
    assert run(module, "--json", "--save", str(tmp_path / "run")) == 0
    first = report(capsys)
    (tmp_path / "m.hlo.pb").write_bytes(proto.write(text.parse(MODULE)))
    inputs = [arg for n in range(2) for arg in ("--input", str(tmp_path / "run" / f"input.{n}.npy"))]
    assert run(str(tmp_path / "m.hlo.pb"), "--json", *inputs) == 0
    assert report(capsys)["outputs"] == first["outputs"]
    assert np.load(tmp_path / "run" / "output.0.npy").shape == (5,)


def test_bad_input_is_one_line_and_a_code(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "junk.hlo").write_text("not a module")
    (tmp_path / "junk.pb").write_bytes(b"\xff" * 50)
    (tmp_path / "binary.hlo").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "cut.pb.gz").write_bytes(b"\x1f\x8b\x08")
    (tmp_path / "broken.hlo").write_text(MODULE.replace("f32[5,7] multiply", "f32[5,8] multiply"))
    np.save(tmp_path / "wrong.npy", np.zeros(3))
    np.savez(tmp_path / "archive.npz", a=np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([1, None], object))
    np.save(tmp_path / "records.npy", np.zeros((5, 7), [("a", "f4")]))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "wrong.npy").read_bytes()[:-3])
    cases = [
        ((str(tmp_path / "nowhere"),), 3, "cannot read"),
        ((str(tmp_path / "junk.hlo"),), 3, "junk.hlo:1:1"),
        ((str(tmp_path / "junk.pb"),), 3, "not an HloModuleProto"),
        ((str(tmp_path / "binary.hlo"),), 3, "neither"),
        ((str(tmp_path / "cut.pb.gz"),), 3, "not whole"),
        ((str(tmp_path / "broken.hlo"),), 4, "multiply"),
        ((module, "--until", "nothing"), 2, "no pass is called"),
        ((module, "--input", "a.npy"), 2, "2 parameters"),
        ((module, "--input", module, "--input", module), 3, "is no .npy file"),
        ((module, *("--input", str(tmp_path / "nowhere.npy")) * 2), 3, "No such file"),
        ((module, *("--input", str(tmp_path / "archive.npz")) * 2), 3, "is no .npy file"),
        ((module, *("--input", str(tmp_path / "objects.npy")) * 2), 3, "Python objects"),
        ((module, *("--input", str(tmp_path / "cut.npy")) * 2), 3, "not whole"),
        ((module, *("--input", str(tmp_path / "records.npy")) * 2), 3, "the file holds"),
        ((module, *("--input", str(tmp_path / "wrong.npy")) * 2), 3, "the file holds"),
        ((module, "--save", str(tmp_path / "junk.hlo" / "x")), 6, "cannot write"),
    ]
    for argv, code, words in cases:
        assert run(*argv, "--json") == code, argv
        captured = capsys.readouterr()
        assert words in captured.err, argv
        assert captured.err.count("\n") == 1, (argv, captured.err)
        assert json.loads(captured.out)["exit_code"] == code


@pytest.mark.parametrize(
    ("mine", "want", "mismatches"),
    [
        (np.array([1.0, np.nan, np.inf], np.float32), np.array([1.0, np.nan, np.inf], np.float32), 0),
        (np.array([1.0, 2.0], np.float32), np.array([1.0, 2.1], np.float32), 1),
        (np.array([1, 2], np.int32), np.array([1, 3], np.int32), 1),
        (np.array([2**62], np.int64), np.array([2**62 + 1], np.int64), 1),
        (np.array([1 + 1j], np.complex64), np.array([1 + 1j], np.complex64), 0),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), 0),
        (np.zeros(2, np.float32), np.zeros(3, np.float32), 2),
        (np.float16(1.0).reshape(()), np.float16(1.001).reshape(()), 0),
    ],
)
def test_compare(mine: np.ndarray, want: np.ndarray, mismatches: int) -> None:
    assert arrays.compare(mine, want)["mismatches"] == mismatches


def test_no_tensorflow_is_imported(module: str) -> None:
    script = (
        "import sys; from tfxla_cluster.cli import exec as e; code = e.main(sys.argv[1:]); "
        "assert not {'tensorflow', 'jax'} & set(sys.modules); sys.exit(code)"
    )
    subprocess.run(
        [sys.executable, "-c", script, module],
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
    )


def test_flags_follow(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (f"--xla_dump_to={tmp_path / 'dump'}", "--tfxla_gpu_target=sm_90")
    assert run(module, "--json", *words) == 0
    assert report(capsys)["ok"]
    suffixes = {p.name.partition(".small.")[2] for p in (tmp_path / "dump").iterdir()}
    (crossed,) = (
        json.loads(line)
        for p in (tmp_path / "dump").glob("trace.*")
        for line in p.read_text().splitlines()
        if "cross_compile" in line
    )
    assert (crossed["kind"], crossed["arch"], crossed["module"]) == ("cross_compile", "sm_90", "small")
    assert crossed.keys() >= RECORD_KINDS["cross_compile"].fields.keys()
    assert suffixes >= {"cpu_after_optimizations.txt", "launch_plan.json", "sm_90.triton.py"}
    assert flags.get("xla_dump_to") == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [("--xla_dump_too=d", "Did you mean --xla_dump_to"), ("--tfxla_gpu_target=sm_1", "sm_80"), ("more", "'more'")],
)
def test_a_wrong_flag(word: str, said: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, word) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("tfxla-exec") == 1


def test_a_target_without_a_dump_is_said(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, "--tfxla_gpu_target=sm_90") == 0
    assert "--tfxla_gpu_target=sm_90 makes code for a dump only: give --xla_dump_to=DIR too" in capsys.readouterr().err


def test_a_missing_file_of_results(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, f"--xla_gpu_load_autotune_results_from={tmp_path / 'none.txt'}") == 3
    assert "none.txt: there is no such file of autotuning results" in capsys.readouterr().err


NARROW = "HloModule n\nENTRY e { x = s4[3] parameter(0)\n ROOT r = s4[3] negate(x) }\n"


def test_integers_of_four_bits_are_read_from_wider_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(NARROW)
    np.save(tmp_path / "fits.npy", np.array([-8, 0, 7], np.int64))
    np.save(tmp_path / "wide.npy", np.array([-8, 0, 8], np.int8))
    command = (str(tmp_path / "m.hlo"), "--json", "--input")
    assert run(*command, str(tmp_path / "fits.npy"), "--reference", "evaluator") == 0
    assert report(capsys)["outputs"][0]["minimum"] == -8  # of 8, which wraps
    assert run(*command, str(tmp_path / "wide.npy")) == 3
    assert "s4 holds -8 to 7, the file -8 to 8" in capsys.readouterr().err


SIZED = """HloModule sized
ENTRY e { x = f32[9] parameter(0)
  n = s32[] parameter(1)
  s = f32[<=9] set-dimension-size(x, n), dimensions={0}
  ROOT r = f32[<=9] reshape(s) }
"""


def test_a_reference_of_sizes_that_the_run_produces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(SIZED)
    for seed in ("0", "1"):
        assert run(str(tmp_path / "m.hlo"), "--json", "--seed", seed, "--reference", "evaluator") == 0
        assert report(capsys)["compared"][0]["mismatches"] == 0


@pytest.mark.parametrize("dims", ["1000000000000", "4294967296,4294967296,4", "1" * 23])
def test_arrays_that_no_machine_holds(dims: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(
        f"HloModule m\nENTRY e {{ x = f32[{dims}] parameter(0)\n ROOT r = f32[{dims}] negate(x) }}\n"
    )
    assert run(str(tmp_path / "m.hlo")) == 2
    assert f"x, f32[{dims}], takes " in capsys.readouterr().err


@pytest.mark.parametrize(("more", "code"), [((), 0), (("--reference", "evaluator"), 2)])
def test_an_array_that_kernels_never_store_needs_no_memory(
    more: tuple[str, ...],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The evaluator stores it."""
    monkeypatch.setattr(runs.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1}.__getitem__)
    (tmp_path / "m.hlo").write_text(
        """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e { i = f32[4,512] iota(), iota_dimension=1
 zero = f32[] constant(0)
 s = f32[4] reduce(i, zero), dimensions={1}, to_apply=add
 ROOT r = (f32[4]) tuple(s) }
"""
    )
    assert run(str(tmp_path / "m.hlo"), *more) == code
    assert ("i, f32[4,512], takes " in capsys.readouterr().err) == bool(code)


def test_what_a_cpu_has_no_kernel_for_still_gives_a_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(lower.LOWERINGS, "fft")
    (tmp_path / "m.hlo").write_text(
        "HloModule f\nENTRY e { x = c128[8] parameter(0)\n ROOT r = c128[8] fft(x), fft_type=FFT, fft_length={8} }\n"
    )
    words = (f"--xla_dump_to={tmp_path / 'dump'}", "--tfxla_gpu_target=sm_90")
    assert run(str(tmp_path / "m.hlo"), *words) == 5
    assert "fft" in capsys.readouterr().err
    assert list((tmp_path / "dump").glob("*.f.sm_90.triton.py"))
