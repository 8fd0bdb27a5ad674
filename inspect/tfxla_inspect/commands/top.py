"""`tfxla-inspect top`."""

from __future__ import annotations

import argparse

from .. import module_choice, top
from .command import Command
from .numbers import at_least


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dump", metavar="DIR[:ID]", help="a dump, or one module of it")
    parser.add_argument("-n", metavar="N", type=at_least(1), default=20, dest="most", help="kernels (default 20)")
    parser.add_argument(
        "--by",
        choices=(top.TIME, top.FLOOR),
        default=top.TIME,
        help="time in all executions, or the part of it beyond the floor (default time)",
    )


def _run(arguments: argparse.Namespace) -> int:
    path, which = module_choice.divided(arguments.dump)
    return top.run(path, which, arguments.by, arguments.most, print)


COMMAND = Command(
    "top",
    "list kernels by time, or by distance from their floor",
    """Lists the kernels of a dump by the time of all executions, the rest taken to be like those that were timed;
beside it the least that their bytes and operations take on the machine that ran them.""",
    """0 done; 2 wrong command line; 3 DIR is missing or no dump, or nothing in it was timed.""",
    _configure,
    _run,
)
