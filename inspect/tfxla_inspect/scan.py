"""What is in a dump: every file with its kind, grouped by module. Of a file whose name says nothing the beginning is
read, of a log all; nothing else."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfxla_cluster.errors import InputFileError

from . import file_kinds, logs
from .file_kinds import ANYBODYS, BY_NAME, FRONTEND, KINDS
from .places import BROKEN, Found, Place, Problems, listed
from .sniff import sniff

_MODULE = re.compile(r"(?:(?P<usec>\d{10,})\.)?module_(?P<id>\d+)\.(?P<rest>.*)$", re.DOTALL)
# The fusion explorer puts the computation first.
_EXPLORER = re.compile(r"(?P<computation>.+)\.module_(?P<id>\d+)\.(?P<rest>.+\._fusion\.html)$", re.DOTALL)
# Kinds that are a module's wherever they lie: what a renamed file may be.
_OF_MODULES = frozenset(kind.name for kind in KINDS if kind.per_module)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class File:
    """One file. `name`: below the dump's top. `groups`: what its kind's pattern captured (target, step, pipeline,
    kernel, pid, ...). `form`: how its bytes become text (file_kinds.Kind)."""

    place: Place
    name: str
    bytes: int
    kind: str
    groups: dict[str, str] = field(default_factory=dict)
    form: str = ""

    @property
    def path(self) -> Path:
        """The file on disk that it is, or is a part of."""
        return self.place.path

    @property
    def folder(self) -> str:
        """Where it lies below the dump's top; '' at the top."""
        return self.name.rpartition("/")[0]


@dataclass(slots=True)
class ModuleFiles:
    """The files of one module; `id` and `name` from the file names, `folder` as File.folder. `is_numbered`: whether the
    names have a number, else `id` only tells modules apart."""

    id: int
    name: str
    folder: str = ""
    is_numbered: bool = True
    files: list[File] = field(default_factory=list)

    def one(self, kind: str) -> File | None:
        """The first file of a kind, or one that holds the same in another form."""
        return next(iter(self.all(kind)), None)

    def all(self, kind: str) -> list[File]:
        """The files of a kind; where there is none, those that hold the same in another form (file_kinds.Kind.like),
        which are read as text of that kind."""
        found = [f for f in self.files if f.kind == kind]
        if found:
            return found
        alike = [f for f in self.files if f.kind in BY_NAME and kind in BY_NAME[f.kind].like]
        return [replace(f, form="buffers") if kind == "buffers" else f for f in alike]

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)


@dataclass(slots=True)
class Directory:
    """A scanned dump. `problems`: (file name, reason) of what is skipped."""

    path: Path
    modules: list[ModuleFiles]
    files: list[File]
    problems: Problems

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
        return all(file.kind in ANYBODYS for file in self.everything)


