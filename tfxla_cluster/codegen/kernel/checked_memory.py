"""Buffers that notice what a kernel must not do: leave its bounds, or share an element between tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InternalError, UsageError
from ...ir.dtype import DType
from .ir import Buffer

Array = np.ndarray[Any, Any]
_NOBODY, _SEVERAL, _UPDATES = -1, -2, -3
_POISON_BYTE = 0x5A


def poison(dtype: DType) -> Any:
    """A value that shows where memory is read before it is written: NaN, or an integer far from any index."""
    if dtype.kind in ("float", "complex"):
        return np.asarray(np.nan).astype(dtype.numpy)
    return np.bool_(True) if dtype.kind == "pred" else np.asarray(_POISON_BYTE).astype(dtype.numpy)


class CheckedMemory:
    """The elements of one buffer, on the caller's array.

    Tasks run in any order and side by side, so an element that one writes no other may read or write, and one that is
    updated nothing else may touch. A
    kernel only reads its inputs, and no other task sees its scratch: neither is watched.
    """

    def __init__(self, buffer: Buffer, array: Array) -> None:
        if not array.flags.c_contiguous:
            raise UsageError("a kernel's buffers are dense arrays")
        size = buffer.dtype.itemsize
        raw = array.reshape(-1).view(np.uint8)
        self.name = f"{buffer.role}{buffer.index}"
        self.dtype = buffer.dtype
        self.data: Array = raw[: len(raw) // size * size].view(buffer.dtype.numpy)
        watched = len(self.data) if buffer.role == "out" else 0
        self._writer = np.full(watched, _NOBODY, np.int64)
        self._reader = np.full(watched, _NOBODY, np.int64)
        self._updated = np.zeros(watched, bool)

    def read(self, offsets: Array, task: int) -> Array:
        """The elements at `offsets`; InternalError where there is none or another task writes it."""
        self._check_bounds(offsets)
        if len(self._writer):
            self._check_others(offsets, self._writer, task, "written")
            seen = self._reader[offsets]
            self._reader[offsets] = np.where((seen == _NOBODY) | (seen == task), task, _SEVERAL)
        return np.asarray(self.data[offsets])

    def write(self, offsets: Array, values: Array, task: int) -> None:
        """Set the elements at `offsets`, which are distinct; InternalError as `read`, and where two are one."""
        self._check_bounds(offsets)
        if offsets.size > 1 and len(np.unique(offsets)) != offsets.size:
            raise InternalError(f"two lanes store to one element of {self.name}")
        if len(self._writer):
            self._check_others(offsets, self._writer, task, "written")
            self._check_others(offsets, self._reader, task, "read")
            self._writer[offsets] = task
        self.data[offsets] = values

    def update(self, offsets: Array, values: Array, function: np.ufunc, task: int) -> None:
        """`function` of the elements at `offsets`, of which some may be one, and values; InternalError as `write`."""
        self._check_bounds(offsets)
        if len(self._writer):
            self._check_others(offsets, self._writer, _UPDATES, "written")
            self._check_others(offsets, self._reader, _UPDATES, "read")
            self._updated[offsets] = True
        function.at(self.data, offsets, values)

    def _check_bounds(self, offsets: Array) -> None:
        outside = (offsets < 0) | (offsets >= len(self.data))
        if outside.any():
            first = int(offsets[outside].reshape(-1)[0])
            raise InternalError(f"offset {first} is outside {self.name}, which has {len(self.data)} elements")

    def _check_others(self, offsets: Array, owner: Array, task: int, what: str) -> None:
        found = owner[offsets]
        foreign = (found != _NOBODY) & (found != task)
        if task != _UPDATES:
            foreign |= self._updated[offsets]
        if foreign.any():
            first = int(offsets[foreign].reshape(-1)[0])
            raise InternalError(f"task {task} accesses element {first} of {self.name}, {what} by another task")
