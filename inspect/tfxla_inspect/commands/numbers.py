"""Numbers on command lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(low: int) -> Callable[[str], int]:
    """An argparse type: an integer of that size."""

    def convert(text: str) -> int:
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{text} is less than {low}")
        return value

    convert.__name__ = "integer"  # argparse says "invalid integer value"
    return convert


def megabytes(text: str) -> float:
    """An argparse type: more than 0, at most 100000."""
    value = float(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0 and at most 100000")
    return value
