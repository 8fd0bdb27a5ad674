"""`tfxla-inspect graph`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import Command
from .numbers import at_least


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("module", metavar="DIR[:ID]|FILE", help="a module of a dump, or a file of HLO")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True, help="a .dot, .svg or .png to write")
    parser.add_argument("--stage", choices=("before", "after"), default="after", help="of a dump (default after)")
    parser.add_argument("--computation", metavar="NAME", default="", help="default: the entry")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--around", metavar="NAME", default="", help="only what is near an instruction")
    what.add_argument(
        "--paths", metavar=("A", "B"), nargs=2, default=(), help="only the paths between two instructions"
    )
    parser.add_argument("--hops", metavar="N", type=at_least(0), default=2, help="with --around: how far (default 2)")


def _run(arguments: argparse.Namespace) -> int:
    from .. import drawing  # needs the package graphviz, which reports do without

    names = (arguments.around, *arguments.paths)
    around, *between = (name.removeprefix("%") for name in names)
    wanted = drawing.Wanted(arguments.stage, arguments.computation, around, arguments.hops, tuple(between))
    count = drawing.run(arguments.module, arguments.output, wanted)
    print(f"{arguments.output}: {count:,} instructions")
    return 0


COMMAND = Command(
    "graph",
    "draw a computation, or a part of it",
    """Draws a computation as DOT, SVG or PNG: all of it, the neighbourhood of an instruction, or all paths between two.
Graphviz draws it, else graphviz-pure, in a process of its own with a time limit.""",
    """0 drawn; 1 it could not be drawn; 2 wrong command line, or a name that is not there; 3 the module is missing or
damaged; 6 OUT cannot be written; 7 nothing draws here.""",
    _configure,
    _run,
)
