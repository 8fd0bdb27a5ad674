"""The symbols of a relocatable ELF file (64 bits, little endian)."""
from __future__ import annotations

import struct

_SYMBOL_TABLE = 2


def symbols(data: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """(names that the object defines, names that it needs)."""
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    defined: set[str] = set()
    needed: set[str] = set()
    for header in headers:
        kind, offset, size, link = header[1], header[4], header[5], header[6]
        if kind != _SYMBOL_TABLE:
            continue
        names = headers[link][4]
        for at in range(offset + 24, offset + size, 24):
            name_at, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            name = data[names + name_at:data.index(b"\0", names + name_at)].decode()
            if name:
                (defined if section else needed).add(name)
    return frozenset(defined), frozenset(needed - defined)