def natural(text: str) -> list[tuple[int, str]]:
    """Sort key in which 'x_10' comes after 'x_9'."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def scan(path: Path, progress: Progress = lambda what: None) -> Directory:
    """Classify the files of a dump: of a directory and those below it, of an archive (zip, tar), or in a log. Links are
    skipped, and said so.

    Raises InputFileError when `path` is missing, unreadable or empty.
    """
    problems: Problems = []
    try:
        grouped = _Grouping(problems)
        for number, found in enumerate(listed(path, problems)):
            if number % 1000 == 0:
                progress(f"{number:,} files listed")
            grouped.add(found)
    except FileNotFoundError:
        raise InputFileError(f"{path}: no such file or directory") from None
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not grouped.count:
        raise InputFileError(
            f"{path}: {'the directory is' if path.is_dir() else 'it is'} empty",
            "Was the program run with TFXLA_FLAGS=--xla_dump_to=DIR, and did it run a tf.function?",
        )
    return Directory(path, grouped.modules(), grouped.others, problems)


@dataclass(frozen=True, slots=True)
class _Member:
    """A file of a module: what its name says after the number, and the time in it (microseconds; 0 without)."""

    found: Found
    rest: str
    usec: int = 0
    computation: str = ""


class _Grouping:
    """Files by module, while they are listed."""

    def __init__(self, problems: Problems) -> None:
        self.problems, self.count = problems, 0
        self.others: list[File] = []
        self._members: defaultdict[tuple[str, int], list[_Member]] = defaultdict(list)
        self._loose: list[tuple[Found, str]] = []

    def add(self, found: Found) -> None:
        self.count += 1
        folder, _, name = found.name.rpartition("/")
        if match := _MODULE.match(name):
            self._members[folder, int(match["id"])].append(_Member(found, match["rest"], int(match["usec"] or 0)))
        elif match := _EXPLORER.match(name):
            member = _Member(found, match["rest"], computation=match["computation"])
            self._members[folder, int(match["id"])].append(member)
        elif not self._of_frontend(found, folder.split("/"), name):
            self._other(found, name)

    def _of_frontend(self, found: Found, folders: list[str], name: str) -> bool:
        """JAX keeps a folder `module_N.NAME` beside the files of module N; a NAME with '/' is folders in it."""
        for depth, part in enumerate(folders):
            if match := _MODULE.match(part):
                rest = "/".join([match["rest"], *folders[depth + 1 :]])
                self._members["/".join(folders[:depth]), int(match["id"])].append(_Member(found, f"{rest}.{name}"))
                return True
        return False

    def _other(self, found: Found, name: str) -> None:
        if known := file_kinds.plain(name):
            self.others.append(_file(found, known[0].name, _groups(known[1])))
            return
        kind_name = sniff(found)
        if kind_name == "log":
            self._log(found)
        elif kind_name in _OF_MODULES:
            self._loose.append((found, kind_name))
        else:
            self.others.append(_file(found, kind_name))

    def _log(self, found: Found) -> None:
        self.others.append(_file(found, "log"))
        try:
            for part in logs.parts(found, self.problems):
                self.add(part)
        except BROKEN as error:
            self.problems.append((found.name, f"a log that cannot be read to its end: {error}"))

    def modules(self) -> list[ModuleFiles]:
        """All that were found, by number."""
        made: list[ModuleFiles] = []
        for (folder, number), members in sorted(self._members.items(), key=lambda item: (item[0][1], item[0][0])):
            made += _modules(folder, number, members)
        made = _with_frontend(made)
        return [*made, *_loose_modules(self._loose, made)]


def _file(found: Found, kind: str, groups: dict[str, str] | None = None) -> File:
    form = BY_NAME[kind].form if kind in BY_NAME else "binary"
    return File(found.place, found.name, found.bytes, kind, groups or {}, form)


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {key: value for key, value in match.groupdict().items() if value is not None}


def _modules(folder: str, number: int, members: list[_Member]) -> Iterator[ModuleFiles]:
    """Modules that carry one number: several when runs of stock XLA shared the directory."""
    names = _module_names([member.rest for member in members])
    by_name: dict[str, list[_Member]] = {name: [] for name in names}
    for member in members:
        by_name[next((n for n in names if n and member.rest.startswith(n + ".")), names[-1])].append(member)
    for name, own in by_name.items():
        for run in _runs(own):
            files = [_classify(m, m.rest.removeprefix(name + ".") if name else m.rest) for m in run]
            yield ModuleFiles(number, name, folder, True, files)


def _runs(members: list[_Member]) -> list[list[_Member]]:
    """Those of each run where names carry the time: the same file a second time begins the next. What has no time in
    its name was written over by the last."""
    runs: list[list[_Member]] = []
    seen: set[str] = set()
    for member in sorted((m for m in members if m.usec), key=lambda m: m.usec):
        if not runs or member.rest in seen:
            runs.append([])
            seen = set()
        runs[-1].append(member)
        seen.add(member.rest)
    untimed = [m for m in members if not m.usec]
    if runs:
        runs[-1] += untimed
    return runs or ([untimed] if untimed else [])


def _module_names(rests: list[str]) -> list[str]:
    """Module names among file name remainders, longest first."""
    names = {rest[: match.start()] for rest in rests if (match := file_kinds.anchor(rest))}
    if not names:
        prefix = os.path.commonprefix([*rests, rests[0]])
        names.add(prefix.rpartition(".")[0])
    return sorted(names, key=len, reverse=True)


def _classify(member: _Member, rest: str) -> File:
    if known := file_kinds.of_module(rest):
        groups = _groups(known[1])
        if member.computation:
            groups["computation"] = member.computation
        return _file(member.found, known[0].name, groups)
    kind_name = sniff(member.found)
    return _file(member.found, kind_name if kind_name in _OF_MODULES else "unknown")


def _with_frontend(modules: list[ModuleFiles]) -> list[ModuleFiles]:
    """What a frontend wrote of a module, joined to the compiler's files of it where these lie deeper."""
    owners = {(m.id, m.name): m for m in modules if not _is_frontends(m)}
    kept = []
    for module in modules:
        owner = owners.get((module.id, module.name), module)
        if owner is not module and _is_frontends(module):
            owner.files += module.files
        else:
            kept.append(module)
    return kept


def _is_frontends(module: ModuleFiles) -> bool:
    return all(file.kind in FRONTEND for file in module.files)


def _loose_modules(loose: list[tuple[Found, str]], known: list[ModuleFiles]) -> list[ModuleFiles]:
    """Modules of renamed files: those of a folder with one name before its first dot are one module."""
    made: dict[tuple[str, str], ModuleFiles] = {}
    number = max((module.id for module in known), default=-1)
    for found, kind in loose:
        folder, _, name = found.name.rpartition("/")
        key = folder, name.partition(".")[0]
        if key not in made:
            number += 1
            made[key] = ModuleFiles(number, key[1], folder, False)
        made[key].files.append(_file(found, kind))
    return list(made.values())
