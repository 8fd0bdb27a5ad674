"""`tfxla-inspect bundle`: one zip file of what a maintainer asks for, and nothing private."""

from __future__ import annotations

import io
import json
import platform
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster import __version__, output_file
from tfxla_cluster.errors import InputFileError

from . import scrub
from .file_kinds import TITLES
from .reading import Reader
from .scan import Directory, File, scan

Say = Callable[[str], None]
# Kinds that hold arguments, the user's lines, machine code, or what nobody knows.
_INPUTS = frozenset(("snapshot", "snapshot_text", "snapshot_unoptimized"))
_SOURCES = frozenset(("sources",))
_NEVER = {
    "unknown": "not a file of a dump",
    "object": "machine code",
    "cubin": "machine code",
    "drawing": "XLA's drawing, made of the HLO",
    "fusion_explorer": "XLA's drawing, made of the HLO",
    "log": "a program's own output",
}
# What may hold values of constants in a form that they are not taken out of.
_WITH_CONSTANTS = frozenset(
    (
        *("plan", "llvm_before", "llvm", "assembly", "mlir", "mlir_log", "frontend_mlir", "gpu_executable"),
        *(
            "gpu_executable_proto",
            "graph",
            "graph_annotated",
            "graph_before",
            "graph_other",
            "kernel_ir",
            "ttir",
            "ttgir",
        ),
        *("ptx", "triton", "fdo", "thunks"),
    )
)
_HLO_PROTOS = frozenset(("before_proto", "after_proto", "pass_proto", "pass_inner_proto"))
_HLO_TEXTS = frozenset(("before", "after", "pass", "pass_inner"))
_LARGEST = 1 << 30
_STAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """`inputs`: with snapshots; `sources`: with the user's lines; `constants`: with their values. `more`: files of the
    user (a script, a reproduction), directories with what lies in them."""

    inputs: bool = False
    sources: bool = False
    constants: bool = True
    more: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    data: bytes
    title: str


def write(directory: Path, output: Path, wanted: Wanted, say: Say) -> int:
    """Writes the zip and says what is in it; 0. InputFileError where DIR is no dump, or a file of `more` cannot be
    read, OutputError where the zip cannot be written."""
    found = scan(directory)
    if found.is_foreign:
        raise InputFileError(f"{directory}: holds no dump", "Give the directory of --xla_dump_to")
    reader = Reader(limit=_LARGEST)
    left_out = dict(found.problems)
    entries = []
    for file in found.everything:
        reason = _left_out(file, wanted)
        if reason:
            left_out[file.name] = reason
        else:
            entries.append(_entry(file, reader, wanted))
    entries += [_read(path, name) for top in wanted.more for path, name in _files(top)]
    names = scrub.users(e.data for e in entries)
    hidden, counts = [], []
    for entry in entries:
        data, count = scrub.anonymous(entry.data, names)
        name, more = scrub.anonymous(entry.name.encode(), names)
        hidden.append(_Entry(name.decode(errors="replace"), data, entry.title))
        counts.append(count + more)
    hidden.append(_about(found, wanted))
    output_file.write(output, _zipped(hidden))
    _tell(output, hidden, sum(counts), {**left_out, **dict(reader.problems)}, say)
    return 0


def _left_out(file: File, wanted: Wanted) -> str:
    """Why a file is not taken; '' where it is."""
    if file.kind in _NEVER:
        return _NEVER[file.kind]
    if file.kind in _INPUTS and not (wanted.inputs and wanted.constants):
        return "inputs of an execution (--inputs takes them)"
    if file.kind in _SOURCES and not wanted.sources:
        return "lines of the user's program (--sources takes them)"
    if file.kind in _WITH_CONSTANTS and not wanted.constants:
        return "may hold constants"
    return f"larger than {_LARGEST >> 30} GiB" if file.bytes > _LARGEST else ""


def _entry(file: File, reader: Reader, wanted: Wanted) -> _Entry:
    title = TITLES.get(file.kind, file.kind)
    if not wanted.constants and file.kind in _HLO_PROTOS:
        name = file.name.removesuffix(".gz").removesuffix(".hlo.pb")
        return _Entry(f"{name}.txt", scrub.without_constants(reader.text(file)).encode(), f"{title}, as text")
    data = reader.data(file)
    name = file.name.removesuffix(".gz")
    if file.kind == "trace":
        data = scrub.json_lines(data, wanted.sources)
    elif not wanted.constants and file.kind in _HLO_TEXTS:
        data = scrub.without_constants(data.decode("utf-8", "replace")).encode()
    return _Entry(name, data, title)


def _files(top: Path) -> list[tuple[Path, str]]:
    """The files of `more`, each with its name in the zip."""
    if not top.is_dir():
        return [(top, f"reproduction/{top.name}")]
    inside = sorted(p for p in top.rglob("*") if p.is_file() and not p.is_symlink())
    return [(p, f"reproduction/{p.relative_to(top).as_posix()}") for p in inside]


def _read(path: Path, name: str) -> _Entry:
    try:
        return _Entry(name, path.read_bytes(), "given with --add")
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror}") from None


def _about(found: Directory, wanted: Wanted) -> _Entry:
    """What made the bundle, and where: versions and hardware of the run itself are in its traces, where it has some."""
    said = {
        "made_by": f"tfxla-inspect {__version__}",
        "made_on": {"machine": platform.machine(), "system": platform.system(), "python": platform.python_version()},
        "modules": len(found.modules),
        "with": {"inputs": wanted.inputs, "sources": wanted.sources, "constants": wanted.constants},
        "has_trace": bool(found.all("trace")),
    }
    return _Entry("bundle.json", json.dumps(said, indent=1).encode(), "what made this, and where")


def _zipped(entries: Sequence[_Entry]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        taken: set[str] = set()
        for entry in entries:
            if entry.name not in taken:  # a proto as text beside the text itself
                taken.add(entry.name)
                archive.writestr(zipfile.ZipInfo(entry.name, _STAMP), entry.data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _tell(output: Path, entries: Sequence[_Entry], hidden: int, left_out: dict[str, str], say: Say) -> None:
    for entry in sorted(entries, key=lambda e: e.name):
        say(f"{len(entry.data):>12,}  {entry.name}  ({entry.title})")
    for name, reason in sorted(left_out.items()):
        say(f"    left out  {name}  ({reason})")
    say(f"{output}: {len(entries)} files; {hidden} home directories and user names were replaced")
