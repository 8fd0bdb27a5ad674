"""Object files into this process."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llvmlite.binding as llvm

from ...errors import InternalError
from ...target import Target
from . import elf
from .compile import machine


class Library:
    """Loaded machine code; addresses hold while this object lives. Equal objects are loaded once.

    InternalError when the code needs a function that neither the objects nor the process have.
    """

    def __init__(self, objects: Sequence[bytes], target: Target) -> None:
        distinct = list(dict.fromkeys(objects))
        _bind_externals(distinct)
        empty = llvm.parse_assembly("", llvm.create_context())
        self._engine = llvm.create_mcjit_compiler(empty, machine(target))
        for data in distinct:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Where `symbol` begins; InternalError when no object defines it."""
        found = int(self._engine.get_function_address(symbol))
        if not found:
            raise InternalError(f"machine code has no symbol {symbol}")
        return found


def _bind_externals(objects: Sequence[bytes]) -> None:
    """Tells the linker where the C library's functions are: for an unknown name it would take address 0."""
    tables = [elf.symbols(data) for data in objects]
    defined = frozenset().union(*(d for d, _ in tables))
    needed = frozenset().union(*(n for _, n in tables)) - defined - {"_GLOBAL_OFFSET_TABLE_"}
    process = ctypes.CDLL(None)
    missing = sorted(name for name in needed if not hasattr(process, name))
    if missing:
        raise InternalError(f"machine code calls {', '.join(missing)}, which this process does not have")
    for name in needed:
        address = ctypes.cast(getattr(process, name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
