"""Relocatable ELF files (x86-64): sections, symbols and relocations as far as generated code uses them.

Numbers: System V ABI, AMD64 supplement.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import InternalError

_SYMBOL_TABLE, _RELA, _NOBITS = 2, 4, 8
_WRITE, _ALLOC = 1, 2
_UNWIND = ".eh_frame"  # generated functions do not unwind


@dataclass(frozen=True, slots=True)
class Section:
    """A section that is in memory at run time; `data` is its content, `align` in bytes."""

    data: bytes
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """`section` None: to be found elsewhere."""

    name: str
    section: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """Bytes at `offset` of `section` stand for `symbol` + `addend`, in the way of `kind`."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True)
class Object:
    """`sections` by number, `defined` names, `relocations` of these sections."""

    sections: dict[int, Section]
    defined: dict[str, Symbol]
    relocations: list[Relocation] = field(default_factory=list)


def read(data: bytes) -> Object:
    """An object file's bytes; InternalError where it holds what generated code never does."""
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    sections: dict[int, Section] = {}
    for number, (name, kind, flags, _, offset, size, _, _, align, _) in enumerate(headers):
        if not flags & _ALLOC or _text(data, headers[names][4] + name) == _UNWIND:
            continue
        if flags & _WRITE:
            raise InternalError("generated code has a writable section")
        content = bytes(size) if kind == _NOBITS else data[offset : offset + size]
        sections[number] = Section(content, max(align, 1))
    symbols = [s for header in headers if header[1] == _SYMBOL_TABLE for s in _symbols(data, header, headers)]
    relocations = [
        r
        for header in headers
        if header[1] == _RELA and header[7] in sections
        for r in _relocations(data, header, symbols)
    ]
    defined = {s.name: s for s in symbols if s.name and s.section in sections}
    return Object(sections, defined, relocations)


def _symbols(data: bytes, header: tuple[int, ...], headers: list[tuple[int, ...]]) -> Iterator[Symbol]:
    offset, size, names = header[4], header[5], headers[header[6]][4]
    for at in range(offset, offset + size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        yield Symbol(_text(data, names + name), section or None, value)


def _relocations(data: bytes, header: tuple[int, ...], symbols: list[Symbol]) -> Iterator[Relocation]:
    offset, size, section = header[4], header[5], header[7]
    for at in range(offset, offset + size, 24):
        place, info, addend = struct.unpack_from("<QQq", data, at)
        yield Relocation(section, place, info & 0xFFFFFFFF, symbols[info >> 32], addend)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
