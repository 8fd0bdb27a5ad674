"""What a command of `tfxla-inspect` is, and what several of them share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """`configure` gives a parser its arguments, `run` does the work and returns the exit code; `exit_codes`: what each
    code means, for --help. TfxlaErrors of `run` end with their own code. `takes_flags`: words that are none of its own
    are flags of TFXLA_FLAGS, which `run` finds as `arguments.flags`."""

    name: str
    help: str
    description: str
    exit_codes: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    takes_flags: bool = False


def progress(what: str) -> None:
    """Shows `what` on the line of standard error that says how far the work is; '' clears it."""
    print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def step(what: str) -> None:
    """Says one step of a long search: over the one before on a terminal, else as a line of standard error."""
    if sys.stderr.isatty():
        progress(what)
    else:
        print(what, file=sys.stderr)
