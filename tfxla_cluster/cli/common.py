"""What all command-line tools share: one-line errors, exit codes, quiet end of a closed pipe."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import bugs
from ..errors import InternalError, TfxlaError

EXIT_CODES = """exit codes:
  0 done; 1 failed; 2 wrong usage or flag; 3 missing, unreadable or corrupt input; 4 invalid module;
  5 not supported; 6 output could not be written; 7 wrong version of a library; 70 a bug of this package"""


def number(kind: Callable[[str], Any], low: float, high: float = math.inf) -> Callable[[str], Any]:
    """An argparse type: an int or a float from `low` to `high`."""

    def convert(text: str) -> Any:
        value = kind(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:g} to {high:g}")
        return value

    convert.__name__ = kind.__name__  # argparse says "invalid int value"
    return convert


def run(program: str, main: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Call `main(argv)`; a TfxlaError becomes one line on stderr and its exit code."""
    try:
        return main(sys.argv[1:] if argv is None else argv)
    except TfxlaError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line and a code
        remedy = ". Please report it, with the command line and what it reads" if bugs.is_bug(error) else ""
        print(f"{program}: {bugs.noted(program, error)}{remedy}", file=sys.stderr)
        return exit_code(error)


def exit_code(error: Exception) -> int:
    """What a command ends with after an error that is none of the catalogue."""
    return InternalError.exit_code if bugs.is_bug(error) else TfxlaError.exit_code
