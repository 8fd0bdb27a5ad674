"""Stages import `ir`, the basics and earlier stages, never a later one; what must not drag in TensorFlow does not.

`python -m tests.packages` draws who imports whom.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.packages import (
    ALLOWED,
    BASICS,
    DRIVERS,
    PACKAGE,
    ROOT,
    imports,
    module_graph,
    module_name,
    room_of,
    wrong_edges,
)

# Package of others -> the only rooms and drivers that import it.
ONLY = {
    "llvmlite": {"codegen.llvm", "runtime.cpu", "runtime.gpu", "runtime.launcher", "tf.native_op"},
    "triton": {"codegen.triton"},
    "tensorflow": {"api", "bench", "demo", "executable_key", "tf2xla", "triton_calls"}
    | {room for room in ALLOWED if room.split(".")[0] == "tf"},
}
# Parameters that hold these are typed: where the type may not be imported, it stands in the wrong place.
OWN_TYPES = {"backend", "executable", "instr", "kernel", "module", "plan", "step", "steps", "target", "unit"}
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
    "tfxla_cluster.runtime.gpu.executable",
    "tfxla_cluster.dump.sink",
    "tfxla_cluster.cli.exec",
    "tfxla_cluster.cli.opt",
    "tfxla_inspect.cli",
    "tfxla_inspect.stores",
]


def own_imports(path: Path) -> set[str]:
    return {name for name in imports(path) if name.startswith("tfxla_cluster.")}


def test_rooms_stand_in_an_order():
    TopologicalSorter(ALLOWED).prepare()


def test_every_module_lies_in_a_room():
    rooms = {room_of(module, [*ALLOWED, *DRIVERS]) for module in module_graph()}
    assert not rooms - ALLOWED.keys() - DRIVERS - BASICS


@pytest.mark.parametrize("room", ALLOWED)
def test_room_imports_nothing_later(room):
    assert not [f"{module} imports {name}" for module, name in wrong_edges() if room_of(module, ALLOWED) == room]


def test_no_import_circles():
    """Imports for types alone and inside functions count; CycleError names the modules of a circle."""
    TopologicalSorter(module_graph()).prepare()


@pytest.mark.parametrize("library", ONLY)
def test_who_imports_a_library(library):
    for path in PACKAGE.rglob("*.py"):
        if any(name.split(".")[0] == library for name in imports(path)):
            assert room_of(module_name(path), [*ALLOWED, *DRIVERS]) in ONLY[library], path.relative_to(ROOT)


def test_no_type_is_dodged():
    """A plan or kernel that is `Any` because its type may not be imported is an import in disguise."""
    wrong = []
    for stage in ("passes", "fusion", "codegen", "runtime", "backends", "dump"):
        for path in (PACKAGE / stage).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.arg) and node.arg in OWN_TYPES and node.annotation is not None:
                    names = {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
                    if names & {"Any", "object"}:
                        wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.arg}")
    assert not wrong


def test_basics_import_only_basics():
    for name in BASICS:
        used = {n.split(".")[1] for n in own_imports(PACKAGE / f"{name}.py")}
        assert used <= BASICS, f"{name} imports {used - BASICS}"


def test_inspect_reads_only_ir_and_basics():
    for path in (ROOT / "inspect").rglob("*.py"):
        used = {n.split(".")[1] for n in own_imports(path)}
        tuned = [n for n in own_imports(path) if n.startswith("tfxla_cluster.tuning")]
        read = ("tuning.devices", "tuning.fingerprint", "tuning.persisted")
        used -= {"tuning"} if all(n.startswith(tuple(f"tfxla_cluster.{r}" for r in read)) for n in tuned) else set()
        basics = {
            "code_version",
            "decision",
            "errors",
            "options",
            "output_file",
            "shared_file",
            "target",
            "__version__",
        }
        runs = {"replay"} if path.parent.name == "commands" else set()  # those that run modules
        assert used <= {"ir", "profiles", "stored"} | basics | runs, f"{path} imports {used}"


def test_what_compiles_and_dumps_reads_no_flag():
    """Flags become options once, at the edge: the service, the commands, the hooks into TensorFlow."""
    stages = ("ir", "passes", "fusion", "codegen", "runtime", "backends", "dump")
    paths = [path for stage in stages for path in (PACKAGE / stage).rglob("*.py")]
    for path in [*paths, PACKAGE / "compiler.py", PACKAGE / "options.py"]:
        read = {name.split(".")[1] for name in own_imports(path)} & {"flags", "flag_options", "config"}
        assert not read, f"{path.relative_to(ROOT)} imports {read}"


def test_the_pipeline_knows_no_machine():
    """It reaches code generators and launchers through a backend alone."""
    allowed = ("backends.backend", "codegen.kernel.", "runtime.plan")
    for name in own_imports(PACKAGE / "compiler.py"):
        inside = name.removeprefix("tfxla_cluster.")
        if inside.split(".")[0] in ("backends", "codegen", "runtime"):
            assert inside.startswith(allowed), f"compiler.py imports {name}"


@pytest.mark.parametrize("module", NO_TENSORFLOW)
def test_does_not_import_tensorflow(module):
    code = f"import sys, {module}; sys.exit(int(any(m in sys.modules for m in ('tensorflow', 'jax', 'torch'))))"
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}", "PATH": ""}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0
