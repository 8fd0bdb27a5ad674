"""Object files into this process: linked into one block of memory.

LLVM's own loader maps code and constants wherever there is room; more than 2 GiB apart, which happens in a
long-lived process, its 32-bit relocations overflow and it ends the process. One block cannot.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Sequence
from typing import Any

from ...errors import InternalError
from ...target import Target
from . import elf

_ABS64, _PC32, _PLT32, _GOTPCREL, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
_GOT_KINDS = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)
_STUB = b"\xff\x25\x00\x00\x00\x00"  # jmp [rip + 0], then the address
_SLOT = 16
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS = 0x22

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Library:
    """Loaded machine code; addresses hold while this object lives. Equal objects are loaded once.

    InternalError when the code needs a function that neither the objects nor the process have.
    """

    def __init__(self, objects: Sequence[bytes], target: Target) -> None:
        parts = [elf.read(data) for data in dict.fromkeys(objects)]
        image = _Image(parts)
        self._base = _map(image)
        self._symbols = {name: self._base + offset for name, offset in image.symbols.items()}
        self._unmap = weakref.finalize(self, _libc.munmap, self._base, len(image.block))
        self._unmap.atexit = False  # TensorFlow may still run code while the process ends

    def address(self, symbol: str) -> int:
        """Where `symbol` begins; InternalError when no object defines it."""
        if symbol not in self._symbols:
            raise InternalError(f"machine code has no symbol {symbol}")
        return self._symbols[symbol]


class _Image:
    """The block: all sections, then a slot for each function or address from outside."""

    def __init__(self, parts: Sequence[elf.Object]) -> None:
        self.block = bytearray()
        self.places: list[dict[int, int]] = [self._place(part) for part in parts]
        self.symbols = {
            name: place[symbol.section] + symbol.value
            for part, place in zip(parts, self.places)
            for name, symbol in part.defined.items()
            if symbol.section is not None
        }
        self.parts = parts
        self.stubs: dict[str, int] = {}
        self.slots: dict[tuple[int, str], int] = {}
        self._reserve()

    def _place(self, part: elf.Object) -> dict[int, int]:
        places = {}
        for number, section in part.sections.items():
            self.block.extend(bytes(-len(self.block) % section.align))
            places[number] = len(self.block)
            self.block.extend(section.data)
        return places

    def _reserve(self) -> None:
        """Room for stubs and slots, so that the size of the block is known before it is mapped."""
        self.block.extend(bytes(-len(self.block) % _SLOT))
        for number, part in enumerate(self.parts):
            for item in part.relocations:
                if item.kind in _GOT_KINDS:
                    self._take(self.slots, (number, _name(item)))
                elif item.symbol.section is None and item.symbol.name not in self.symbols:
                    self._take(self.stubs, item.symbol.name)

    def _take(self, table: dict[Any, int], key: object) -> None:
        if key not in table:
            table[key] = len(self.block)
            self.block.extend(bytes(_SLOT))

    def link(self, base: int) -> bytes:
        """The content of the block when it lies at `base`."""
        for name, offset in self.stubs.items():
            self.block[offset : offset + 14] = _STUB + struct.pack("<Q", _external(name))
        for number, part in enumerate(self.parts):
            for item in part.relocations:
                self._relocate(number, item, base)
        return bytes(self.block)

    def _relocate(self, number: int, item: elf.Relocation, base: int) -> None:
        at = self.places[number][item.section] + item.offset
        target = self._target(number, item.symbol, base)
        if item.kind == _ABS64:
            struct.pack_into("<Q", self.block, at, (target + item.addend) & (2**64 - 1))
        elif item.kind == _PC64:
            struct.pack_into("<q", self.block, at, target + item.addend - base - at)
        elif item.kind in (_PC32, _PLT32):
            struct.pack_into("<i", self.block, at, target + item.addend - base - at)
        elif item.kind in _GOT_KINDS:
            slot = self.slots[number, _name(item)]
            struct.pack_into("<Q", self.block, slot, target)
            struct.pack_into("<i", self.block, at, slot + item.addend - at)
        else:
            raise InternalError(f"relocation type {item.kind} in generated code")

    def _target(self, number: int, symbol: elf.Symbol, base: int) -> int:
        if symbol.section is not None:
            return base + self.places[number][symbol.section] + symbol.value
        if symbol.name in self.symbols:
            return base + self.symbols[symbol.name]
        return base + self.stubs[symbol.name] if symbol.name in self.stubs else _external(symbol.name)


def _name(item: elf.Relocation) -> str:
    """What tells the symbols of one object apart."""
    return f"{item.symbol.name}:{item.symbol.section}:{item.symbol.value}"


def _external(name: str) -> int:
    """The address of a function of the process, InternalError when it has none of this name."""
    if not name or not hasattr(_libc, name):
        raise InternalError(f"machine code calls {name}, which this process does not have")
    return int(ctypes.cast(getattr(_libc, name), ctypes.c_void_p).value or 0)


def _map(image: _Image) -> int:
    """Map, link, make executable; the address."""
    size = max(len(image.block), 1)
    base = _libc.mmap(None, size, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise MemoryError("no memory for machine code")
    try:
        ctypes.memmove(base, image.link(base), len(image.block))
    except BaseException:
        _libc.munmap(base, size)
        raise
    _libc.mprotect(base, size, _READ | _EXECUTE)
    return int(base)
