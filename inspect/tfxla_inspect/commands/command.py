"""What a command of `tfxla-inspect` is, and what several of them share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """`configure` gives a parser its arguments, `run` does the work and returns the exit code; `exit_codes`: what each
    code means, for --help. TfxlaErrors of `run` end with their own code."""

    name: str
    help: str
    description: str
    exit_codes: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def megabytes(text: str) -> float:
    """An argparse type: more than 0, at most 100000."""
    value = float(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0 and at most 100000")
    return value


def progress(what: str) -> None:
    """Shows `what` on the line of standard error that says how far the work is; '' clears it."""
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)
