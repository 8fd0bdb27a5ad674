"""Files of results: on the local disk or any fsspec URL, text or binary by name, written whole, merged under a lock."""

from __future__ import annotations

from typing import Any

from ... import shared_file
from ...errors import InputFileError
from .messages import from_text, message, to_text
from .results import Results, from_message, to_message

TEXT_SUFFIXES = (".txt", ".textproto", ".pbtxt", ".prototxt", ".txtpb")  # XLA's; any other name is binary
WHAT = "autotuning results"


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
    where = shared_file.resolve(path)
    return _parsed(shared_file.read(where, WHAT), where)


def _parsed(data: bytes, where: str) -> Results:
    try:
        return parse(data, is_text(where))
    except ValueError as error:
        raise InputFileError(f"{where}: not a file of {WHAT}: {error}") from None


def write(path: str, results: Results) -> None:
    """The file, whole or not at all, instead of what was there; OutputError where that cannot be done."""
    where = shared_file.resolve(path)
    shared_file.write(where, WHAT, serialised(results, is_text(where)))


def merge_into(path: str, results: Results) -> None:
    """What the file holds and `results`, which win; see shared_file.merge_into. OutputError where that cannot be done,
    and where the file holds something else, which stays."""
    where = shared_file.resolve(path)

    def merged(held: bytes | None) -> bytes:
        before = Results() if held is None else _parsed(held, where)
        return serialised(before | results, is_text(where))

    shared_file.merge_into(where, WHAT, merged)
