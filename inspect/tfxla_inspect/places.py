"""Where the files of a dump lie: in a directory and those below it, in an archive, between the marks of a log.

Links are not followed, names are labels (no path is made of one), and what expands far beyond its size is not
expanded. A compressed tar archive is expanded once, into a file without a name.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

Problems = list[tuple[str, str]]
MOST_FILES = 1_000_000
_DEEPEST = 32
# What expands to this many times its size is a bomb, above some size: texts reach 60.
_MOST_TIMES = 200
_ANY_TIMES = 64 * 2**20
# Of an archive's name: how its bytes expand to a tar archive; None: a zip archive.
_ARCHIVES = {
    ".zip": None,
    ".tar": open,
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
}
# What reading may raise: broken, encrypted, of an unknown method, or lying about its sizes.
BROKEN = (
    *(OSError, EOFError, RuntimeError, NotImplementedError, ValueError),
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
)


class Place(Protocol):
    """Where the bytes of a file lie."""

    @property
    def path(self) -> Path:
        """The file on disk that it is, or is a part of."""

    @property
    def stored(self) -> int:
        """How many bytes it takes there."""

    def open(self) -> BinaryIO:
        """Raises one of BROKEN, or zlib.error later, where it cannot be read."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file of its own."""

    folder: str
    name: str
    stored: int

    @property
    def path(self) -> Path:
        return Path(self.folder, self.name)

    def open(self) -> BinaryIO:
        """A pipe or device that took the file's place since is an OSError, and so is a link."""
        opened = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError("no regular file")
        return open(opened, "rb")


@dataclass(frozen=True, slots=True)
class Zipped:
    """A member of a zip archive."""

    path: Path
    archive: zipfile.ZipFile
    member: zipfile.ZipInfo

    @property
    def stored(self) -> int:
        return self.member.compress_size

    def open(self) -> BinaryIO:
        return cast("BinaryIO", self.archive.open(self.member))


@dataclass(frozen=True, slots=True)
class Tarred:
    """A member of a tar archive."""

    path: Path
    archive: tarfile.TarFile
    member: tarfile.TarInfo

    @property
    def stored(self) -> int:
        return self.member.size

    def open(self) -> BinaryIO:
        opened = self.archive.extractfile(self.member)
        if opened is None:
            raise OSError("no regular file")
        return cast("BinaryIO", opened)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `start` to `end` of another file; `prefix` matches what a log puts before each line."""

    outer: Place
    start: int
    end: int
    prefix: re.Pattern[bytes] | None = None

    @property
    def path(self) -> Path:
        return self.outer.path

    @property
    def stored(self) -> int:
        return self.end - self.start

    def open(self) -> BinaryIO:
        with self.outer.open() as opened:
            opened.seek(self.start)
            data = opened.read(self.stored)
        if self.prefix is not None:
            data = b"".join(line[m.end() :] for line in data.splitlines(True) if (m := self.prefix.match(line)))
        return io.BytesIO(data)


@dataclass(frozen=True, slots=True)
class Spooled:
    """What a compressed file expanded to, kept in a file without a name."""

    path: Path
    spool: BinaryIO
    stored: int

    def open(self) -> BinaryIO:
        return open(f"/proc/self/fd/{self.spool.fileno()}", "rb")  # with a position of its own


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a dump: its name below the dump's top ('/' between folders), its size and place."""

    name: str
    bytes: int
    place: Place


def listed(path: Path, problems: Problems) -> Iterator[Found]:
    """The files at `path`, a directory, an archive or a file, in the order of their names; what is skipped goes to
    `problems` with the reason. Raises OSError where `path` itself cannot be read."""
    if path.is_dir():
        files = _walk(path, problems)
    else:
        place = OnDisk(str(path.parent), path.name, path.stat().st_size)
        files = iter(_opened(Found(path.name, place.stored, place), problems, ""))
    for number, found in enumerate(files):
        if number == MOST_FILES:
            problems.append((found.name, f"this file and all after it: more than {MOST_FILES:,} files"))
            return
        yield found


def _walk(top: Path, problems: Problems, below: str = "", depth: int = 0) -> Iterator[Found]:
    folder = top / below
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda e: e.name)
    for entry in found:
        name = f"{below}/{entry.name}" if below else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            problems.append((name, "a link: not followed"))
        elif entry.is_dir():
            if depth == _DEEPEST:
                problems.append((name, f"a directory more than {_DEEPEST} deep: not read"))
                continue
            try:
                yield from _walk(top, problems, name, depth + 1)
            except OSError as error:
                problems.append((name, f"a directory that cannot be read: {error.strerror}"))
        elif entry.is_file():
            size = entry.stat().st_size
            yield from _opened(Found(name, size, OnDisk(str(folder), entry.name, size)), problems, f"{name}/")
        else:
            problems.append((name, "neither a file nor a directory: not read"))


def check_expansion(expanded: int, stored: int) -> None:
    """OSError where `stored` bytes have expanded to so many that no text of a dump does."""
    if expanded > max(_ANY_TIMES, _MOST_TIMES * stored):
        raise OSError(f"{stored:,} bytes expand to more than {_MOST_TIMES} times as many: not read further")


def _opened(found: Found, problems: Problems, prefix: str) -> Iterator[Found]:
    """The members of an archive, as files below `prefix`; any other file itself."""
    ending = next((e for e in _ARCHIVES if found.name.endswith(e)), "")
    if not ending:
        yield found
        return
    path, expand = found.place.path, _ARCHIVES[ending]
    try:
        yield from _zip(path, prefix, problems) if expand is None else _tar(path, expand, prefix, problems)
    except BROKEN as error:
        problems.append((found.name, f"an archive that cannot be read: {error}"))


def _zip(path: Path, prefix: str, problems: Problems) -> Iterator[Found]:
    archive = zipfile.ZipFile(path)
    for member in sorted(archive.infolist(), key=lambda m: m.filename):
        name = prefix + label(member.filename)
        if member.is_dir() or _hidden(name):
            continue
        if stat.S_ISLNK(member.external_attr >> 16):
            problems.append((name, "a link: not followed"))
            continue
        yield Found(name, member.file_size, Zipped(path, archive, member))


def _tar(path: Path, expand: Callable[..., Any], prefix: str, problems: Problems) -> Iterator[Found]:
    opened = open(path, "rb") if expand is open else _expanded(path, expand)  # noqa: SIM115 (as long as its members)
    archive = tarfile.open(fileobj=opened)  # noqa: SIM115
    for member in sorted(_members(archive), key=lambda m: m.name):
        name = prefix + label(member.name)
        if member.isdir() or _hidden(name):
            continue
        if not member.isfile():
            problems.append((name, "a link or device: not followed"))
            continue
        yield Found(name, member.size, Tarred(path, archive, member))


def _expanded(path: Path, expand: Callable[..., Any]) -> BinaryIO:
    with expand(path, "rb") as stream:
        return spooled(stream, path.stat().st_size)[0]


def spooled(stream: IO[bytes], stored: int) -> tuple[BinaryIO, int]:
    """A file without a name that holds all of `stream`, and its size; `stored`: bytes that it came from. Raises one
    of BROKEN."""
    spool, size = tempfile.TemporaryFile(), 0  # noqa: SIM115
    while chunk := stream.read(2**20):
        size += len(chunk)
        check_expansion(size, stored)
        spool.write(chunk)
    spool.seek(0)
    return cast("BinaryIO", spool), size


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for number, member in enumerate(archive):
        if number > MOST_FILES:
            return
        yield member


def label(name: str) -> str:
    """A member's name without what would lead out of the archive, if it were a path."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
