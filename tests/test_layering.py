"""Stages import `ir`, the basics and earlier stages, never a later one; what must not drag in TensorFlow does not."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tfxla_cluster"
BASICS = {
    "bugs",
    "counters",
    "decision",
    "errors",
    "flag_options",
    "flags",
    "gc_pause",
    "locks",
    "options",
    "target",
    "trace",
}
# Package -> the packages it may import besides itself and the basics. `tf` drives `tf2xla`.
ALLOWED = {
    "ir": set(),
    "passes": {"ir"},
    "fusion": {"ir"},
    "codegen": {"ir", "fusion"},
    "runtime": {"ir", "codegen"},
    "backends": {"ir", "fusion", "codegen", "runtime"},
    "dump": {"ir"},
    "tf2xla": {"ir"},
    "tf": {"ir", "tf2xla", "dump"},
}
NO_TENSORFLOW = [
    "tfxla_cluster",
    "tfxla_cluster.ir.text",
    "tfxla_cluster.ir.proto",
    "tfxla_cluster.ir.evaluator",
    "tfxla_cluster.passes.pipelines",
    "tfxla_cluster.fusion.planner",
    "tfxla_cluster.codegen.kernel.lower",
    "tfxla_cluster.codegen.llvm.object_code",
    "tfxla_cluster.runtime.cpu.executable",
    "tfxla_cluster.dump.sink",
    "tfxla_cluster.cli.exec",
    "tfxla_cluster.cli.opt",
    "tfxla_inspect.cli",
]


def imports(path: Path) -> set[str]:
    """Absolute names of the modules of this package that `path` imports."""
    package = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level]) if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{prefix}.{alias.name}" for alias in node.names)
    return {name for name in found if name.startswith("tfxla_cluster.")}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("stage", ALLOWED)
def test_stage_imports_nothing_later(stage):
    wrong = []
    for path in (PACKAGE / stage).rglob("*.py"):
        for name in imports(path):
            target = name.split(".")[1]
            if target not in BASICS | ALLOWED[stage] | {stage, "__version__"}:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_no_import_circles():
    """Imports for types alone and inside functions count; CycleError names the modules of a circle."""
    files = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {}
    for module, path in files.items():
        named = imports(path)
        graph[module] = {n if n in files else n.rpartition(".")[0] for n in named} & files.keys() - {module}
    TopologicalSorter(graph).prepare()


def test_basics_import_only_basics():
    for name in BASICS:
        used = {n.split(".")[1] for n in imports(PACKAGE / f"{name}.py")}
        assert used <= BASICS, f"{name} imports {used - BASICS}"


def test_inspect_reads_only_ir_and_basics():
    for path in (ROOT / "inspect").rglob("*.py"):
        used = {n.split(".")[1] for n in imports(path)}
        assert used <= {"ir", "errors", "decision", "__version__"}, f"{path} imports {used}"


def test_what_compiles_and_dumps_reads_no_flag():
    """Flags become options once, at the edge: the service, the commands, the hooks into TensorFlow."""
    stages = ("ir", "passes", "fusion", "codegen", "runtime", "backends", "dump")
    paths = [path for stage in stages for path in (PACKAGE / stage).rglob("*.py")]
    for path in [*paths, PACKAGE / "compiler.py", PACKAGE / "options.py"]:
        read = {name.split(".")[1] for name in imports(path)} & {"flags", "flag_options", "config"}
        assert not read, f"{path.relative_to(ROOT)} imports {read}"


def test_the_pipeline_knows_no_machine():
    """It reaches code generators and launchers through a backend alone."""
    allowed = ("backends.backend", "codegen.kernel.", "runtime.plan")
    for name in imports(PACKAGE / "compiler.py"):
        inside = name.removeprefix("tfxla_cluster.")
        if inside.split(".")[0] in ("backends", "codegen", "runtime"):
            assert inside.startswith(allowed), f"compiler.py imports {name}"


@pytest.mark.parametrize("module", NO_TENSORFLOW)
def test_does_not_import_tensorflow(module):
    code = f"import sys, {module}; sys.exit(int(any(m in sys.modules for m in ('tensorflow', 'jax', 'torch'))))"
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}", "PATH": ""}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0
