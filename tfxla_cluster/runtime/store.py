"""A keyed store of blobs on disk or any fsspec URL: executables, and whatever else is worth keeping.

An entry is one file, written whole under a temporary name and renamed, so that a reader never sees
half of one and two writers may race. It holds a checksum, a header (the key, names of the sections) and
the sections. Anything wrong with it is a miss with a reason, never an exception; what cannot be written
is said once. Nothing read here is executed before its checksum and key agree, or unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec

from .. import trace
from ..ir.guard import differences, fact_text, from_data, to_data
from ..options import StoreOptions
from .cache import Key

MAGIC = b"TFXLA-STORE-2\n"
_DIGEST, _LENGTH = 32, 8  # bytes of the checksum and of the header's length
_EXPLAINED = 64  # entries that `explain_miss` looks at, at most


@dataclass(frozen=True, slots=True)
class Lookup:
    """`sections` by name, or None and why there is no entry."""

    sections: Mapping[str, bytes] | None
    reason: str = ""


class Store:
    """`url`: a directory or fsspec URL. `prefix` begins each file name. `read_only`: never write."""

    def __init__(self, url: str, prefix: str = "tfxla", read_only: bool = False) -> None:
        self.url, self._prefix, self._read_only = url, prefix, read_only
        self._fs, self._root = fsspec.core.url_to_fs(os.path.expanduser(url))

    def path(self, key: Key, kind: str) -> str:
        """Where the entry for `key` lies."""
        return f"{self._root}/{self._prefix}_{kind}_{_digest(key)}.bin"

    def get(self, key: Key, kind: str) -> Lookup:
        """The entry of `kind` under `key`."""
        try:
            data = self._fs.cat_file(self.path(key, kind))
        except FileNotFoundError:
            return Lookup(None, "not in the store")
        except Exception as error:  # noqa: BLE001 - fsspec backends differ; a store never stops a program
            return self._failed("read", error)
        try:
            return Lookup(unpack(data, key))
        except ValueError as error:
            reason = f"entry {self.path(key, kind)} is unusable: {error}"
            trace.record("store", event="unusable", reason=reason)
            return Lookup(None, reason)

    def put(self, key: Key, kind: str, sections: Mapping[str, bytes]) -> bool:
        """Write the entry; False (and a line, once) where the store cannot be written."""
        if self._read_only:
            return False
        path = self.path(key, kind)
        temporary = f"{self._root}/.{self._prefix}_{uuid.uuid4().hex}.tmp"
        try:
            self._fs.makedirs(self._root, exist_ok=True)
            self._fs.pipe_file(temporary, pack(key, sections))
            self._fs.mv(temporary, path)
            return True
        except Exception as error:  # noqa: BLE001 - as in `get`
            self._failed("written", error)
            self._remove(temporary)
            return False

    def explain_miss(self, key: Key, kind: str) -> list[str]:
        """Which guards differ from those of the entry that agrees in most of them."""
        try:
            names = self._fs.glob(f"{self._root}/{self._prefix}_{kind}_*.bin")[:_EXPLAINED]
            present = [k for k in (self._key_of(name) for name in names) if k]
        except Exception as error:  # noqa: BLE001 - as in `get`
            return [self._failed("listed", error).reason]
        if not present:
            return ["nothing of this kind is in the store"]
        return differences(max(present, key=lambda k: len(set(k) & set(key))), key)

    def _key_of(self, path: str) -> Key | None:
        """The key an entry was written for, None where it cannot be read."""
        data = self._fs.cat_file(path)
        try:
            header, _ = _header(data[len(MAGIC) + _DIGEST :])
            return from_data(header["key"])
        except (ValueError, KeyError, TypeError):
            return None

    def clear(self) -> int:
        """Remove every entry and left-over temporary file of this prefix; how many."""
        try:
            names = [
                *self._fs.glob(f"{self._root}/{self._prefix}_*.bin"),
                *self._fs.glob(f"{self._root}/.{self._prefix}_*.tmp"),
            ]
        except Exception as error:  # noqa: BLE001 - as in `get`
            self._failed("listed", error)
            return 0
        return sum(self._remove(name) for name in names)

    def _remove(self, path: str) -> bool:
        try:
            self._fs.rm_file(path)
            return True
        except Exception:  # noqa: BLE001 - it never came to be, or it cannot go: nothing to add to what was said
            return False

    def _failed(self, verb: str, error: Exception) -> Lookup:
        reason = f"the store {self.url} cannot be {verb} ({error})"
        trace.once(f"store:{self.url}", f"{reason}; going on without it")
        trace.record("store", event="failed", reason=reason)
        return Lookup(None, reason)


def opened(options: StoreOptions | None) -> Store | None:
    """The store that the options ask for, None for none."""
    return None if options is None else Store(options.url, options.prefix, options.read_only)


def pack(key: Key, sections: Mapping[str, bytes]) -> bytes:
    """An entry's bytes: magic, SHA-256 of the rest, header length, header (JSON), sections."""
    lengths = [[name, len(data)] for name, data in sections.items()]
    header = json.dumps({"key": to_data(key), "sections": lengths}).encode()
    rest = len(header).to_bytes(_LENGTH, "little") + header + b"".join(sections.values())
    return MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(data: bytes, key: Key) -> dict[str, bytes]:
    """The sections of an entry; ValueError says what is wrong with it."""
    rest = data[len(MAGIC) + _DIGEST :]
    if not data.startswith(MAGIC):
        raise ValueError("another format or version")
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : len(MAGIC) + _DIGEST]:
        raise ValueError("its checksum differs (cut short or corrupt)")
    header, at = _header(rest)
    if header["key"] != to_data(key):
        raise ValueError("it was written for another key")
    found = {}
    for name, length in header["sections"]:
        found[str(name)] = rest[at : at + length]
        at += length
    return found


def _header(rest: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the sections begin."""
    end = _LENGTH + int.from_bytes(rest[:_LENGTH], "little")
    return json.loads(rest[_LENGTH:end]), end


def key_text(key: Key) -> str:
    """The key as text, the same in every process."""
    return "\n".join(map(fact_text, key))


def _digest(key: Key) -> str:
    return hashlib.sha256(key_text(key).encode()).hexdigest()[:32]
