"""`tfxla-inspect show`."""

from __future__ import annotations

import argparse

from .. import module_choice, showing
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dump", metavar="DIR[:ID]", help="a dump, or one module of it")
    parser.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        default="tree",
        help="'tree' (default), HLO 'before' or 'after' optimisation, 'passes', or the number of a pass's text",
    )
    parser.add_argument("--kernel", metavar="SYMBOL", default="", help="the code of a kernel")
    parser.add_argument("--as", dest="language", choices=sorted(showing.LANGUAGES), default="", help="its language")
    parser.add_argument(
        "--color", choices=(showing.AUTO, showing.ALWAYS, showing.NEVER), default=showing.AUTO, help="(default auto)"
    )


def _run(arguments: argparse.Namespace) -> int:
    path, which = module_choice.divided(arguments.dump)
    wanted = showing.Wanted(arguments.what, arguments.kernel, arguments.language, arguments.color)
    return showing.run(path, which, wanted)


COMMAND = Command(
    "show",
    "a dump in the terminal: tree, HLO, kernels",
    """Shows a dump in the terminal, in colours and a page at a time: the tree of its modules and kernels, HLO before,
after and between passes, the code of a kernel.""",
    """0 shown; 2 wrong command line, or the module has no such text; 3 DIR is missing or no dump, or has no such module
or kernel.""",
    _configure,
    _run,
)
