"""What checks of data report: a ring of slots that machine code writes and Python reads when an execution has failed.

A routine that finds bad data fills a slot and has the execution end with STATUS_DATA + its number. Sixty-four
executions may fail at one moment before one's words could be another's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.kernel.library_check import (
    COLUMNS,
    DIMS_AT,
    FURTHER,
    HEAD_AT,
    HEAD_BYTES,
    LIMITS,
    LIMITS_AT,
    PROBES,
    PROBES_AT,
    RANK,
    ROW,
    ROW_AT,
    ROWS,
    SIZES,
    SIZES_AT,
    WORDS,
)
from ..data_checks import SHOWN, Found, from_json, words
from ..errors import DataError
from ..ir.dtype import DTYPES

STATUS_DATA = 1 << 20
SLOTS = 64
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_address = [0]


def attach(address: int) -> None:
    """Where machine code's slots are."""
    _address[:] = [address]


def error(status: int) -> DataError | None:
    """The exception for an execution that ended with `status`; None where no check ended it."""
    number = status - STATUS_DATA
    if not 0 <= number < SLOTS or not _address[0]:
        return None
    slot = (ctypes.c_int64 * WORDS).from_address(_address[0] + 8 * WORDS * number)
    return of_slot(np.array(slot, np.int64), ctypes.string_at(slot[0]))


def of_slot(slot: np.ndarray, text: bytes) -> DataError:
    """The exception for what a slot holds."""
    name, _, config = text.rstrip(b"\0").decode().partition(" ")
    check, dtype = from_json(config), DTYPES[name].numpy
    sizes = [int(n) for n in slot[SIZES_AT : SIZES_AT + SIZES]]
    rows, columns, limits = (sizes[k] for k in (ROWS, COLUMNS, LIMITS))
    shown = np.frombuffer(slot[HEAD_AT:].tobytes(), dtype)[: min(rows * columns, SHOWN, HEAD_BYTES // dtype.itemsize)]
    found = Found(
        int(slot[ROW]),
        np.frombuffer(slot[ROW_AT:].tobytes(), dtype)[:columns].tolist(),
        np.frombuffer(slot[LIMITS_AT:].tobytes(), np.int32)[:limits].tolist(),
        sizes[DIMS_AT:][: sizes[RANK]],
        shown.tolist(),
        [bool(n >= 0) for n in slot[FURTHER:SIZES_AT]],
    )
    return DataError(words(check, found), node=check.node)


def find(inputs: Sequence[Bytes], sizes: Sequence[int]) -> DataError | None:
    """What the routine does, for launchers in Python: the exception for what it finds, None where all is right."""
    width, rows, columns, limits, most = sizes[:RANK]
    kind = np.dtype(f"u{1 << width}")
    values = inputs[0][: rows * columns << width].view(kind).reshape(rows, columns)
    given = inputs[1][: 4 * limits].view(np.int32).astype(np.int64) if limits else None
    probes = np.array(sizes[PROBES_AT:DIMS_AT], np.int64).reshape(PROBES, 3)
    bad = [_bad(values, *(n.astype(kind) for n in probe)) if probe[0] else np.zeros(rows, bool) for probe in probes]
    if given is not None:
        ends = (np.minimum(given, most)[:columns] - probes[0, 1]).astype(kind)
        bad[0] = _bad(values, probes[0, 0].astype(kind), probes[0, 1].astype(kind), ends)
    if not bad[0].any():
        return None
    slot = np.zeros(WORDS, np.int64)
    row = slot[ROW] = int(bad[0].argmax())
    slot[FURTHER:SIZES_AT] = [int(found.any()) - 1 for found in bad[1:]]
    slot[SIZES_AT:ROW_AT] = sizes
    given = np.zeros(0, np.int32) if given is None else given.astype(np.int32)
    for at, array in ((ROW_AT, values[row]), (LIMITS_AT, given), (HEAD_AT, values.reshape(-1)[: HEAD_BYTES >> width])):
        slot[at:].view(np.uint8)[: array.nbytes] = array.view(np.uint8)
    return of_slot(slot, inputs[-1].tobytes())


def _bad(values: np.ndarray, mask: Any, base: Any, limit: Any) -> np.ndarray:
    """The rows with a bad value."""
    with np.errstate(over="ignore"):
        bad: np.ndarray = (((values & mask) - base) >= limit).any(axis=1)
    return bad
