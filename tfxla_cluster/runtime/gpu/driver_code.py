"""Calls of the driver in machine code, and what an execution's functions share."""

from __future__ import annotations

from ..launcher.record_layout import STATUS_NO_MEMORY, table
from ..launcher.words import Function, Value, Word
from .record_layout import CUDA_OUT_OF_MEMORY, DRIVER_CALLS, LAUNCH, STATUS_CUDA

LOW_HALF = (1 << 32) - 1  # of a word: the number that a C function gives back
# What an execution has besides its front: the stream that steps go to, the arena, a slot of page-locked memory, two
# events of a timed one and where its times go, the global memory that its kernels share as scratch.
STATE = table("stream arena host start stop times scratch scratch_bytes")


def call(f: Function, driver: Word, name: str, *args: Value) -> Word:
    """The CUresult of a function of the driver."""
    return f.call(f.load(driver, DRIVER_CALLS[name]), *args) & LOW_HALF


def status_of(f: Function, code: Word) -> Word:
    """The status of an execution that ends with this CUresult."""
    failed = f.select(code.compare("==", CUDA_OUT_OF_MEMORY), STATUS_NO_MEMORY, f.word(STATUS_CUDA) - code)
    return f.select(code.compare("==", 0), 0, failed)


def check(f: Function, code: Word) -> None:
    """Return the status of a CUresult that is not 0."""
    with f.if_(code.compare("!=", 0)):
        f.return_(status_of(f, code))


def allocate(f: Function, launch: Word, need: Value) -> Word:
    """Device memory of the caller; returns STATUS_NO_MEMORY where it has none."""
    found = f.call(f.load(launch, LAUNCH["allocate"]), f.load(launch, LAUNCH["owner"]), need)
    with f.if_(found.compare("==", 0)):
        f.return_(STATUS_NO_MEMORY)
    return found


def take(f: Function, slots: Word, count: int) -> Word:
    """Two words: what one of `count` slots held (0 where all are taken) and the address it goes back to."""
    taken = f.stack(2)
    with f.count(0, count) as i:
        at = slots + i * 8
        f.store(taken, 0, f.exchange(at, 0))
        f.store(taken, 1, at)
        f.break_if(f.load(taken).compare("!=", 0))
    return taken


def give_back(f: Function, taken: Word) -> None:
    with f.if_(f.load(taken).compare("!=", 0)):
        f.exchange(f.load(taken, 1), f.load(taken))
