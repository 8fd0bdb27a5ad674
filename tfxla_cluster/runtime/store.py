"""A keyed store of blobs in a directory, at any fsspec URL or in a pack: executables, and what else is worth keeping.

An entry is one file, written whole, so that a reader never sees half of one and two writers may race. Anything wrong
with it is a miss with a reason, never an exception; a store that cannot be used is said once, and left alone for a
minute where each attempt may wait for a network (`stored.rest`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from .. import trace
from ..errors import InputFileError
from ..ir.guard import differences
from ..options import StoreOptions
from ..stored import entry, place, rest
from .cache import Key

_EXPLAINED = 64  # entries that `explain_miss` looks at, at most


@dataclass(frozen=True, slots=True)
class Lookup:
    """`sections` by name, or None and why there is no entry."""

    sections: Mapping[str, bytes] | None
    reason: str = ""


class Store:
    """`url`: a directory, fsspec URL or pack. `prefix` begins each file name. `read_only`: never write."""

    def __init__(self, url: str, prefix: str = "tfxla", read_only: bool = False) -> None:
        self.url, self._prefix, self._read_only = url, prefix, read_only

    def path(self, key: Key, kind: str) -> str:
        """Where the entry for `key` lies."""
        return place.opened(self.url).path(self._name(key, kind))

    def get(self, key: Key, kind: str) -> Lookup:
        """The entry of `kind` under `key`."""
        if rest.rests(self.url):
            return Lookup(None, f"the store {self.url} is not asked again yet")
        try:
            data = place.opened(self.url).read(self._name(key, kind))
        except FileNotFoundError:
            return self._missing()
        except InputFileError as error:
            return self._unusable(error.message)
        except Exception as error:  # noqa: BLE001 - fsspec backends differ; a store never stops a program
            return self._failed("read", error)
        try:
            return Lookup(entry.unpack(data, key).sections)
        except ValueError as error:
            return self._unusable(f"entry {self.path(key, kind)} is unusable: {error}")

    def put(self, key: Key, kind: str, sections: Mapping[str, bytes], about: Mapping[str, str] | None = None) -> bool:
        """Write the entry; False (and a line, once) where the store cannot be written. `about`: what it is, in words
        by name, for who lists the store."""
        if self._read_only or rest.rests(self.url, writing=True):
            return False
        try:
            folder = place.opened(self.url)
            if isinstance(folder, place.Pack):
                trace.once(f"store:{self.url}", f"the store {self.url} is a pack: it is read, and nothing new is kept")
                return False
            told = {**(about or {}), "made": str(int(time.time()))}
            folder.write(self._name(key, kind), entry.pack(key, sections, told))
            return True
        except Exception as error:  # noqa: BLE001 - as in `get`
            self._failed("written", error, writing=True)
            return False

    def explain_miss(self, key: Key, kind: str) -> list[str]:
        """Which guards differ from those of the entry that agrees in most of them."""
        if rest.rests(self.url):
            return []
        try:
            present = self._keys(kind)
        except Exception as error:  # noqa: BLE001 - as in `get`
            return [self._failed("listed", error).reason]
        if not present:
            return ["nothing of this kind is in the store"]
        return differences(max(present, key=lambda k: len(set(k) & set(key))), key)

    def _keys(self, kind: str) -> list[Key]:
        """Of some entries of this kind, those that can be read."""
        folder, found = place.opened(self.url), []
        names = [name for name in folder.names() if self._is_ours(name) and entry.kind_of(name) == kind]
        for name in names[:_EXPLAINED]:
            try:
                found.append(entry.unpack(folder.read(name)).key)
            except (ValueError, InputFileError, FileNotFoundError):  # damaged, or another process removed it
                continue
        return found

    def clear(self) -> int:
        """Remove every entry and left-over temporary file of this prefix; how many."""
        count = 0
        try:
            folder = place.opened(self.url)
            if isinstance(folder, place.Pack):
                return 0
            for name in folder.names():
                if self._is_ours(name) or (entry.is_temporary(name) and name.startswith(f".{self._prefix}_")):
                    folder.remove(name)
                    count += 1
        except Exception as error:  # noqa: BLE001 - as in `get`
            self._failed("cleared", error, writing=True)
        return count

    def _is_ours(self, name: str) -> bool:
        return entry.prefix_of(name) == self._prefix

    def _name(self, key: Key, kind: str) -> str:
        return entry.file_name(self._prefix, kind, key)

    def _missing(self) -> Lookup:
        """No such entry; a pack that is not there is a mistake, a directory that is not there only empty."""
        if place.is_pack(self.url):
            try:
                place.opened(self.url).names()
            except Exception as error:  # noqa: BLE001 - as in `get`
                return self._failed("read", error)
        return Lookup(None, "not in the store")

    def _unusable(self, reason: str) -> Lookup:
        trace.record("store", event="unusable", reason=reason)
        return Lookup(None, reason)

    def _failed(self, verb: str, error: Exception, *, writing: bool = False) -> Lookup:
        reason = f"the store {self.url} cannot be {verb} ({error})"
        trace.once(f"store:{self.url}", f"{reason}; going on without it")
        trace.record("store", event="failed", reason=reason)
        rest.failed(self.url, writing=writing)
        return Lookup(None, reason)


def opened(options: StoreOptions | None) -> Store | None:
    """The store that the options ask for, None for none."""
    return None if options is None else Store(options.url, options.prefix, options.read_only)
