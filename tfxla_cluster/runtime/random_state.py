"""The state that compiled stateful random ops draw from: a key and a counter, one a process.

Each execution of `rng-get-and-update-state` reserves counters of its own, by an atomic addition, so no two
draws repeat. The key comes from the operating system until `seed` gives one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os

ROUTINE = "tfxla_random_state"
RESULT_BYTES = 16  # key and counter
_words: list[ctypes.Array[ctypes.c_uint64]] = [(ctypes.c_uint64 * 2)()]  # machine code's, once there is some
_seed: list[int | None] = [None]


def attach(address: int) -> None:
    """The two words of machine code's state; they take the seed of the moment."""
    _words[:] = [(ctypes.c_uint64 * 2).from_address(address)]
    _restart()


def draw(count: int) -> tuple[int, int]:
    """Key and counter, which moves on by `count`: what the routine does, for launchers in Python (no atomic step:
    machine code that draws at the same moment may get the same numbers)."""
    words = _words[0]
    key, counter = words
    words[1] = (counter + count) % 2**64
    return key, counter


def seed(number: int | None) -> None:
    """Start over: equal numbers give equal draws from here on, None gives draws that nobody can foresee."""
    _seed[0] = number
    _restart()


def _restart() -> None:
    number = _seed[0]
    source = os.urandom(16) if number is None else hashlib.sha256(str(number).encode()).digest()
    for words in _words:
        words[0] = int.from_bytes(source[:8], "little")
        words[1] = 0


def _after_fork() -> None:
    """A child draws other numbers than its parent, unless they were seeded."""
    if _seed[0] is None:
        _restart()


_restart()
os.register_at_fork(after_in_child=_after_fork)
