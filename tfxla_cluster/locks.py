"""Locks that a forked child finds free, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
import weakref

_all: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A `threading.Lock` that is new after a fork: the thread that held it does not exist in the child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _all.add(self)

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> ForkSafeLock:
        self._lock.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
