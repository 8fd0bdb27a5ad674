"""Records: what machine code knows an executable by. One is never freed, so a late caller finds it closed."""

from __future__ import annotations

import atexit
import ctypes
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from ...locks import ForkSafeLock
from ..plan import LaunchPlan
from .encode import Encoded
from .record_layout import RECORD_WORDS
from .step_times import StepTimes

_RECORDS = 64  # in a slab


class Body(Protocol):
    """What a record points at: kept alive from here, by `_bodies`, until no execution can read it."""

    times: StepTimes | None  # where steps are timed

    def words(self) -> Mapping[int, int]:
        """The record's words that are not 0: index -> value."""


Retire = Callable[[int], int]  # the machine code of `step_walk.emit_retire`

_lock = ForkSafeLock()
_bodies: dict[int, Body] = {}
_retired: deque[tuple[int, Retire]] = deque()
_slabs: list[np.ndarray] = []
_free: list[int] = []


def new(body: Body) -> int:
    """The address of a filled record. Records are never freed nor used again: a caller that still
    holds the address of a retired one must find it closed."""
    with _lock:
        if not _free:
            slab = np.zeros((_RECORDS, RECORD_WORDS), np.int64)
            _slabs.append(slab)
            _free.extend(slab.ctypes.data + n * slab.strides[0] for n in range(_RECORDS))
        record = _free.pop()
        _bodies[record] = body
    words = (ctypes.c_int64 * RECORD_WORDS).from_address(record)
    for index, value in body.words().items():
        words[index] = value
    return record


def retire(record: int, close: Retire) -> None:
    """Close the record by the machine code `close`; drop the bodies of closed records on which nothing runs any more.

    Runs inside garbage collection too, perhaps of a thread that holds the lock: then the next call
    (or the next new record) sweeps.
    """
    close(record)
    _retired.append((record, close))
    dropped: list[Body] = []
    if _lock.acquire(blocking=False):
        try:
            for _ in range(len(_retired)):
                closed, running = _retired.popleft()
                if running(closed):
                    _retired.append((closed, running))
                else:
                    dropped.append(_bodies.pop(closed))
        finally:
            _lock.release()
    del dropped  # outside the lock: freeing code takes other locks


@atexit.register
def _keep_all() -> None:
    """Threads of others may still execute while the interpreter shuts down: leave memory to the system."""
    for kept in (_bodies, _slabs):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def program_fields(encoded: Encoded, plan: LaunchPlan) -> dict[str, int]:
    """The fields of RECORD that say what the steps are, the same on every machine."""
    return {
        "program": encoded.program.ctypes.data,
        "values": encoded.values.ctypes.data,
        "value_count": len(encoded.values),
        "size_count": len(plan.sizes),
        "expressions": encoded.expressions.ctypes.data,
        "expression_count": encoded.initial_expressions,
        "arguments_word": len(encoded.values),
        "arena_value": encoded.arena_value,
        "writes_sizes": int(any(s.is_produced for s in plan.sizes)),
    }
