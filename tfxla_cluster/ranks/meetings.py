"""Ranks meet where a function is compiled for the first time: each says what it would compile, and hears the others.

A rank says it on a list of its own (`at/RANK/N`), which the others read in order, so that whoever waits for a rank
knows where that one is instead. The wait ends with a reason, never only with silence:

    all came
    a rank has ended, or did not come in time: `is_failed`; it is waited for a tenth as long until it is heard again
    two ranks wait for each other at different functions (operations of a graph that run at the same time have no order;
    a function may be called on one rank alone), and neither compiles: the lower one goes on without the other
    a rank has another program for the same function, and went on with that
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .board import Board

PATIENCE_S = 2.0  # that nothing has to happen before two ranks count as waiting for each other
_PASS_S = 0.25  # in which each rank that is awaited is listened to once
_LATE_PART = 0.1
_LEAST_S = 0.05  # of one, above the time in which a value that is there arrives


@dataclass(frozen=True)
class Topic:
    """What ranks meet for. name: the same on all of them; function: the same for all programs of one function; words:
    for messages."""

    name: str
    function: str
    words: str


@dataclass(frozen=True)
class Met:
    """What a meeting gave.

    offers: what the ranks that came would compile, by rank. missing: why each other one did not come. is_failed: one of
    them has ended or is late, and is not merely elsewhere. seconds: how long this rank waited.
    """

    offers: Mapping[int, Any]
    missing: Mapping[int, str]
    is_failed: bool
    seconds: float


@dataclass(frozen=True)
class _Absence:
    reason: str
    is_failure: bool


class _Peer:
    """What was heard of another rank. topics, offers: by name of the topic; left: those that it did not wait for to the
    end; busy: how much it compiles; count: items of its list that were read; is_late: it was waited for in vain since
    then."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.offers: dict[str, Any] = {}
        self.left: set[str] = set()
        self.busy = self.count = 0
        self.is_late = False


class Meetings:
    """Of one rank; thread safe. An offer is whatever JSON holds."""

    def __init__(self, board: Board, patience: float = PATIENCE_S) -> None:
        self._board, self._patience = board, patience
        self._peers = {rank: _Peer() for rank in range(len(board.tasks)) if rank != board.rank}
        self._lock = threading.Lock()
        self._said = 0
        self._offered: set[str] = set()
        self._busy = 0
        self._changed = time.monotonic()

    def compiles(self, change: int) -> None:
        """Something is compiled here from now on (1), or no more (-1): this rank will go on by itself, whoever waits
        for whom."""
        self._write({"busy": change})

    def meet(self, topic: Topic, offer: Any, seconds: float) -> Met:
        """Wait for all other ranks at the topic, at most so many seconds."""
        start, absent, name = time.monotonic(), dict[int, _Absence](), topic.name
        self._say(topic, offer)
        while awaited := [r for r, peer in self._peers.items() if name not in peer.offers and r not in absent]:
            for rank in awaited:
                self._listen(rank, name, max(_PASS_S / len(awaited), _LEAST_S))
            absent |= self._absent(topic, awaited, start, seconds)
        if absent:
            self._write({"left": name})
        offers = {rank: peer.offers[name] for rank, peer in self._peers.items() if name in peer.offers}
        return Met(
            dict(sorted({**offers, self._board.rank: offer}.items())),
            {rank: absence.reason for rank, absence in absent.items()},
            any(absence.is_failure for absence in absent.values()),
            time.monotonic() - start,
        )

    def _say(self, topic: Topic, offer: Any) -> None:
        with self._lock:
            first = topic.name not in self._offered
            self._offered.add(topic.name)
        if first:
            self._write({"topic": asdict(topic), "offer": offer})

    def _write(self, item: Mapping[str, Any]) -> None:
        with self._lock:
            number, self._said = self._said, self._said + 1
            self._busy += item.get("busy", 0)
            self._changed = time.monotonic()
        self._board.put(f"at/{self._board.rank}/{number}", json.dumps(item))

    def _listen(self, rank: int, name: str, seconds: float) -> None:
        """Read what a rank has said, up to a topic of this name; wait so long where there is nothing new."""
        peer = self._peers[rank]
        while name not in peer.offers:
            number = peer.count
            text = self._board.get(f"at/{rank}/{number}", seconds)
            if text is None:
                return
            with self._lock:
                if peer.count == number:  # another thread may have read the same
                    self._hear(peer, json.loads(text))
            seconds = _LEAST_S

    def _hear(self, peer: _Peer, item: Mapping[str, Any]) -> None:
        peer.count, peer.is_late, self._changed = peer.count + 1, False, time.monotonic()
        peer.busy += item.get("busy", 0)
        if "left" in item:
            peer.left.add(item["left"])
        if "topic" in item:
            topic = Topic(**item["topic"])
            peer.topics[topic.name], peer.offers[topic.name] = topic, item["offer"]

    def _absent(self, topic: Topic, awaited: list[int], start: float, seconds: float) -> dict[int, _Absence]:
        """Those of the ranks that are waited for no longer."""
        found, ended, now = dict[int, _Absence](), self._board.ended(), time.monotonic()
        for rank in awaited:
            peer = self._peers[rank]
            if topic.name in peer.offers:
                continue
            if rank in ended:
                found[rank] = _Absence(f"{self._board.tasks[rank]} has ended ({ended[rank]})", True)
            elif now - start >= (seconds * _LATE_PART if peer.is_late else seconds):
                peer.is_late = True
                said = f"{self._board.tasks[rank]} did not come in {now - start:.3g} s: {_last(peer)}"
                found[rank] = _Absence(said, True)
            elif where := self._elsewhere(rank, topic, now):
                found[rank] = _Absence(f"{self._board.tasks[rank]} {where}", False)
        return found

    def _elsewhere(self, rank: int, topic: Topic, now: float) -> str:
        """What `rank` does, for which this rank waits at a topic: once nothing happens any more, and where it is known
        to do something else."""
        peer = self._peers[rank]
        with self._lock:
            if self._busy or peer.busy or now - self._changed < self._patience:
                return ""
            others = [other for name, other in peer.topics.items() if name not in self._offered]
            if any(other.function == topic.function for other in others):
                return "has another program for it"
            waits = [other for other in others if other.name not in peer.left]
            if not waits or (rank < self._board.rank and now - self._changed < 2 * self._patience):
                return ""
            return f"waits for this one at {waits[-1].words}"


def _last(peer: _Peer) -> str:
    """Where a rank was heard of last."""
    if not peer.topics:
        return "it has compiled nothing with --tfxla_compiler_collectives"
    return f"what it compiled last is {list(peer.topics.values())[-1].words}"
