"""The command `tfxla-inspect`: what each command does lies in `commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tfxla_cluster.errors import TfxlaError

from . import __version__
from .commands.table import COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code. Errors are one line on stderr."""
    parser = _parser()
    arguments, more = parser.parse_known_args(argv)
    if more and not arguments.takes_flags:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    arguments.flags = more
    try:
        return int(arguments.run(arguments))
    except TfxlaError as error:
        print(f"tfxla-inspect: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def entry() -> None:
    """The console script."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tfxla-inspect", description="Reads dump directories of tfxla_cluster and of XLA.")
    parser.add_argument("--version", action="version", version=f"tfxla-inspect {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            epilog=f"exit codes: {command.exit_codes}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(one)
        one.set_defaults(run=command.run, takes_flags=command.takes_flags)
    return parser
