"""What executables of all machines have: a record, which closes with them, and the times of their steps."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

from ...errors import InternalError, TfxlaError
from .. import check_reports
from ..plan import LaunchPlan
from . import records
from .record_layout import STATUS_CLOSED, STATUS_NO_MEMORY
from .step_times import StepTimes

B = TypeVar("B", bound=records.Body)


class Opened(Generic[B]):
    """`plan`, opened for the machine code at `entry`. `record` is what that takes; it stays a valid address for ever.

    Dropping the object, or `close()`, retires the record: calls that began finish, later ones return STATUS_CLOSED,
    and the memory of `body` goes when the last has finished.
    """

    def __init__(self, plan: LaunchPlan, body: B, entry: int, retire: records.Retire) -> None:
        self.plan, self.entry = plan, entry
        self.record = records.new(body)
        self._body = weakref.ref(body)
        self._finalizer = weakref.finalize(self, records.retire, self.record, retire)
        self._finalizer.atexit = False

    def close(self) -> None:
        self._finalizer()

    def times(self) -> StepTimes | None:
        """Of its steps; None where they are not timed."""
        body = self._body()
        return None if body is None else body.times


def status_error(status: int, name: str) -> Exception:
    """The exception for a status that is not 0, of an executable called `name`."""
    if status == STATUS_CLOSED:
        return InternalError(f"the executable of {name} was retired before this call")
    if status == STATUS_NO_MEMORY:
        return MemoryError(f"no memory for the temporaries of {name}")
    bad = check_reports.error(status)
    if bad is not None:
        return bad
    return TfxlaError(f"a kernel of {name} stopped with status {status}")
