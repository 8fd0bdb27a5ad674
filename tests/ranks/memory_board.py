"""Boards of ranks that are threads of one process: what tf.coordination does, in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tfxla_cluster.errors import RankError

T = TypeVar("T")
LONG = 60.0
"""Seconds in which all else ends."""


class Shared:
    """What all ranks see. ended: rank -> what is known of its end; is_gone: nobody reaches it any more."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.changed = threading.Condition()
        self.ended: dict[int, str] = {}
        self.is_gone = False


class MemoryBoard:
    """A ranks.board.Board."""

    def __init__(self, shared: Shared, rank: int, count: int) -> None:
        self.shared, self.rank = shared, rank
        self.tasks = tuple(f"worker {number}" for number in range(count))

    def put(self, key: str, value: str) -> bool:
        self._reach()
        with self.shared.changed:
            if key in self.shared.values:
                return False
            self.shared.values[key] = value
            self.shared.changed.notify_all()
        return True

    def get(self, key: str, seconds: float) -> str | None:
        self._reach()
        end = time.monotonic() + seconds
        with self.shared.changed:
            while key not in self.shared.values:
                left = end - time.monotonic()
                if left <= 0 or self.shared.is_gone:
                    return None
                self.shared.changed.wait(left)
            return self.shared.values[key]

    def ended(self) -> Mapping[int, str]:
        self._reach()
        return self.shared.ended

    def _reach(self) -> None:
        if self.shared.is_gone:
            raise RankError("the board cannot be reached")


def boards(count: int) -> list[MemoryBoard]:
    """Of `count` ranks."""
    shared = Shared()
    return [MemoryBoard(shared, rank, count) for rank in range(count)]


def together(*calls: Callable[[], T]) -> list[T]:
    """What the calls give, each on a thread of its own; raises what one of them raises, and where one does not end."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
        return [future.result(timeout=LONG) for future in futures]
