"""Calls of C functions as data: which words a function gets, made anew for each call of a step.

The numbers of a library step are `calls`, the number of words of a call's frame, and four for each of these: its kind
and a, b, c. A launcher puts the addresses of the function and of its data in front of them, and the number T of tasks
behind. Task t makes the calls from t * calls // T on, up to the next task's first. The first ARGUMENTS words of the
frame are what the function gets in registers and on the stack: those beyond its own are not looked at, by the
convention of C on x86-64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from ...ir import dim as dims_
from ...ir.dim import Dim

# What a word of the frame is, by its kind: see the classes below; 'address' is of the a-th word of the frame itself.
KINDS = {"number": 0, "address": 1, "input": 2, "output": 3, "work": 4, "count": 5, "data": 6}
FRAME = 48  # words at most
ARGUMENTS = 18  # of a function at most
HEADER = 2  # words in front: the address of the function, that of its data
MAX_TASKS = 16
LAPACK, POCKETFFT = "lapack.", "pocketfft."  # what the names of routines begin with


@dataclass(frozen=True, slots=True)
class Number:
    """The number itself."""

    value: Dim


@dataclass(frozen=True, slots=True)
class Input:
    """The address in the step's input `index`, `stride` bytes on for each call, `offset` bytes on in all."""

    index: int
    stride: Dim = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """The address in the step's output `index`, `stride` bytes on for each call, `offset` bytes on in all."""

    index: int
    stride: Dim = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """The address in the step's output `index`, `stride` bytes on for each task."""

    index: int
    stride: Dim


@dataclass(frozen=True, slots=True)
class Count:
    """How many of `total` are left for the call, at most `each`."""

    each: Dim
    total: Dim


@dataclass(frozen=True, slots=True)
class Data:
    """The address of the data that belong to the function."""


Word = Union[Number, Input, Output, Work, Count, Data]


@dataclass(frozen=True, slots=True)
class At:
    """The address of these words, which follow one another."""

    words: tuple[Argument, ...]


Argument = Union[Word, At]


def at(*words: Argument) -> At:
    """The address of `words`."""
    return At(words)


def integer(value: Dim) -> At:
    """The address of a number of 32 or 64 bits (the words are little-endian)."""
    return at(Number(value))


def letter(code: str) -> At:
    """The address of a character."""
    return at(Number(ord(code)))


def real(value: float, bits: int) -> At:
    """The address of a float of 32 or 64 bits."""
    kind, word = (np.float32, np.int32) if bits == 32 else (np.float64, np.int64)
    return at(Number(int(np.array(value, kind).view(word))))


def encode(arguments: Sequence[Argument], calls: Dim) -> tuple[Dim, ...]:
    """The numbers of a step that makes so many calls. What an argument points to comes behind all arguments."""
    frame: list[Argument] = list(arguments)
    rows: list[tuple[int, Dim, Dim, int]] = []
    for argument in frame:
        if isinstance(argument, At):
            rows.append((KINDS["address"], len(frame), 0, 0))
            frame += argument.words
        else:
            rows.append(_row(argument))
    assert len(arguments) <= ARGUMENTS, len(arguments)
    assert len(rows) <= FRAME, len(rows)
    return (calls, len(rows), *(number for row in rows for number in row))


def _row(word: Word) -> tuple[int, Dim, Dim, int]:
    kind = KINDS[type(word).__name__.lower()]
    if isinstance(word, Number):
        return (kind, word.value, 0, 0)
    if isinstance(word, Count):
        return (kind, word.each, word.total, 0)
    if isinstance(word, Data):
        return (kind, 0, 0, 0)
    return (kind, word.index, word.stride, 0 if isinstance(word, Work) else word.offset)


def tasks_of(calls: Dim) -> Dim:
    """How many tasks make so many calls: their number tells how much work memory there is."""
    return dims_.make("min", calls, MAX_TASKS)
