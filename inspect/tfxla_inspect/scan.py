"""What is in a dump directory: every file with its kind, grouped by module. Nothing is read here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tfxla_cluster.errors import InputFileError


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file. `pattern` matches the end of a module file's name (group `kernel`, if any, is the
    kernel or pass it belongs to), or the whole name where `per_module` is false."""

    name: str
    pattern: re.Pattern[str]
    title: str
    per_module: bool = True


def _module(name: str, pattern: str, title: str) -> Kind:
    return Kind(name, re.compile(rf"(?:^|\.){pattern}(?:\.gz)?$", re.DOTALL), title)


def _plain(name: str, pattern: str, title: str) -> Kind:
    return Kind(name, re.compile(rf"{pattern}(?:\.gz)?$", re.DOTALL), title, per_module=False)


_AFTER = r"(?P<target>cpu|gpu|sm_[\w.]+?_gpu|gfx\w+?_gpu)_after_optimizations"

# First match wins. Kinds of ours (tfxla_cluster.dump.schema) and of stock XLA.
KINDS: tuple[Kind, ...] = (
    _module("before", r"before_optimizations\.txt", "HLO before optimisation"),
    _module("before_proto", r"before_optimizations\.hlo\.pb", "HLO before optimisation (proto)"),
    _module("buffers", _AFTER + r"-buffer-assignment\.txt", "Buffer assignment"),
    _module("memory", _AFTER + r"-(?:memory-usage-report|buffer-assignment-values|live-range)\.\w+", "Memory report"),
    _module("after", _AFTER + r"\.txt", "Optimised HLO"),
    _module("after_proto", _AFTER + r"\.hlo\.pb", "Optimised HLO (proto)"),
    _module(
        "pass",
        r"(?P<step>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)\.before_(?P<before>.+?)\.txt",
        "HLO between passes",
    ),
    _module("pass_proto", r"\d{4,}\.[^.]+\.after_.+?\.hlo\.pb", "HLO between passes (proto)"),
    _module("pass_inner", r"\d{4,}\.[^.]+\.after_[^.]+\.txt", "HLO within a pass"),
    _module("decisions", r"fusion_decisions\.json", "Fusion decisions"),
    _module("plan", r"launch_plan\.json", "Launch plan"),
    _module("kernels", r"kernels\.json", "Kernel table"),
    _module("timings", r"timings\.json", "Timings"),
    _module("sources", r"sources\.json", "User source lines"),
    _module("kernel_ir", r"kernel_ir\.txt", "Kernel IR"),
    _module("llvm_before", r"(?:(?P<kernel>.+)\.)?ir-no-opt\.ll", "LLVM IR as emitted"),
    _module("llvm", r"(?:(?P<kernel>.+)\.)?ir-with-opt\.ll", "LLVM IR as compiled"),
    _module("assembly", r"(?:(?P<kernel>.+)\.)?s", "Assembly"),
    _module("triton", r"(?:(?P<kernel>.+)\.)?triton\.py", "Triton source"),
    _module("ttir", r"(?:(?P<kernel>.+)\.)?ttir", "Triton IR"),
    _module("ttgir", r"(?:(?P<kernel>.+)\.)?ttgir", "Triton GPU IR"),
    _module("ptx", r"(?:(?P<kernel>.+)\.)?ptx", "PTX"),
    _module("cubin", r"(?P<kernel>.+)\.cubin", "GPU machine code"),
    _module("thunks", r"thunk_sequence\.txt", "Thunk sequence"),
    _module("object", r"obj-file\.(?P<kernel>.+)\.o", "Object file"),
    _module("mlir", r"(?P<kernel>.+)-(?:pre-optimization|post-optimization|post-lowering)\.mlir", "Emitter MLIR"),
    _module("options", r"debug_options", "Debug options"),
    _module("other_proto", r"(?:config|autotune_results|gpu_target_config)\.pbtxt", "Proto text"),
    _plain("graph_annotated", r"mark_for_compilation_annotated(?:_\d+)?\.pbtxt", "Annotated TF graph"),
    _plain("graph", r"mark_for_compilation(?:_\d+)?\.pbtxt", "TF graph with clusters"),
    _plain("graph_before", r"before_mark_for_compilation(?:_\d+)?\.pbtxt", "TF graph before clustering"),
    _plain("graph_other", r".*\.pbtxt", "Other TF graph"),
    _plain("trace", r"trace\.(?P<pid>\d+)\.jsonl", "Trace"),
    _plain("manifest", r"manifest\.json", "Manifest"),
)
_MODULE = re.compile(r"(?:(?P<usec>\d{10,})\.)?module_(?P<id>\d+)\.(?P<rest>.*)$", re.DOTALL)
# Kinds of names that other programs give too: alone they make no dump.
_ANYBODYS = frozenset(("unknown", "manifest", "graph_other"))
# Kinds whose suffix alone tells where the module's name ends.
_ANCHORS = frozenset(("before", "before_proto", "after", "after_proto", "buffers", "decisions", "kernels", "pass"))


