"""What the commands that run modules have in common."""

from __future__ import annotations

import argparse

from .numbers import at_least

BACKENDS = ("cpu", "gpu", "interpreter", "evaluator", "xla")
REFERENCES = ("evaluator", "xla")
MODULE = "HLO text, a proto or a snapshot (.pb), also gzipped, of any frontend; or DIR[:ID], a module of a dump"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what is run, on what."""
    parser.add_argument("module", metavar="MODULE", help=MODULE)
    parser.add_argument(
        "--inputs",
        nargs="+",
        default=(),
        metavar="WHAT",
        help="'random', 'snapshot', .npy files, or a folder of input.N.npy (default: the snapshot's, else random)",
    )
    parser.add_argument("--seed", type=at_least(0), default=0, help="of random inputs and elided literals (default 0)")
    parser.add_argument("--rtol", type=float, help="relative tolerance (default by dtype)")


def configure_search(parser: argparse.ArgumentParser) -> None:
    """Of the commands that search a fault."""
    configure(parser)
    parser.add_argument("--backend", choices=BACKENDS, help="what is searched (default cpu; for XLA's dumps xla)")
    parser.add_argument(
        "--reference", choices=REFERENCES, default="evaluator", help="what is right (default evaluator)"
    )
    parser.add_argument("--timeout", type=at_least(1), default=120, help="seconds of a run (default 120)")
