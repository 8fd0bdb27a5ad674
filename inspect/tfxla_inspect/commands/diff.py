"""`tfxla-inspect diff`."""

from __future__ import annotations

import argparse

from .. import diff
from .command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("one", metavar="DIR:ID|FILE", help="a dump and the number of a module in it: dump:3; or HLO")
    parser.add_argument("other", metavar="[DIR:]ID|FILE", help="another; without DIR one of the same dump")
    parser.add_argument(
        "--stage", metavar="S", default="after", help="HLO 'before' or 'after' (default), or the number of a pass"
    )
    parser.add_argument("--other-stage", metavar="S", help="of the other (default: the same)")


def _run(arguments: argparse.Namespace) -> int:
    stages = arguments.stage, arguments.other_stage or arguments.stage
    return diff.run(arguments.one, arguments.other, print, stages)


COMMAND = Command(
    "diff",
    "compare two modules: what they hold for, and their kernels",
    """Compares the guard sets of two compilations (inputs, None: a size that may be any; Python values; flags), and
their HLO by structure, not by names: kernels, what is computed, fusion borders, bytes, memory. Of two runs, two
stages of one module, or a dump of ours and one of XLA.""",
    """0 no difference; 1 they differ; 2 wrong command line; 3 DIR is missing or no dump, or has no such
module.""",
    _configure,
    _run,
)