@dataclass(frozen=True, slots=True)
class File:
    """One file. `groups`: what its kind's pattern captured (target, step, pipeline, kernel, pid, ...)."""

    path: Path
    name: str
    bytes: int
    kind: str
    groups: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ModuleFiles:
    """The files of one module; `id` and `name` from the file names."""

    id: int
    name: str
    files: list[File] = field(default_factory=list)

    def one(self, kind: str) -> File | None:
        """The first file of a kind."""
        return next((f for f in self.files if f.kind == kind), None)

    def all(self, kind: str) -> list[File]:
        return [f for f in self.files if f.kind == kind]

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)


@dataclass(slots=True)
class Directory:
    """A scanned dump directory. `problems`: (file name, reason) of what is skipped."""

    path: Path
    modules: list[ModuleFiles]
    files: list[File]
    problems: list[tuple[str, str]]

    def all(self, kind: str) -> list[File]:
        """Files outside of modules, of a kind, in natural order."""
        return sorted((f for f in self.files if f.kind == kind), key=lambda f: natural(f.name))

    @property
    def everything(self) -> list[File]:
        """The files of modules and all others."""
        return [f for m in self.modules for f in m.files] + self.files

    @property
    def is_foreign(self) -> bool:
        """True when no file is surely part of a dump: other programs too write *.pbtxt, a manifest.json,
        or a file called module_1.txt."""
        return all(file.kind in _ANYBODYS for file in self.everything)


def natural(text: str) -> list[tuple[int, str]]:
    """Sort key in which 'x_10' comes after 'x_9'."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def scan(path: Path) -> Directory:
    """Classify the files of `path` by name; links and sub-directories are skipped, and said so.

    Raises InputFileError when `path` is missing, no directory, unreadable or empty.
    """
    problems: list[tuple[str, str]] = []
    try:
        entries = list(_entries(path, problems))
    except FileNotFoundError:
        raise InputFileError(f"{path}: no such directory") from None
    except NotADirectoryError:
        raise InputFileError(f"{path}: not a directory", "Give the directory of --xla_dump_to") from None
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror}") from None
    if not entries:
        raise InputFileError(
            f"{path}: the directory is empty",
            "Was the program run with TFXLA_FLAGS=--xla_dump_to=DIR, and did it run a tf.function?",
        )
    members: dict[int, list[tuple[str, Path, int, str]]] = {}
    others: list[File] = []
    for name, size in entries:
        match = _MODULE.match(name)
        if match is None:
            others.append(_other(path, name, size))
        else:
            members.setdefault(int(match["id"]), []).append((name, path / name, size, match["rest"]))
    modules = [module for number in sorted(members) for module in _modules(number, members[number])]
    return Directory(path, modules, others, problems)


def _entries(path: Path, problems: list[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    with os.scandir(path) as found:
        for entry in sorted(found, key=lambda e: e.name):
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                problems.append((entry.name, "a link: not followed"))
            elif entry.is_dir():
                problems.append((entry.name, "a sub-directory: not read"))
            elif entry.is_file():
                yield entry.name, entry.stat().st_size


def _other(path: Path, name: str, size: int) -> File:
    for kind in KINDS:
        if not kind.per_module and (match := kind.pattern.fullmatch(name)):
            return File(path / name, name, size, kind.name, _groups(match))
    return File(path / name, name, size, "unknown")


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {key: value for key, value in match.groupdict().items() if value is not None}


def _modules(number: int, members: list[tuple[str, Path, int, str]]) -> list[ModuleFiles]:
    """Modules that carry one number: several when runs of stock XLA shared the directory."""
    names = _module_names([rest for _, _, _, rest in members])
    modules = {name: ModuleFiles(number, name) for name in names}
    for name, path, size, rest in members:
        owner = next((n for n in names if n and rest.startswith(n + ".")), names[-1])
        modules[owner].files.append(_classify(path, name, size, rest[len(owner) + 1 :] if owner else rest))
    return [m for m in modules.values() if m.files]


def _module_names(rests: list[str]) -> list[str]:
    """Module names among file name remainders, longest first."""
    names = set()
    for rest in rests:
        for kind in KINDS:
            if kind.name in _ANCHORS and (match := kind.pattern.search(rest)):
                names.add(rest[: match.start()])
                break
    if not names:
        prefix = os.path.commonprefix([*rests, rests[0]])
        names.add(prefix.rpartition(".")[0])
    return sorted(names, key=len, reverse=True)


def _classify(path: Path, name: str, size: int, rest: str) -> File:
    for kind in KINDS:
        if kind.per_module and (match := kind.pattern.search(rest)):
            return File(path, name, size, kind.name, _groups(match))
    return File(path, name, size, "unknown")
