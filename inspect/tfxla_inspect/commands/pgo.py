"""`tfxla-inspect pgo`."""

from __future__ import annotations

import argparse

from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a .profile.json, or a directory or store of them")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--merge", metavar="OUT", help="join all of them into OUT, with what it holds")
    what.add_argument("--diff", action="store_true", help="what differs between two of them")
    what.add_argument("--sources", action="store_true", help="print the --tfxla_dynamic_sources that says the same")
    what.add_argument(
        "--clear", metavar="START", nargs="?", const="", help="forget functions whose names start so (default: all)"
    )


def _run(arguments: argparse.Namespace) -> int:
    from .. import profiles  # needs fsspec, which reports do without

    wanted = profiles.Wanted(arguments.merge, arguments.diff, arguments.sources, arguments.clear)
    return profiles.run(arguments.files, wanted, print)


COMMAND = Command(
    "pgo",
    "show, merge, compare and clear profiles of sizes",
    "Shows profiles of sizes (--tfxla_pgo), merges, compares and clears them.",
    """0 done; 1 --diff found differences; 2 wrong command line; 3 a FILE is missing or no profile;
6 a file cannot be written.""",
    _configure,
    _run,
)
