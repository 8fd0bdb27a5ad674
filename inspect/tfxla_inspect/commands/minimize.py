"""`tfxla-inspect minimize`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import module_choice
from . import running
from .bisect import wanted
from .command import Command, step
from .numbers import at_least


def _configure(parser: argparse.ArgumentParser) -> None:
    running.configure_search(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="where the reproduction goes")
    parser.add_argument(
        "--slower-than", metavar="N", type=float, help="fails where it takes N times the reference's time"
    )
    parser.add_argument("--budget", metavar="N", type=at_least(1), default=1000, help="runs at most (default 1000)")


def _run(arguments: argparse.Namespace) -> int:
    from tfxla_cluster.replay import faults  # compiles, which reports do without

    with module_choice.module_file(arguments.module) as name:
        asked = wanted(arguments, name, "cpu")
        return faults.minimise(asked, arguments.output, arguments.slower_than, arguments.budget, print, step)


COMMAND = Command(
    "minimize",
    "shrink a failing module, and write a reproduction",
    """Makes a failing module small: fewer results, instructions, elements, plainer inputs, while it fails in the
same way (wrong numbers, the signal or the message that it ends with, slower than a reference). Writes
DIR/reproduce.py, which runs by itself and names the pass or kernel, the HLO and the inputs. Flags of
TFXLA_FLAGS may follow.""",
    """0 written; 1 the module does not fail; 2 wrong command line; 3 a file is missing or damaged; 4 the module is
invalid; 5 something is not supported; 6 DIR cannot be written; 7 jax is missing (xla).""",
    _configure,
    _run,
    takes_flags=True,
)
