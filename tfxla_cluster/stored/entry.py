"""An entry: one file with a checksum, a header (key, what it is about, names of its sections) and the sections.

Nothing in it is executed before checksum and key agree, or unpickled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.guard import Key, fact_text, from_data, to_data

MAGIC = b"TFXLA-STORE-2\n"
_DIGEST, _LENGTH = 32, 8  # bytes of the checksum and of the header's length
# No name of a folder: what is unpacked stays where it is to be.
_NAME = re.compile(r"(?P<prefix>[^/\\]+)_(?P<kind>[a-z]+)_[0-9a-f]{32}\.bin")
_TEMPORARY = re.compile(r"\.[^/\\]+_[0-9a-f]{32}\.tmp")


@dataclass(frozen=True, slots=True)
class Entry:
    """`about`: what it is in words, by name; no part of the key. Sections by name."""

    key: Key
    about: Mapping[str, str]
    sections: Mapping[str, bytes]


def file_name(prefix: str, kind: str, key: Key) -> str:
    """The name of its file."""
    return f"{prefix}_{kind}_{hashlib.sha256(key_text(key).encode()).hexdigest()[:32]}.bin"


def key_text(key: Key) -> str:
    """The key as text, the same in every process."""
    return "\n".join(map(fact_text, key))


def kind_of(name: str) -> str:
    """The kind of an entry whose file has this name, '' where no entry has."""
    match = _NAME.fullmatch(name)
    return match["kind"] if match else ""


def prefix_of(name: str) -> str:
    """The prefix of an entry's name, '' where no entry has such a name."""
    match = _NAME.fullmatch(name)
    return match["prefix"] if match else ""


def is_temporary(name: str) -> bool:
    """It is what a writer that was killed left."""
    return _TEMPORARY.fullmatch(name) is not None


def pack(key: Key, sections: Mapping[str, bytes], about: Mapping[str, str] | None = None) -> bytes:
    """An entry's bytes: magic, SHA-256 of the rest, header length, header (JSON), sections."""
    lengths = [[name, len(data)] for name, data in sections.items()]
    header = json.dumps({"key": to_data(key), "about": dict(about or {}), "sections": lengths}).encode()
    rest = len(header).to_bytes(_LENGTH, "little") + header + b"".join(sections.values())
    return MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(data: bytes, key: Key | None = None) -> Entry:
    """The entry; ValueError says what is wrong with it, as that it is another's than `key`'s where one is given."""
    rest = data[len(MAGIC) + _DIGEST :]
    if not data.startswith(MAGIC):
        raise ValueError("another format or version")
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : len(MAGIC) + _DIGEST]:
        raise ValueError("its checksum differs (cut short or corrupt)")
    at = _LENGTH + int.from_bytes(rest[:_LENGTH], "little")
    try:
        header = json.loads(rest[_LENGTH:at])
        sections = {}
        for name, length in header["sections"]:
            sections[str(name)] = rest[at : at + length]
            at += length
        found = Entry(from_data(header["key"]), header.get("about", {}), sections)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its header cannot be read ({error!r})") from None
    if key is not None and found.key != key:
        raise ValueError("it was written for another key")
    return found
