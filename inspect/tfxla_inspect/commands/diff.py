"""`tfxla-inspect diff`."""

from __future__ import annotations

import argparse

from .. import diff
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("one", metavar="DIR:ID", help="a dump and the number of a module in it: dump:3")
    parser.add_argument("other", metavar="[DIR:]ID", help="another; without DIR one of the same dump")


COMMAND = Command(
    "diff",
    "compare what two executables hold for",
    "Compares the guard sets of two compilations: inputs (None: a size that may be any), Python values, flags.",
    """0 they hold for the same; 1 they differ; 2 wrong command line; 3 DIR is missing or no dump, or has no such
compilation.""",
    _configure,
    lambda arguments: diff.run(arguments.one, arguments.other, print),
)
