"""`tfxla-inspect autotune`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="a path or URL; text by suffix (.txt, .textproto, ...)"
    )
    parser.add_argument(
        "--merge", metavar="OUT", help="write all of them into one file; of a kernel the last file's wins"
    )
    parser.add_argument(
        "--program", metavar="DIR", type=Path, help="a program's dump: what it uses, misses, has no more"
    )
    parser.add_argument(
        "--candidates", action="store_true", help="also each form that was measured, or why it fell out"
    )


def _run(arguments: argparse.Namespace) -> int:
    from .. import autotuning  # needs protobuf, which reports do without

    return autotuning.run(arguments.files, arguments.candidates, arguments.program, arguments.merge, print)


COMMAND = Command(
    "autotune",
    "show and merge files of autotuning results",
    "Shows files of autotuning results (XLA's too), merges them, and holds them against a program.",
    """0 done; 1 a kernel of the program has no result; 2 wrong command line; 3 a FILE is missing or holds
no results, or DIR no kernels; 6 OUT cannot be written.""",
    _configure,
    _run,
)
