"""Bytes that machine code reads, in the memory of some device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes at `address`, for as long as `memory` lives."""

    address: int
    memory: object
