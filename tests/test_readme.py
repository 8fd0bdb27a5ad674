"""The README's marked commands and code run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import readme_table

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- test -->\n```(bash|python)\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "README.md").read_text())


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.mark.slow
@pytest.mark.parametrize(("language", "code"), BLOCKS, ids=[f"{n}-{b[0]}" for n, b in enumerate(BLOCKS)])
def test_block(language, code, directory):
    env = {k: v for k, v in os.environ.items() if k not in ("TFXLA_FLAGS", "TF_XLA_FLAGS", "XLA_FLAGS")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", code]
    if language == "python":
        (directory / "example.py").write_text(code)
        command = [sys.executable, "example.py"]
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


def test_dumps_and_report_are_there(directory):
    made = {p.name for p in directory.iterdir()}
    if not made:
        pytest.skip("the README's commands were not run")
    assert {"dump", "dump2", "dump3", "report.html"} <= made
    assert list((directory / "dump").glob("module_0000.*after_optimizations.txt"))


def test_the_table_of_figures_is_as_the_command_writes_it():
    readme = (ROOT / "README.md").read_text()
    lines = readme_table.rows(readme)
    results = [readme_table.parse(line) for line in lines]
    assert [readme_table.row(result) for result in results] == lines
    for result in results:
        assert result["native_kernels"] == result["kernels"] > 0
        assert result["clustered_share"] >= 0.95
        assert readme_table.with_result(readme, result) == readme
    faster = readme_table.with_result(readme, {**results[-1], "step_ms": 123.456})
    assert len(readme_table.rows(faster)) == len(lines)
    assert "| 123 |" in readme_table.rows(faster)[-1]


def test_both_tiers_are_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    for script in ("run", "fast"):
        assert f"`.ci/{script}`" in readme
        assert os.access(ROOT / ".ci" / script, os.X_OK)


def test_install_lines_are_what_ci_runs():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert ".venv/bin/python -m pytest -n 2 --dist loadfile" in readme
    assert "pytest -n 2 --dist loadfile" in ci
