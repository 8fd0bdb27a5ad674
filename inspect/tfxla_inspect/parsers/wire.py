"""Protos of which there is no definition here, as numbered fields: what protobuf's own `--decode_raw` shows."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEEPEST = 30
_MOST_LINES = 20_000


def printed(data: bytes) -> str:
    """`number: value` a line, messages in braces. ValueError where the bytes are no proto."""
    fields = _fields(data)
    if fields is None:
        raise ValueError("no proto, or cut off")
    lines: list[str] = []
    for line in _lines(fields, 0):
        if len(lines) == _MOST_LINES:
            lines.append("... and more")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends. ValueError where it is cut off."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("cut off inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _fields(data: bytes) -> list[tuple[int, int | float | bytes]] | None:
    """(field number, value) of a message, None where the bytes are none."""
    found: list[tuple[int, int | float | bytes]] = []
    position = 0
    try:
        while position < len(data):
            key, position = varint(data, position)
            number, kind = key >> 3, key & 7
            if not number:
                return None
            value: int | float | bytes
            if kind == _VARINT:
                value, position = varint(data, position)
            elif kind == _BYTES:
                size, position = varint(data, position)
                value = data[position : position + size]
                position += size
            elif kind in (_FIXED64, _FIXED32):
                width, form = (8, "<d") if kind == _FIXED64 else (4, "<f")
                value = struct.unpack_from(form, data, position)[0]
                position += width
            else:
                return None
            if position > len(data):
                return None
            found.append((number, value))
    except (ValueError, struct.error):
        return None
    return found


def _lines(fields: list[tuple[int, int | float | bytes]], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for number, value in fields:
        if not isinstance(value, bytes):
            yield f"{pad}{number}: {value}"
        elif (text := _text(value)) is not None:
            yield f"{pad}{number}: {text}"
        elif depth < _DEEPEST and (inner := _fields(value)):
            yield f"{pad}{number} {{"
            yield from _lines(inner, depth + 1)
            yield f"{pad}}}"
        else:
            yield f"{pad}{number}: {len(value):,} bytes"


def _text(value: bytes) -> str | None:
    """Quoted where it is a line of printable text."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return f'"{text}"' if text.isprintable() else None
