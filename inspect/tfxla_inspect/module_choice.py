"""Which module a command line names: a file of HLO, or DIR[:MODULE], a module of a dump."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfxla_cluster.errors import InputFileError, ParseError, UsageError

from .places import BROKEN
from .scan import Directory, File, ModuleFiles, scan

# Kinds of files that hold a module before all passes, the best first: with arguments, with all literals.
BEFORE = ("snapshot_unoptimized", "before_proto", "before")
_OURS = frozenset(("plan", "decisions"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A module of a dump."""

    directory: Directory
    module: ModuleFiles

    @property
    def is_ours(self) -> bool:
        """Whether tfxla_cluster dumped it, not XLA."""
        return any(f.kind in _OURS for f in self.module.files)


def divided(text: str) -> tuple[Path, str]:
    """The path and what stands behind its last colon: what there is, is a path."""
    if Path(text).exists():
        return Path(text), ""
    path, colon, which = text.rpartition(":")
    return (Path(path), which) if colon and path else (Path(text), "")


def is_dump(path: Path) -> bool:
    """A directory or an archive, not a file of HLO."""
    return path.is_dir() or path.name.endswith((".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"))


def chosen(path: Path, which: str) -> Chosen:
    """The module `which` (a number, or a part of its name) of a dump; of a dump with one, that. InputFileError where
    there is none such, UsageError where there are several."""
    directory = scan(path)
    with_hlo = [
        m for m in directory.modules if any(f.kind.startswith(("before", "after", "snapshot")) for f in m.files)
    ]
    found = [m for m in with_hlo if _is_meant(m, which)]
    exact = [m for m in found if which in (m.name, str(m.id))]
    found = exact or found
    if len(found) == 1:
        return Chosen(directory, found[0])
    listed = ", ".join(f"{m.id} ({m.name})" for m in (found or with_hlo)[:20]) or "none"
    if not found:
        raise InputFileError(f"{path}: no module {which}".rstrip(), f"It has: {listed}")
    raise UsageError(f"{path}: {len(found)} modules are meant", f"Write {path}:ID, one of {listed}")


def _is_meant(module: ModuleFiles, which: str) -> bool:
    return not which or which == str(module.id) or (not which.isdecimal() and which in module.name)


@contextlib.contextmanager
def written(files: list[File]) -> Iterator[list[str]]:
    """The files, out of an archive too, as paths that exist meanwhile."""
    with tempfile.TemporaryDirectory(prefix="tfxla-inspect-") as folder:
        yield [_written(file, Path(folder) / str(number)) for number, file in enumerate(files)]


def _written(file: File, folder: Path) -> str:
    if file.path.name == Path(file.name).name:
        return str(file.path)
    folder.mkdir()
    path = folder / Path(file.name).name
    try:
        with file.place.open() as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    except BROKEN as error:
        raise InputFileError(f"{file.name}: cannot be read: {error}") from None
    return str(path)


def first(module: ModuleFiles, kinds: tuple[str, ...]) -> File:
    """The first file of the first of `kinds` that the module has; InputFileError where it has none."""
    for kind in kinds:
        for file in module.files:
            if file.kind == kind:
                return file
    raise InputFileError(
        f"module {module.id} ({module.name}) has no HLO before optimisation", "Dump it as text or proto"
    )


def passes(module: ModuleFiles) -> list[File]:
    """Its HLO between passes, in order; protos where there are some: they have all literals."""
    found = [f for f in module.files if f.kind == "pass_proto"] or [f for f in module.files if f.kind == "pass"]
    return sorted(found, key=lambda f: int(f.groups.get("step", "0")))


@contextlib.contextmanager
def module_file(text: str) -> Iterator[str]:
    """The path of the module that a command line names, before optimisation."""
    path, which = divided(text)
    if text == "-" or not is_dump(path):
        yield text
        return
    with written([first(chosen(path, which).module, BEFORE)]) as (name,):
        yield name


def file_text(path: Path) -> str:
    """The HLO text in a file of text, or of a proto: one instruction a line, as it is printed; what does not parse
    stays as it is. InputFileError where it cannot be read."""
    from tfxla_cluster.ir import proto, text  # need protobuf and NumPy, which dumps of text do without

    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.name.removesuffix(".gz").endswith(".pb"):
        return text.render(proto.read(data), elide_literals=True)
    shown = data.decode(errors="replace")
    try:
        return text.render(text.parse(shown, allow_elided=True), elide_literals=True)
    except ParseError:
        return shown
