"""Writing one file of a dump: all of it or nothing, and a failure said once instead of raised."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import threading
from pathlib import Path

from .. import trace

TEMPORARY_PREFIX = ".tmp."
_COUNTER_FILE = ".module_counter"
_MODULE_ID = re.compile(r"(?:\d+\.)?module_(\d+)\.")
_NAME_LIMIT = 255
_serial = itertools.count()
_failed: set[str] = set()


def sanitise(name: str) -> str:
    """`name` as part of a file name: XLA's rule (slash, backslash, brackets, blank become `_`),
    and control characters too."""
    return re.sub(r"[/\\\[\] \x00-\x1f\x7f]", "_", name)


def cut(head: str, name: str, tail: str) -> str:
    """`head + name + tail`, with `name` shortened so that all fits into 255 bytes."""
    room = max(_NAME_LIMIT - len(os.fsencode(head)) - len(os.fsencode(tail)), 0)
    short = os.fsencode(name)[:room].decode("utf-8", "ignore")
    return head + short + tail


def broken(directory: Path) -> bool:
    """True once a file could not be written into `directory`: nothing more is tried there."""
    return str(directory) in _failed


def write(path: Path, data: bytes, *, exclusive: bool = False) -> bool:
    """Put `data` at `path` by way of a hidden temporary file; False where that was not possible.

    `exclusive`: leave an existing file alone and raise FileExistsError (killed between claiming the name
    and the rename, an empty file stays: readers take it as absent). An OSError (permissions,
    full disk) is told on stderr, once a directory, and ends dumping there; the program goes on.
    """
    if broken(path.parent):
        return False
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}.{threading.get_ident()}.{next(_serial)}"
    try:
        _write_and_rename(path, temporary, data, exclusive)
    except FileExistsError:
        raise
    except OSError as error:
        _give_up(path.parent, error)
        return False
    return True


def _write_and_rename(path: Path, temporary: Path, data: bytes, exclusive: bool) -> None:
    trace.make_directory(path.parent)
    try:
        temporary.write_bytes(data)
        if exclusive:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o666))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


# Where this process goes on counting; another process's files are stepped over.
_next_number: dict[tuple[str, str, str], int] = {}


def write_numbered(directory: Path, stem: str, extension: str, data: bytes) -> Path | None:
    """Write `stem.extension`, or `stem_1.extension`, ... : the first that no other process took."""
    key = (str(directory), stem, extension)
    for number in itertools.count(_next_number.get(key, 0)):
        _next_number[key] = number + 1
        suffix = f"_{number}" if number else ""
        path = directory / cut("", sanitise(stem), suffix + extension)
        try:
            return path if write(path, data, exclusive=True) else None
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def next_module_id(directory: Path) -> int:
    """The next free module number of `directory`: processes that share one never share a number.

    The number lives in a hidden file under a lock; without it (first use, or removed) the names of
    the files already there tell. An unwritable directory gives numbers from 0.
    """
    if broken(directory):
        return 0
    try:
        trace.make_directory(directory)
        handle = os.open(directory / _COUNTER_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            text = os.pread(handle, 20, 0).strip()
            number = int(text) if text.isdigit() else _first_free(directory)
            os.pwrite(handle, b"%20d" % (number + 1), 0)
        finally:
            os.close(handle)
    except OSError as error:
        _give_up(directory, error)
        return 0
    return number


def _first_free(directory: Path) -> int:
    with os.scandir(directory) as entries:
        found = [int(m[1]) for e in entries if (m := _MODULE_ID.match(e.name))]
    return max(found, default=-1) + 1


def _give_up(directory: Path, error: OSError) -> None:
    _failed.add(str(directory))
    trace.dump_failed(directory, error)


def reset_failures() -> None:
    """Try broken directories again (tests; a directory that was repaired)."""
    _failed.clear()
