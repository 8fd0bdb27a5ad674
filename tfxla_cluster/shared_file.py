"""Files that several processes merge into: on the local disk or any fsspec URL, written whole, under a lock."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import fsspec
from fsspec.implementations.local import LocalFileSystem

from .errors import InputFileError, OutputError, UsageError
from .locks import ForkSafeLock

_PREFIXES = ("TEST_UNDECLARED_OUTPUTS_DIR", "TEST_WORKSPACE")
_lock = ForkSafeLock()


def resolve(path: str) -> str:
    """`path` with ~ and the words of a test runner resolved: 'TEST_WORKSPACE/x', 'TEST_UNDECLARED_OUTPUTS_DIR/x' begin
    with these environment variables (a relative TEST_WORKSPACE, Bazel's, lies in TEST_SRCDIR). UsageError where one
    is not set."""
    word, slash, rest = path.partition("/")
    if word not in _PREFIXES or not slash:
        return path if "://" in path else os.path.expanduser(path)
    value = os.environ.get(word, "")
    if not value:
        raise UsageError(f"'{path}' needs the environment variable {word}, which is not set")
    if word == "TEST_WORKSPACE" and not os.path.isabs(value):
        value = os.path.join(os.environ.get("TEST_SRCDIR", ""), value)
    return os.path.join(value, rest)


def read(where: str, what: str, fetch: Callable[[str], bytes] | None = None) -> bytes:
    """The bytes of a file of `what` ('autotuning results'), which `fetch` gives where it is no file of its own;
    InputFileError where it is missing or cannot be read."""
    try:
        return (fetch or _read)(where)
    except FileNotFoundError:
        raise InputFileError(f"{where}: there is no such file of {what}") from None
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise InputFileError(f"{where}: cannot be read: {_reason(error)}") from None


def write(where: str, what: str, data: bytes) -> None:
    """The file, whole or not at all, instead of what was there; OutputError where that cannot be done."""
    with _failing(where, what):
        _write(where, data)


def merge_into(where: str, what: str, merged: Callable[[bytes | None], bytes]) -> None:
    """Write what `merged` makes of the file's bytes (None: there is no file); other processes that do the same lose
    nothing on a local disk (on other file systems two that write at the same moment may). OutputError where that
    cannot be done, and where `merged` raises InputFileError: the file holds something else, and stays.
    """
    with _failing(where, what), _alone(where):
        try:
            held: bytes | None = _read(where)
        except FileNotFoundError:
            held = None
        try:
            data = merged(held)
        except InputFileError as error:
            raise OutputError(f"{error.message}; it is left as it is", "Give another file, or remove it") from None
        if data != held:
            _write(where, data)


def _read(where: str) -> bytes:
    fs, path = fsspec.core.url_to_fs(where)
    return bytes(fs.cat_file(path))


def _write(where: str, data: bytes) -> None:
    """Object stores write whole objects or none; elsewhere it goes by way of a hidden file beside it."""
    fs, path = fsspec.core.url_to_fs(where)
    if not isinstance(fs, LocalFileSystem):
        fs.pipe_file(path, data)
        return
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.tmp"
    fs.makedirs(folder or "/", exist_ok=True)
    try:
        fs.pipe_file(temporary, data)
        fs.mv(temporary, path)
    except BaseException:
        if fs.exists(temporary):
            fs.rm_file(temporary)
        raise


@contextmanager
def _alone(where: str) -> Iterator[None]:
    """No other thread of this process, nor, on a local disk, another process that asks, is in this block for a file of
    the same folder. The lock is the folder's, so it leaves no file, and ends with the process."""
    fs, path = fsspec.core.url_to_fs(where)
    with _lock:
        if not isinstance(fs, LocalFileSystem):
            yield
            return
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def _failing(where: str, what: str) -> Iterator[None]:
    """OutputError for whatever a file system raises."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise OutputError(f"{where}: {what} cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
