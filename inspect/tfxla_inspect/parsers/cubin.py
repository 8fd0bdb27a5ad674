"""What machine code for a GPU says of itself: registers, stack and threads, from the ELF file that a cubin is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Attributes of sections .nv.info (CUDA's binary utilities name them EIATTR_...), each a pair of 4-byte words or more.
_REGISTERS, _FRAME, _THREADS = 0x2F, 0x11, 0x10
_WITH_DATA = 4  # the format of an attribute that is followed by as many bytes as it says
_MOST_SECTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Code:
    """Of a kernel: `registers` of a thread, `frame` bytes of its stack (spills, and what is indexed), `threads` of a
    block; None where the file does not say."""

    registers: int | None = None
    frame: int | None = None
    threads: int | None = None


def parse(data: bytes) -> Code:
    """The first kernel of a cubin; Code() of what is none."""
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError, OverflowError):
        return Code()


def _parse(data: bytes) -> Code:
    if data[:4] != b"\x7fELF":
        return Code()
    sections = dict(_sections(data))
    text = next((s for name, s in sections.items() if name.startswith(".text.")), None)
    if text is None:
        return Code()
    symbol = text[7] & 0xFFFFFF  # sh_info
    name = next(name for name, s in sections.items() if s is text).removeprefix(".text")
    of_file = dict(_attributes(_content(data, sections.get(".nv.info"))))
    threads = next((words for key, words in _attributes(_content(data, sections.get(f".nv.info{name}")))
                    if key[0] == _THREADS), None)  # fmt: skip
    return Code(
        _second(of_file.get((_REGISTERS, symbol))),
        _second(of_file.get((_FRAME, symbol))),
        None if threads is None else threads[0] * max(threads[1], 1) * max(threads[2], 1),
    )


def _second(words: tuple[int, ...] | None) -> int | None:
    return words[1] if words and len(words) > 1 else None


def _sections(data: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * n) for n in range(min(count, _MOST_SECTIONS))]
    for header in headers:
        at = headers[names][4] + header[0]
        yield data[at : data.index(b"\0", at)].decode("utf-8", "replace"), header


def _content(data: bytes, section: tuple[int, ...] | None) -> bytes:
    return data[section[4] : section[4] + section[5]] if section else b""


def _attributes(content: bytes) -> Iterator[tuple[tuple[int, int], tuple[int, ...]]]:
    """((attribute, first word), its words) of each attribute with data."""
    at = 0
    while at + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == _WITH_DATA:
            words = struct.unpack_from(f"<{size // 4}I", content, at)
            yield (attribute, words[0] if words else 0), words
            at += size
