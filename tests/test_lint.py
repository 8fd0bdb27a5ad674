"""Lint, types and the house rules that a tool can check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FILE = 400


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_ruff():
    run("ruff", "check", ".")


def test_mypy():
    run("mypy")


def test_files_are_short():
    long = {
        str(p.relative_to(ROOT)): n
        for d in ("tfxla_cluster", "inspect", "tests")
        for p in (ROOT / d).rglob("*.py")
        if (n := len(p.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long


def test_top_level_holds_what_belongs_there():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tops = {name.split("/")[0] for name in listed.split()}
    belongs = {"setup.py", "tfxla_cluster", "inspect", "tests", "colabs", "README.md"}
    assert all(t in belongs or t.startswith(".") for t in tops)
    assert not (ROOT / "inspect" / "__init__.py").exists()
