"""`tfxla-inspect replay`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import module_choice
from . import running
from .command import Command
from .numbers import at_least


def _configure(parser: argparse.ArgumentParser) -> None:
    running.configure(parser)
    parser.add_argument("--backend", choices=running.BACKENDS, default="cpu", help="what runs it (default cpu)")
    parser.add_argument(
        "--reference", choices=_REFERENCES, default="evaluator", help="what it is compared with (default evaluator)"
    )
    parser.add_argument("--repeat", type=at_least(1), default=5, help="runs (default 5)")
    parser.add_argument(
        "--kernel", metavar="FILE", type=Path, help="an edited ir-no-opt.ll or triton.py, or LLVM IR of one kernel"
    )
    parser.add_argument("--save", metavar="DIR", type=Path, help="write inputs and outputs as .npy")
    parser.add_argument("--json", action="store_true", help="one JSON object")


_REFERENCES = (*running.REFERENCES, "snapshot", "none")


def _run(arguments: argparse.Namespace) -> int:
    from tfxla_cluster.replay import rerun  # compiles, which reports do without

    with module_choice.module_file(arguments.module) as name:
        wanted = rerun.Wanted(
            name,
            arguments.backend,
            arguments.reference,
            arguments.inputs,
            arguments.seed,
            arguments.repeat,
            arguments.rtol,
            arguments.kernel,
            arguments.save,
            arguments.json,
            arguments.flags,
        )
        return rerun.run(wanted, print)


COMMAND = Command(
    "replay",
    "run an HLO module again, beside a reference",
    """Runs an HLO module in a process of its own, compares its outputs with a reference, and times both. A module that
XLA has optimised runs without passes. Literals that its text elides are named, and get random values. Flags of
TFXLA_FLAGS may follow.""",
    """0 it ran, and agrees; 1 it differs, or its process died; 2 wrong command line; 3 a file is missing or damaged;
4 the module is invalid; 5 something is not supported; 6 DIR cannot be written; 7 jax is missing (xla).""",
    _configure,
    _run,
    takes_flags=True,
)
