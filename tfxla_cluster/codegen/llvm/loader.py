"""Object files into this process."""
from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm

from ...errors import InternalError
from ...target import Target
from .compile import machine


class Library:
    """Loaded machine code; addresses hold while this object lives."""

    def __init__(self, objects: Sequence[bytes], target: Target) -> None:
        empty = llvm.parse_assembly("", llvm.create_context())
        self._engine = llvm.create_mcjit_compiler(empty, machine(target))
        for data in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Where `symbol` begins; InternalError when no object defines it."""
        found = int(self._engine.get_function_address(symbol))
        if not found:
            raise InternalError(f"machine code has no symbol {symbol}")
        return found
