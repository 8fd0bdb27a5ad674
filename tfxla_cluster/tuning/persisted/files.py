"""Files of results: on the local disk or any fsspec URL, text or binary by name, written whole, merged under a lock."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ...errors import InputFileError, OutputError, UsageError
from ...locks import ForkSafeLock
from .messages import from_text, message, to_text
from .results import Results, from_message, to_message

TEXT_SUFFIXES = (".txt", ".textproto", ".pbtxt", ".prototxt", ".txtpb")  # XLA's; any other name is binary
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


def is_text(path: str) -> bool:
    return path.endswith(TEXT_SUFFIXES)


def parse(data: bytes, text: bool) -> Results:
    """ValueError says why `data` are no results."""
    proto = message("xla.AutotuneResults")()
    if text:
        from_text(data.decode("utf-8"), proto)
    else:
        _from_bytes(data, proto)
    return from_message(proto)


def _from_bytes(data: bytes, proto: Any) -> None:
    try:
        proto.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - protobuf's DecodeError is another class in each of its forms
        raise ValueError(f"no such message ({error})") from None


def serialised(results: Results, text: bool) -> bytes:
    """Equal results give equal bytes."""
    proto = to_message(results)
    return to_text(proto).encode() if text else bytes(proto.SerializeToString(deterministic=True))


def read(path: str) -> Results:
    """The results in a file; InputFileError where it is missing or holds none."""
    where = resolve(path)
    try:
        data = _read(where)
    except FileNotFoundError:
        raise InputFileError(f"{where}: there is no such file of autotuning results") from None
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise InputFileError(f"{where}: cannot be read: {_reason(error)}") from None
    return _parsed(data, where)


def _parsed(data: bytes, where: str) -> Results:
    try:
        return parse(data, is_text(where))
    except ValueError as error:
        raise InputFileError(f"{where}: not a file of autotuning results: {error}") from None


def write(path: str, results: Results) -> None:
    """The file, whole or not at all, instead of what was there; OutputError where that cannot be done."""
    where = resolve(path)
    with _failing(where):
        _write(where, results)


def merge_into(path: str, results: Results) -> None:
    """What the file holds and `results`, which win; other processes that do the same lose nothing on a local disk (on
    other file systems two that write at the same moment may). OutputError where that cannot be done, and where the
    file holds something else, which stays."""
    where = resolve(path)
    with _failing(where), _alone(where):
        try:
            held = _parsed(_read(where), where)
        except FileNotFoundError:
            held = Results()
        except InputFileError as error:
            raise OutputError(f"{error.message}; it is left as it is", "Give another file, or remove it") from None
        _write(where, held | results)


def _read(where: str) -> bytes:
    fs, path = fsspec.core.url_to_fs(where)
    return bytes(fs.cat_file(path))


def _write(where: str, results: Results) -> None:
    """By way of a hidden file beside it."""
    fs, path = fsspec.core.url_to_fs(where)
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.tmp"
    fs.makedirs(folder or "/", exist_ok=True)
    try:
        fs.pipe_file(temporary, serialised(results, is_text(where)))
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
def _failing(where: str) -> Iterator[None]:
    """OutputError for whatever a file system raises."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:  # noqa: BLE001 - fsspec backends differ
        raise OutputError(f"{where}: autotuning results cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
