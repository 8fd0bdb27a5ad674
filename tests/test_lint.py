"""Lint, types and the house rules that a tool can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tfxla_cluster
import tfxla_inspect

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FILE = 400


HOOKS = re.findall(r"^ +entry: python (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("hook", HOOKS)
def test_hook(hook: str) -> None:
    done = subprocess.run([sys.executable, *hook.split()], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_the_hooks_are_these() -> None:
    assert HOOKS == ["-m ruff check .", "-m ruff format --check .", "-m mypy"]


@pytest.mark.parametrize("tool", ["ruff", "mypy"])
def test_the_version_that_is_pinned_is_installed(tool: str) -> None:
    (pinned,) = re.findall(rf'"{tool}==(.+?)"', (ROOT / "setup.py").read_text())
    assert metadata.version(tool) == pinned, "pip install -e '.[test]' again"


def test_the_version_stands_in_one_place() -> None:
    assert tfxla_inspect.__version__ == tfxla_cluster.__version__
    said = re.compile(r"(?:__|\b)version(?:__)?\s*=\s*[\"']\d")
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    places = [n for n in tracked.split() if not n.startswith("tests/") and said.search((ROOT / n).read_text())]
    assert places == ["tfxla_cluster/__init__.py"]


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_test_leaves_flags_set(path: Path) -> None:
    """`with enable(flag=...)` leaves it set for the tests that follow: config.patch sets it for the block."""
    calls = (i.context_expr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.With) for i in n.items)
    left = [c.lineno for c in calls if isinstance(c, ast.Call) and _called(c) == "enable" and c.keywords]
    assert not left


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


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
