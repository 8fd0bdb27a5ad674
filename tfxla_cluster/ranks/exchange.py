"""All that a rank does on the board: meetings, modules as blobs, logs that every rank reads alike, turns."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from .. import trace
from ..errors import RankError
from . import board as boards
from .board import Board
from .meetings import PATIENCE_S, Meetings
from .turns import Turn


class Exchange:
    """Of one rank; thread safe. met: names of the topics that this rank need not meet for any more; read: how many
    entries of each log it has read, under the log's `lock`; held: by content of a module, who is known to have it."""

    def __init__(self, board: Board, patience: float = PATIENCE_S) -> None:
        self.board, self.meetings = board, Meetings(board, patience)
        self.met: set[str] = set()
        self.read: defaultdict[str, int] = defaultdict(int)
        self.held: defaultdict[str, set[str]] = defaultdict(set)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    @property
    def task(self) -> str:
        """This rank in the user's words."""
        return self.board.tasks[self.board.rank]

    def lock(self, log: str) -> threading.Lock:
        """Held while the log is read."""
        with self._lock:
            return self._locks[log]

    def share(self, data: bytes) -> str:
        """Write a blob; its name for `fetch`. OverflowError where it is too large."""
        value, name = boards.pack(data), boards.digest(data)
        self.board.put(f"blob/{name}", value)
        return name

    def fetch(self, name: str, seconds: float) -> bytes:
        """A blob that some rank shared; RankError where it does not arrive whole."""
        data = boards.unpack(boards.wait(self.board, f"blob/{name}", seconds, "a module of another worker"))
        if boards.digest(data) != name:
            raise RankError("a module of another worker did not arrive whole")
        return data

    def entry(self, log: str, number: int, proposal: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Entry `number` of a log: the proposal of the rank that was first to make one."""
        key, text = f"log/{log}/{number}", json.dumps(proposal)
        if not self.board.put(key, text):
            text = boards.wait(self.board, key, seconds, "what another worker compiles")
        found: Mapping[str, Any] = json.loads(text)
        return found

    def turn(self, key: str) -> Turn:
        """Who compiles the executable of this key."""
        return Turn(self.board, self.meetings, key)

    def note(self, event: str, function: str, family: str, **fields: Any) -> None:
        """A record `ranks` of this rank."""
        trace.record("ranks", event=event, function=function, family=family, task=self.task, **fields)
