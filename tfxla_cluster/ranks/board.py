"""Where ranks write for each other: values under keys, each written once and kept as long as the program runs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from typing import Protocol

from ..errors import RankError

MOST_BYTES = 1 << 28
"""Of a blob as it is written: the board is the memory of one rank."""


class Board(Protocol):
    """One rank's view of it; called on any thread. RankError where it cannot be reached."""

    @property
    def rank(self) -> int:
        """This rank."""
        ...

    @property
    def tasks(self) -> tuple[str, ...]:
        """Each rank in the user's words ('worker 0'), in order."""
        ...

    def put(self, key: str, value: str) -> bool:
        """Write a value; False, and nothing is written, where the key has one."""
        ...

    def get(self, key: str, seconds: float) -> str | None:
        """The value, as soon as it is there; None where it is not within so many seconds."""
        ...

    def ended(self) -> Mapping[int, str]:
        """The ranks that are known to have ended, and what is known of each."""
        ...


def pack(data: bytes) -> str:
    """A blob as a value. OverflowError where it is larger than a board takes."""
    text = base64.b64encode(zlib.compress(data, 1)).decode()
    if len(text) > MOST_BYTES:
        raise OverflowError(f"{len(text)} bytes, more than the {MOST_BYTES} that workers hand over")
    return text


def unpack(value: str) -> bytes:
    """The blob in a value; RankError for what is none."""
    try:
        return zlib.decompress(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError, zlib.error) as error:
        raise RankError(f"what another worker wrote cannot be read: {error}") from None


def digest(data: bytes) -> str:
    """Names a blob by what is in it."""
    return hashlib.sha256(data).hexdigest()


def wait(board: Board, key: str, seconds: float, what: str) -> str:
    """The value of a key that is about to be written; RankError where it is not within so many seconds."""
    found = board.get(key, seconds)
    if found is None:
        raise RankError(f"{what} did not come within {seconds:g} s")
    return found
