"""`tfxla-inspect explain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import explanation, module_choice
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--op", metavar="NAME", required=True, help="a node, op type, instruction, kernel or function")
    parser.add_argument(
        "what", metavar="DIR|PROGRAM", nargs="+", help="a dump, or a program to run, with its arguments"
    )


def _run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.what[0])
    if len(arguments.what) == 1 and not arguments.flags and module_choice.is_dump(path):
        return explanation.run(path, arguments.op, print)
    return explanation.run_program([*arguments.what, *arguments.flags], arguments.op, print)


COMMAND = Command(
    "explain",
    "say why an op is in no cluster, not fused, or compiled again",
    """Says of one op, by the records of a dump: the cluster that it is in or the rule that left it out, the kernels
that compute it and why their neighbours are in others, and of a function why it was compiled again. A program is
run first, with this package on.""",
    """0 said; 1 nothing has that name, or the program failed; 2 wrong command line; 3 DIR is missing or no dump, or the
program compiled nothing.""",
    _configure,
    _run,
    takes_flags=True,
)
