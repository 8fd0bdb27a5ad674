"""Bad values and missing programs on command lines and in TFXLA_FLAGS: one message and the documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfxla_cluster
from tests.programs_in_child import run as run_program
from tfxla_cluster import flags
from tfxla_cluster.cli import bench, common, demo
from tfxla_cluster.cli import exec as exec_
from tfxla_cluster.cli import run as run_
from tfxla_cluster.errors import FlagError, InputFileError
from tfxla_inspect import cli as inspect_cli


def tfxla_run(words: list[str], directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from tfxla_cluster.cli import run; sys.exit(run.entry())"
    environment = {**os.environ, "TFXLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "prog.py").write_text("import sys\nprint(sys.argv)\n")
    (tmp_path / "tool").write_text("#!/bin/sh\necho $0 $1\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "data").write_text("no program")
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "broken").chmod(0o755)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["prog.py", "-x"], "['prog.py', '-x']"),
        (["./prog.py"], "['./prog.py']"),
        (["--", "prog.py", "--", "y"], "['prog.py', '--', 'y']"),
        (["--", sys.executable, "prog.py"], "['prog.py']"),
        (["./tool", "x"], "tool x"),
    ],
)
def test_tfxla_run_runs(words: list[str], out: str, programs: Path) -> None:
    done = tfxla_run(words, programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert out in done.stdout


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("missing.py", 3, "not found"),
        ("data", 3, "not executable"),
        ("folder", 3, "is a directory"),
        ("./broken", 3, "cannot be run"),
        ("--", 2, "no program given"),
    ],
)
def test_tfxla_run_says_why_not(word: str, code: int, said: str, programs: Path) -> None:
    done = tfxla_run([word], programs)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("xla_dump_hlo_module_re", "(", "regular expression"),
        ("xla_dump_hlo_pass_re", "*", "regular expression"),
        ("tfxla_threads", 100_000, "from 0 to 1024"),
        ("tfxla_threads", "4_0", "from 0 to 1024"),
        ("tfxla_compile_threads", "100000", "from 0 to 1024"),
        ("xla_disable_hlo_passes", "cse,dec", "there is no 'dec'. Did you mean dce?"),
        ("tf_xla_ops_to_cluster", "MatMull", "Did you mean MatMul?"),
        ("tf_xla_cluster_exclude_ops", "Zzzzqq", "there is no 'Zzzzqq'"),
        ("xla_gpu_enable_triton_gemm", True, "does not know it: give it in XLA_FLAGS"),
        ("tf_xla_auto_jitt", 2, "Did you mean --tf_xla_auto_jit?"),
    ],
)
def test_flag_values(name: str, value: object, said: str) -> None:
    before = flags.values()
    try:
        with pytest.raises(FlagError) as caught:
            tfxla_cluster.enable(**{name: value})
    finally:
        flags.set_values(before)
        tfxla_cluster.disable()
    assert said in str(caught.value)
    assert ("Did you mean" in str(caught.value)) == ("Did you mean" in said)


def test_a_bad_flag_ends_a_program_as_it_ends_a_command(programs: Path) -> None:
    done = run_program("import tensorflow", "--tfxla_threads=-1")
    assert done.returncode == FlagError.exit_code
    assert "--tfxla_threads wants an integer from 0 to 1024, got '-1'" in done.stderr
    assert "Traceback" not in done.stderr
    assert tfxla_run(["prog.py"], programs, TFXLA_FLAGS="--tfxla_threads=-1").returncode == FlagError.exit_code


NUMBERS = [
    ("tfxla-demo", demo.main, ["--image-size", "3"]),
    ("tfxla-demo", demo.main, ["--image-size", "100000"]),
    ("tfxla-demo", demo.main, ["--epochs", "0"]),
    ("tfxla-demo", demo.main, ["--rounds", "-1"]),
    ("tfxla-bench", bench.main, ["cpu", "--rounds", "0"]),
    ("tfxla-exec", exec_.main, ["m.hlo", "--repeat", "0"]),
    ("tfxla-exec", exec_.main, ["m.hlo", "--seed", "-1"]),
    ("tfxla-exec", exec_.main, ["m.hlo", "--rtol", "nan"]),
    ("tfxla-inspect", inspect_cli.main, ["report", "d", "-o", "r", "--max-mb", "nan"]),
    ("tfxla-inspect", inspect_cli.main, ["report", "d", "-o", "r", "--max-mb", "-1"]),
]


@pytest.mark.parametrize(("program", "main", "argv"), NUMBERS, ids=[" ".join((p, *a)) for p, _, a in NUMBERS])
def test_numbers(program: str, main: object, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        common.run(program, main, argv)  # type: ignore[arg-type]
    assert ended.value.code == 2
    assert "error: argument" in capsys.readouterr().err


def test_bench_without_its_peer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert common.run("tfxla-bench", bench.main, ["cpu"]) == 2
    assert "Install the extra 'bench'" in capsys.readouterr().err


def test_errors_of_the_run_command_are_ours(tmp_path: Path) -> None:
    with pytest.raises(InputFileError):
        run_.main([str(tmp_path / "nothing")])
