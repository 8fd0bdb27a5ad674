"""The table module -> tests is whole: every module stands in it, with test files that import or run it.

A test exercises what it, or a helper of the tests that it imports, imports or names in the text of a child process;
what these modules import; and all that is reached from there inside a package. `python -m tests.test_module_tests`
prints the table for module_tests.py: of each module one or two test files, those that import it themselves first, then
those that lie in folders of its packages' names.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.module_tests import ELSEWHERE, TESTS

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 120


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT / "inspect" if "tfxla_inspect" in path.parts else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(p): p for top in ("tfxla_cluster", "inspect/tfxla_inspect") for p in (ROOT / top).rglob("*.py")}
HELPERS = {_name(p): p for p in (ROOT / "tests").rglob("*.py")}
TEST_FILES = sorted(p for p in HELPERS.values() if p.name.startswith("test_") and p != Path(__file__).resolve())


@functools.cache
def imports(name: str) -> frozenset[str]:
    """Modules of the packages and of the tests that a module imports."""
    path = MODULES.get(name) or HELPERS[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            found.update({prefix, *(f"{prefix}.{alias.name}" for alias in node.names)})
    return frozenset(found & (MODULES.keys() | HELPERS.keys()))


@functools.cache
def direct(test: str) -> frozenset[str]:
    """What a test and the helpers it imports import, or name in text that is run."""
    seen, stack, found = {test}, [test], set()
    while stack:
        name = stack.pop()
        found |= imports(name) & MODULES.keys()
        found |= _named(HELPERS[name].read_text())
        new = (imports(name) & HELPERS.keys()) - seen
        seen |= new
        stack += new
    return frozenset(found)


def _named(text: str) -> set[str]:
    """Modules whose dotted name stands in a text."""
    words = (word.split(".") for word in re.findall(r"tfxla_(?:cluster|inspect)(?:\.\w+)+", text))
    return {".".join(word[: n + 1]) for word in words for n in range(len(word))} & MODULES.keys()


@functools.cache
def exercised(test: str) -> frozenset[str]:
    """`direct`, what these modules import, and what is reached from there inside a package."""
    found = set(direct(test)).union(*(imports(name) & MODULES.keys() for name in direct(test)))
    stack = list(found)
    while stack:
        name = stack.pop()
        room = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
        room = room.removesuffix(".commands")  # which are the entrance of their package
        new = {other for other in imports(name) & MODULES.keys() if f"{other}.".startswith(f"{room}.")} - found
        found |= new
        stack += new
    return frozenset(found)


def test_every_module_stands_in_the_table() -> None:
    assert {*TESTS, *ELSEWHERE} == set(MODULES)
    assert not {*TESTS} & {*ELSEWHERE}


@pytest.mark.parametrize("module", TESTS)
def test_the_tests_named_exercise_the_module(module: str) -> None:
    for file in TESTS[module].split():
        assert module in exercised(_name(ROOT / "tests" / file)), f"{file} does not import {module}"


@pytest.mark.parametrize("module", ELSEWHERE)
def test_no_test_imports_what_is_run_elsewhere(module: str) -> None:
    assert not [path for path in TEST_FILES if module in exercised(_name(path))]


def _shared(rooms: list[str], path: Path) -> int:
    """How many of a module's packages have a folder of the same name around a test."""
    return len({*rooms} & {*path.relative_to(ROOT / "tests").parts})


def main() -> None:
    for module in sorted(MODULES):
        *rooms, last = module.split(".")
        files = sorted(
            (module not in direct(_name(p)), last not in p.stem, -_shared(rooms, p), str(p.relative_to(ROOT / "tests")))
            for p in TEST_FILES
            if module in exercised(_name(p))
        )
        lines = (f'    "{module}": "{" ".join(file for *_, file in files[:count])}",' for count in (2, 1))
        print(next(line for line in lines if len(line) <= WIDTH))


if __name__ == "__main__":
    main()
