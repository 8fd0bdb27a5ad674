"""The rooms of the project and who imports whom. `python -m tests.packages [ROOT]` draws them as Mermaid text."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tfxla_cluster"
BASICS = {
    "bugs",
    "child_process",
    "code_version",
    "counters",
    "data_checks",
    "decision",
    "errors",
    "flag_options",
    "flag_table",
    "flags",
    "gc_pause",
    "held",
    "locks",
    "options",
    "output_file",
    "phase_times",
    "shared_file",
    "size_spec",
    "target",
    "trace",
    "user_kernels",
}
CODEGEN = {"codegen.kernel", "codegen.kernel.lower", "codegen.llvm", "codegen.triton"}
RUNTIME = {"runtime", "runtime.cpu", "runtime.gpu", "runtime.launcher", "runtime.plan"}
TF_BELOW = {"tf.compiler_port", "tf.devices", "tf.graph", "tf.native_op", "tf.rewrites", "tf.watch"}
# Room -> the rooms it may import besides the basics. A room is a package, or a module of one that stands apart.
# "runtime.plan": the launch plan as data, which the dump writes and launchers run.
ALLOWED = {
    "ir": set(),
    "passes": {"ir"},
    "dynamic": {"ir", "passes"},
    "fusion": {"ir"},
    "profiles": {"stored"},
    "ranks": set(),
    "runtime.plan": {"ir"},
    "codegen.kernel": {"ir"},
    "codegen.kernel.lower": {"ir", "fusion", "codegen.kernel"},
    "codegen.llvm": {"ir", "codegen.kernel"},
    "codegen.triton": {"ir", "codegen.kernel"},
    "stored": {"ir"},
    "runtime": {"ir", "codegen.kernel", "runtime.plan", "stored"},
    "runtime.launcher": {"ir", "runtime", "runtime.plan"},
    "runtime.cpu": {"ir", "codegen.kernel", "runtime", "runtime.launcher", "runtime.plan"},
    "runtime.gpu": {"ir", "codegen.kernel", "runtime", "runtime.cpu", "runtime.launcher", "runtime.plan"},
    "backends": {"ir", "fusion", *CODEGEN, *RUNTIME},
    "dump": {"ir", "runtime.plan"},
    "tuning.fingerprint": {"ir"},
    "tuning.persisted": {"ir", "codegen.kernel", "stored"},
    "tf2xla": {"ir"},
    "tf.coordination": set(),
    "tf.devices": set(),
    "tf.compiler_port": {"ir"},
    "tf.graph": {"tf.devices"},
    "tf.native_op": {"ir", "tf.devices"},
    "tf.rewrites": {"tf.devices", "tf.graph", "tf2xla"},
    "tf.watch": {"tf2xla", "tf.graph"},
    "tf.functions": {"ir", "tf2xla", *TF_BELOW},
    "tf.clustering": {"dump", "tf2xla", *TF_BELOW, "tf.functions"},
    "tf.must_compile": {"dump", "tf2xla", *TF_BELOW, "tf.functions"},
    "tf": {"ir", "tf2xla", *TF_BELOW, "tf.clustering", "tf.functions", "tf.must_compile"},
}
# What puts the stages together, or stands beside them; the rest of the tests say what these may import.
DRIVERS = {
    "",
    "__main__",
    "api",
    "bench",
    "bootstrap",
    "cli",
    "codegen",
    "compile_records",
    "compiler",
    "config",
    "cross_compile",
    "demo",
    "dynamic_policy",
    "dynamic_records",
    "executable_key",
    "execution_records",
    "handover",
    "history",
    "kept_marks",
    "kernel_source",
    "kernel_table",
    "loaded",
    "rank_policy",
    "recompile_limit",
    "replay",
    "service",
    "triton_calls",
    "trusted_sizes",
    "tuning",
}


def imports(path: Path, root: Path = ROOT) -> set[str]:
    """Absolute names of all that `path` imports, for types alone and inside functions too."""
    package = path.relative_to(root).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level]) if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{prefix}.{alias.name}" for alias in node.names)
    return found


@functools.cache
def module_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Module of the package -> the modules of the package that it imports; names without 'tfxla_cluster.'."""
    files = {module_name(path, root): path for path in (root / PACKAGE.name).rglob("*.py")}
    graph = {}
    for module, path in files.items():
        named = {n.removeprefix(f"{PACKAGE.name}.") for n in imports(path, root) if n.startswith(f"{PACKAGE.name}.")}
        graph[module] = {n if n in files else n.rpartition(".")[0] for n in named} & files.keys() - {module}
    return graph


def module_name(path: Path, root: Path = ROOT) -> str:
    """The module at `path` without 'tfxla_cluster.'; '' for the package itself."""
    parts = path.relative_to(root / PACKAGE.name).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__").removesuffix("__init__")


def room_of(module: str, rooms: Iterable[str]) -> str:
    """The innermost of `rooms` that the module lies in; itself where there is none."""
    inside = [room for room in rooms if module == room or module.startswith(f"{room}.")]
    return max(inside, key=len, default=module)


def room_graph(graph: Mapping[str, set[str]], rooms: Iterable[str]) -> dict[str, set[str]]:
    """Room -> the other rooms that its modules import."""
    rooms = list(rooms)
    found: dict[str, set[str]] = {}
    for module, used in graph.items():
        room = room_of(module, rooms)
        found.setdefault(room, set()).update(room_of(n, rooms) for n in used)
    return {room: used - {room} for room, used in found.items()}


def wrong_edges(root: Path = ROOT) -> list[tuple[str, str]]:
    """Pairs (module, module that it imports) that ALLOWED does not have."""
    return [
        (module, name)
        for module, used in module_graph(root).items()
        if (room := room_of(module, ALLOWED)) in ALLOWED
        for name in used
        if room_of(name, ALLOWED) not in BASICS | ALLOWED[room] | {room}
    ]


def drawing(root: Path = ROOT) -> str:
    """Who imports whom, without the basics; then what goes back, and a circle of modules if there is one."""
    graph = room_graph(module_graph(root), [*ALLOWED, *DRIVERS])
    edges = [
        f"  {room or 'tfxla_cluster'} --> {other or 'tfxla_cluster'}"
        for room, used in sorted(graph.items())
        for other in sorted(used - BASICS)
        if room not in BASICS
    ]
    back = [f"%% goes back: {module} --> {name}" for module, name in sorted(wrong_edges(root))]
    try:
        TopologicalSorter(module_graph(root)).prepare()
        circle = "none"
    except CycleError as error:
        circle = " --> ".join(error.args[1])
    return "\n".join(["graph BT", *edges, *(back or ["%% goes back: none"]), f"%% circle: {circle}"])


if __name__ == "__main__":
    print(drawing(Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT))
