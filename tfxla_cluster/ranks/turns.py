"""Of ranks that need one executable, one compiles it and the others get its bytes.

Whoever writes `turn/KEY` first compiles, and writes `code/KEY` when it is done: nothing in it where that failed. Who
waits for bytes in vain compiles for itself, with the reason.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from types import TracebackType

from ..errors import RankError
from .board import Board, pack, unpack, wait
from .meetings import Meetings

_SLICE_S = 1.0  # in which the rank that compiles is looked after once


class Turn:
    """Of one executable, as a `with` block around making it. by: the rank that compiles; is_ours: this thread does."""

    def __init__(self, board: Board, meetings: Meetings, key: str) -> None:
        self._board, self._key = board, key
        mine = f"{board.rank} {uuid.uuid4().hex}"
        # A put may have reached the board though its answer did not reach this rank.
        taken = mine if board.put(f"turn/{key}", mine) else wait(board, f"turn/{key}", _SLICE_S, "who compiles")
        self.is_ours, self.by = taken == mine, int(taken.partition(" ")[0])
        self._given = False
        self._meetings = meetings

    def __enter__(self) -> Turn:
        with suppress(RankError):
            self._meetings.compiles(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(RankError):  # nobody can be told, and what was made here is good
            if self.is_ours and not self._given:
                self._board.put(f"code/{self._key}", "")
            self._meetings.compiles(-1)

    def give(self, data: bytes) -> None:
        """Hand the executable over; OverflowError where it is too large."""
        value = pack(data)
        self._given = True
        self._board.put(f"code/{self._key}", value)

    def take(self, seconds: float) -> tuple[bytes | None, str]:
        """What the other rank made, within so many seconds; else None and why there is nothing."""
        end, task = time.monotonic() + seconds, self._board.tasks[self.by]
        while True:
            value = self._board.get(f"code/{self._key}", max(min(_SLICE_S, end - time.monotonic()), 0.001))
            if value:
                return unpack(value), ""
            if value is not None:
                return None, f"{task} could not compile it, or not hand it over"
            if self.by in (ended := self._board.ended()):
                return None, f"{task} has ended while it compiled it ({ended[self.by]})"
            if time.monotonic() >= end:
                return None, f"{task} did not compile it within {seconds:g} s"
