"""tfxla-inspect as a command: its answers, and what it imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tfxla_inspect
from tfxla_inspect import cli, pack


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "tfxla_inspect", *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["report", "{tmp}/missing", "-o", "{tmp}/o.html"], 3, "no such file or directory"),
        (["report", "{tmp}/empty", "-o", "{tmp}/o.html"], 3, "empty"),
        (["report", "{tmp}/foreign", "-o", "{tmp}/o.html"], 3, "holds no dump"),
        (["report", "{dump}", "-o", "{tmp}/no/such/o.html"], 6, "cannot be written"),
        (["report", "{dump}"], 2, "-o"),
        (["nonsense"], 2, "nonsense"),
        (["report", "{dump}", "-o", "{tmp}/o.html"], 0, ""),
    ],
)
def test_command_line(dump, tmp_path, capsys, arguments, code, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "holiday.jpg").write_bytes(b"x")
    words = [a.format(tmp=tmp_path, dump=dump) for a in arguments]
    try:
        got = cli.main(words)
    except SystemExit as exit_:
        got = exit_.code
    out = capsys.readouterr()
    assert got == code
    assert said in out.err
    assert "Traceback" not in out.err
    if code in (3, 6):
        assert len(out.err.splitlines()) == 1
        assert not (tmp_path / "o.html").exists()
    if code == 0:
        assert (tmp_path / "o.html").read_text().startswith("<!doctype html>")
        assert "MB in" in out.out


def test_module_runs_without_tensorflow(dump, tmp_path):
    code = (
        "import sys\nfrom tfxla_inspect import cli\n"
        f"assert cli.main(['report', {str(dump)!r}, '-o', {str(tmp_path / 'o.html')!r}]) == 0\n"
        "assert not {'tensorflow', 'jax', 'google.protobuf', 'llvmlite'} & set(sys.modules), 'heavy import'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert run("--help").returncode == 0
    assert "exit codes" in run("report", "--help").stdout


def test_imports_only_what_it_may():
    of_tuning = ("tfxla_cluster.tuning", "tfxla_cluster.target")  # files of results
    of_profiles = ("tfxla_cluster.profiles",)  # files of sizes that were seen
    basics = ("tfxla_cluster.errors", "tfxla_cluster.decision")
    of_stores = ("tfxla_cluster.stored", "tfxla_cluster.code_version", "tfxla_cluster.options")  # files of executables
    allowed = ("google.protobuf", "graphviz", "tfxla_cluster.ir", *basics, *of_tuning, *of_profiles, *of_stores)
    running = {f"commands/{name}.py" for name in ("replay", "bisect", "minimize")}
    folder = Path(tfxla_inspect.__file__).parent
    for path in folder.rglob("*.py"):
        runs = path.relative_to(folder).as_posix() in running
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else ([node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])
            )
            for name in names:
                top = name.partition(".")[0]
                # Of the package itself only __version__ is taken (tests/test_layering.py).
                known = top in sys.stdlib_module_names or name == "tfxla_cluster" or name.startswith(allowed)
                known = known or (runs and name.startswith("tfxla_cluster.replay"))
                assert known, f"{path.name} imports {name}"


def test_scripts_do_not_write_html_from_data():
    for name in pack._SCRIPTS:
        text = pack.asset(name)
        uses = [
            line for line in text.splitlines() if "innerHTML" in line or "insertAdjacent" in line or "eval(" in line
        ]
        assert len(uses) == (name == "app.js"), uses
