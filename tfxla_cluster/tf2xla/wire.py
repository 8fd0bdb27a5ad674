"""The few fields of a serialised HloModuleProto that lowering itself needs, read without its message classes."""

from __future__ import annotations

from collections.abc import Iterator

# Field numbers: xla/service/hlo.proto.
_MODULE_NAME, _MODULE_ALIASES = 1, 8
_ENTRIES, _OUTPUT_INDEX, _PARAMETER = 1, 1, 2


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position after it)."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, integer or bytes) of a serialised message, in order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        else:
            length, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            yield number, data[at : at + length]
            at += length


def _packed(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        item, at = _varint(value, at)
        found.append(item)
    return found


def aliases(module: bytes) -> tuple[str, list[tuple[int, int]]]:
    """(module name, (result index, parameter) pairs of input_output_alias).

    The result index is 0 when the module has one result that is not a tuple.
    """
    name, pairs = "", []
    for number, value in fields(module):
        if number == _MODULE_NAME and isinstance(value, bytes):
            name = value.decode()
        elif number == _MODULE_ALIASES and isinstance(value, bytes):
            pairs = [_alias(entry) for key, entry in fields(value) if key == _ENTRIES and isinstance(entry, bytes)]
    return name, pairs


def _alias(entry: bytes) -> tuple[int, int]:
    index: list[int] = []
    parameter = 0
    for number, value in fields(entry):
        if number == _OUTPUT_INDEX:
            index += _packed(value)
        elif number == _PARAMETER and isinstance(value, int):
            parameter = value
    return (index[0] if index else 0), parameter
