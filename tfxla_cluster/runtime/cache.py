"""Executables in memory: a bounded table, least recently used out first, keyed by named guards."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from .locks import ForkSafeLock

T = TypeVar("T")
Guard = tuple[str, Hashable]
Key = tuple[Guard, ...]


def key(guards: Iterable[Guard]) -> Key:
    """A cache key: (name, value) pairs, everything that can change the result."""
    return tuple(guards)


class Cache(Generic[T]):
    """Thread safe. `on_evict(key, value)` runs outside the lock, in the thread that pushed it out."""

    def __init__(self, capacity: int, on_evict: Callable[[Key, T], None] | None = None) -> None:
        self._capacity = max(1, capacity)
        self._on_evict = on_evict
        self._entries: OrderedDict[Key, T] = OrderedDict()
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

    def put(self, wanted: Key, value: T) -> T:
        """Add an entry unless another thread was first; the entry that is in the cache."""
        evicted: list[tuple[Key, T]] = []
        with self._lock:
            if wanted in self._entries:
                self._entries.move_to_end(wanted)
                return self._entries[wanted]
            self._entries[wanted] = value
            while len(self._entries) > self._capacity:
                evicted.append(self._entries.popitem(last=False))
        self._tell(evicted)
        return value

    def clear(self) -> int:
        """Drop all entries; how many there were."""
        with self._lock:
            evicted = list(self._entries.items())
            self._entries.clear()
        self._tell(evicted)
        return len(evicted)

    def explain_miss(self, wanted: Key) -> list[str]:
        """Which guards failed against the entry that agrees in most of them, one sentence each."""
        with self._lock:
            present = list(self._entries)
        if not present:
            return ["nothing is in the cache yet"]
        closest = max(reversed(present), key=lambda other: len(set(other) & set(wanted)))
        return explain_difference(closest, wanted)

    def _tell(self, evicted: list[tuple[Key, T]]) -> None:
        if self._on_evict is not None:
            for old, value in evicted:
                self._on_evict(old, value)


def explain_difference(old: Key, new: Key) -> list[str]:
    """`name: was X, now Y` for each guard that differs."""
    before, after = dict(old), dict(new)
    names = [*after, *(n for n in before if n not in after)]
    return [f"{n}: was {before.get(n, 'absent')}, now {after.get(n, 'absent')}" for n in names
            if n not in before or n not in after or before[n] != after[n]]
