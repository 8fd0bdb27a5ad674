"""The file that a command was told to write (-o): links followed, devices and pipes written through, files whole."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from .errors import OutputError


def write(name: str | Path, data: bytes, inputs: Iterable[str | Path] = ()) -> None:
    """Write `data` to the file `name`: a regular file whole or not at all, through what is no regular file.

    OutputError where that cannot be done, and where `name` is one of `inputs`, what the command reads.
    """
    path = os.fspath(name)
    try:
        if is_stdout(path):
            sys.stdout.flush()
            _write_all(1, data)
            return
        target = os.path.realpath(path)
        found = _stat(path)
        if found is not None and any(_is_file(found, other) for other in inputs):
            raise OutputError(f"{path}: is one of the files that are read", "Give another file to write")
        if found is None or stat.S_ISREG(found.st_mode):
            _replace(target, data, found)
        else:
            Path(target).write_bytes(data)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise OutputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def is_stdout(name: str | Path) -> bool:
    """Whether `name` is a name of this process's standard output (which may be a file, written where it stands)."""
    path = os.path.abspath(name)
    if not path.startswith(("/dev/", "/proc/")):
        return False
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def _stat(path: str) -> os.stat_result | None:
    """None where nothing is there, or nothing behind the link."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_file(found: os.stat_result, other: str | Path) -> bool:
    try:
        return os.path.samestat(found, os.stat(other))
    except (OSError, ValueError):
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(target: str, data: bytes, found: os.stat_result | None) -> None:
    """By way of a hidden file beside it, with the permissions of the file that was there."""
    temporary = Path(target).with_name(f".{os.path.basename(target)[:100]}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        if found is not None:
            temporary.chmod(stat.S_IMODE(found.st_mode))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
