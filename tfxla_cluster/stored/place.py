"""Where entries lie: a directory, an fsspec URL, or a pack of them, one zip file (a path or URL that ends in .zip),
which is only read."""

from __future__ import annotations

import os
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Protocol

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..errors import InputFileError
from ..options import PACK


class Place(Protocol):
    """Files by name ('a', 'folder/b'). Raises what its file system raises; FileNotFoundError for what is not there,
    InputFileError for a file that is damaged where the place itself can tell."""

    def names(self) -> list[str]:
        """Of all files, in order; none where the place is not there."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        ...

    def size(self, name: str) -> int:
        """Bytes of a file."""
        ...


class Folder:
    """A directory of a file system; it is made where something is written."""

    def __init__(self, url: str) -> None:
        self._fs, self.root = fsspec.core.url_to_fs(os.path.expanduser(url))

    @property
    def is_local(self) -> bool:
        """On a disk of this machine."""
        return isinstance(self._fs, LocalFileSystem)

    @property
    def is_directory(self) -> bool:
        """It is there, and no file."""
        return bool(self._fs.isdir(self.root))

    @property
    def is_file(self) -> bool:
        """It is one file."""
        return bool(self._fs.isfile(self.root))

    def path(self, name: str) -> str:
        """The file's, as its file system has it."""
        return f"{self.root}/{name}"

    def names(self) -> list[str]:
        """As Place."""
        self._fs.invalidate_cache()
        root = self.root.rstrip("/") + "/"
        return sorted(
            found.removeprefix(root) for found in map(str, self._fs.find(self.root)) if found.startswith(root)
        )

    def read(self, name: str) -> bytes:
        """As Place."""
        return bytes(self._fs.cat_file(self.path(name)))

    def size(self, name: str) -> int:
        """As Place."""
        return int(self._fs.size(self.path(name)))

    def write(self, name: str, data: bytes) -> None:
        """The file, whole or not at all, also where two write it at once: object stores do so; elsewhere by way of a
        hidden file beside it."""
        path = self.path(name)
        folder = path.rpartition("/")[0]
        if not self.is_local:
            self._fs.pipe_file(path, data)
            return
        self._fs.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{name.rpartition('/')[2][:100]}_{uuid.uuid4().hex}.tmp"
        try:
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, path)
        except BaseException:
            if self._fs.exists(temporary):
                self._fs.rm_file(temporary)
            raise

    def written(self, name: str) -> float:
        """When a file was last written, Unix seconds; 0.0 where the file system does not tell."""
        try:
            return float(self._fs.modified(self.path(name)).timestamp())
        except NotImplementedError:
            return 0.0

    def remove(self, name: str) -> None:
        """A file."""
        self._fs.rm_file(self.path(name))


class Pack:
    """A zip file, opened anew for each read: a forked child would share the place where its parent reads."""

    def __init__(self, url: str) -> None:
        self.url = os.path.expanduser(url)

    def path(self, name: str) -> str:
        """In words."""
        return f"{self.url}/{name}"

    def names(self) -> list[str]:
        """As Place; FileNotFoundError where there is no such pack."""
        with self._opened() as file:
            return sorted(name for name in file.namelist() if not name.endswith("/"))

    def read(self, name: str) -> bytes:
        """As Place."""
        with self._opened() as file:
            try:
                return file.read(name)
            except KeyError:
                raise FileNotFoundError(self.path(name)) from None
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                raise InputFileError(f"{self.path(name)} is damaged in its pack ({error})") from None

    def size(self, name: str) -> int:
        """As Place."""
        with self._opened() as file:
            return file.getinfo(name).file_size

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        opened: Any = fsspec.open(self.url, "rb")
        with opened as stream, zipfile.ZipFile(stream) as file:
            yield file


def is_pack(url: str) -> bool:
    """The place is one file."""
    return url.endswith(PACK)


def opened(url: str) -> Folder | Pack:
    """The place at a path or URL. Raises what fsspec raises for an unknown one."""
    return Pack(url) if is_pack(url) else Folder(url)


def fetch(path: str) -> bytes:
    """The bytes of a file, also of one in a pack: 'kept.zip/profiles/job.profile.json'. Raises as Place does."""
    if (inside := _in_pack(path)) is not None:
        pack, name = inside
        return pack.read(name)
    fs, at = fsspec.core.url_to_fs(path)
    return bytes(fs.cat_file(at))


def holds_nothing(folder: str) -> bool:
    """Whether a folder is known to have no files: one in a pack may be. Raises as Place does."""
    inside = _in_pack(f"{folder.rstrip('/')}/")
    return inside is not None and not any(name.startswith(inside[1]) for name in inside[0].names())


def _in_pack(path: str) -> tuple[Pack, str] | None:
    """The pack that it lies in and its name there; None for what lies elsewhere."""
    pack, inside, name = path.rpartition(f"{PACK}/")
    return (Pack(pack + PACK), name) if inside else None


def packed(files: Mapping[str, bytes]) -> bytes:
    """A pack of files by name."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sorted(files.items()):
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()
