"""Executables in memory: a bounded table, least recently used out first, keyed by named guards."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ..ir.guard import Key as Key
from ..ir.guard import differences
from ..locks import ForkSafeLock

T = TypeVar("T")


class Cache(Generic[T]):
    """Thread safe. `on_evict(key, value)` runs outside the lock, in the thread that pushed it out.

    capacity: the most entries, read at each `put`. usage(): id of a value -> how often it was used elsewhere
    so far: a value used since it was last up for eviction stays.
    """

    def __init__(
        self,
        capacity: int | Callable[[], int],
        on_evict: Callable[[Key, T], None] | None = None,
        usage: Callable[[], Mapping[int, int]] | None = None,
    ) -> None:
        self._capacity = capacity if callable(capacity) else lambda: capacity
        self._on_evict, self._usage = on_evict, usage
        self._entries: OrderedDict[Key, T] = OrderedDict()
        self._seen: dict[Key, int] = {}
        self._lock = ForkSafeLock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, wanted: Key) -> T | None:
        """The entry, now the most recently used; None on a miss."""
        with self._lock:
            found = self._entries.get(wanted)
            if found is not None:
                self._entries.move_to_end(wanted)
            return found

    def values(self) -> list[T]:
        """All entries, the one used longest ago first."""
        with self._lock:
            return list(self._entries.values())

    def put(self, wanted: Key, value: T) -> T:
        """Add an entry unless another thread was first; the entry that is in the cache."""
        evicted: list[tuple[Key, T]] = []
        with self._lock:
            if wanted in self._entries:
                self._entries.move_to_end(wanted)
                return self._entries[wanted]
            self._entries[wanted] = value
            excess = len(self._entries) - max(1, self._capacity())
            if excess > 0:
                evicted = self._evict(excess, wanted)
        self._tell(evicted)
        return value

    def _evict(self, count: int, newest: Key) -> list[tuple[Key, T]]:
        """Take out the `count` entries that were not used for longest; never the newest."""
        usage = self._usage() if self._usage is not None else {}
        for wanted in list(self._entries):
            used = usage.get(id(self._entries[wanted]), 0)
            if used > self._seen.get(wanted, 0):
                self._seen[wanted] = used
                self._entries.move_to_end(wanted)
            else:
                break
        self._entries.move_to_end(newest)
        evicted = [self._entries.popitem(last=False) for _ in range(count)]
        for wanted, _ in evicted:
            self._seen.pop(wanted, None)
        return evicted

    def clear(self) -> int:
        """Drop all entries; how many there were."""
        with self._lock:
            evicted = list(self._entries.items())
            self._entries.clear()
            self._seen.clear()
        self._tell(evicted)
        return len(evicted)

    def explain_miss(self, wanted: Key) -> list[str]:
        """Which guards failed against the entry that agrees in most of them, one sentence each."""
        with self._lock:
            present = list(self._entries)
        if not present:
            return ["nothing is in the cache yet"]
        closest = max(reversed(present), key=lambda other: len(set(other) & set(wanted)))
        return differences(closest, wanted)

    def _tell(self, evicted: list[tuple[Key, T]]) -> None:
        if self._on_evict is not None:
            for old, value in evicted:
                self._on_evict(old, value)
