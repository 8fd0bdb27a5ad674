"""`tfxla-inspect bundle`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import bundle
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="what --xla_dump_to named")
    parser.add_argument("-o", "--output", metavar="OUT.zip", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--add", metavar="FILE", type=Path, action="append", default=[], help="a script, or a folder of minimize"
    )
    parser.add_argument("--inputs", action="store_true", help="with the inputs of executions (snapshots)")
    parser.add_argument("--sources", action="store_true", help="with the lines of your program")
    parser.add_argument("--strip-constants", action="store_true", help="without values of constants, HLO as text alone")


def _run(arguments: argparse.Namespace) -> int:
    wanted = bundle.Wanted(arguments.inputs, arguments.sources, not arguments.strip_constants, arguments.add)
    return bundle.write(arguments.directory, arguments.output, wanted, print)


COMMAND = Command(
    "bundle",
    "pack a dump for a bug report, without what is private",
    """Packs what a maintainer asks for into one zip, which `report`, `replay` and `bisect` open: HLO, decisions,
kernels, flags and versions, your script. Not in it: environment variables that say nothing of compiling,
secrets on command lines, lines of your program, inputs, machine code. Home directories and user names are
replaced.""",
    """0 written; 2 wrong command line; 3 DIR is missing or no dump, or a FILE cannot be read; 6 the zip cannot be
written.""",
    _configure,
    _run,
)
