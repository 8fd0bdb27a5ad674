"""tfxla-run: run a program with TF_XLA_FLAGS, XLA_FLAGS and TF_DUMP_GRAPH_PREFIX honoured by this package.

The flags that concern this package move to TFXLA_FLAGS, so that stock XLA does not also cluster; the others stay where
they are, for stock XLA to take or refuse.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import flags, trace
from ..errors import InputFileError, OutputError, UsageError
from . import common

STOCK_VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")


def entry() -> int:
    return common.run("tfxla-run", main)


def main(argv: Sequence[str]) -> int:
    """Replace this process by the program; returns only for --help-flags."""
    parser = argparse.ArgumentParser(
        "tfxla-run", description=__doc__, epilog=common.EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--help-flags", action="store_true", help="list every flag and end")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    options = parser.parse_args(argv)
    if options.help_flags:
        print(flags.help_text())
    else:
        _replace_process(options.program[1:] if options.program[:1] == ["--"] else options.program)
    return 0


def _replace_process(words: list[str]) -> NoReturn:
    if not words:
        raise UsageError("no program given", "Write: tfxla-run python prog.py")
    environment = moved_environment(dict(os.environ))
    command = _command(words)
    try:
        os.execve(command[0], [words[0], *command[1:]] if command[0] != sys.executable else command, environment)
    except OSError as error:
        raise InputFileError(f"{words[0]}: cannot be run: {error.strerror}", "Give a program") from None


def _command(words: list[str]) -> list[str]:
    """The program's file and its arguments; a Python source that is no program itself is run by this Python."""
    found = shutil.which(words[0])
    if found is not None:
        return [found, *words[1:]]
    if not os.path.exists(words[0]):
        raise InputFileError(f"program '{words[0]}' not found", "Give a program on PATH or a path")
    if os.path.isdir(words[0]):
        raise InputFileError(f"{words[0]} is a directory", "Give a program on PATH or a path")
    if words[0].endswith(".py"):
        return [sys.executable, *words]
    if os.access(words[0], os.X_OK):
        return [os.path.abspath(words[0]), *words[1:]]
    raise InputFileError(f"{words[0]} is not executable", f"chmod +x {words[0]}, or name the program that runs it")


def moved_environment(environment: dict[str, str]) -> dict[str, str]:
    """`environment` with our flags of the stock variables moved over; FlagError for a bad value, or a name like one of
    ours."""
    words = [environment.get(flags.ENV, "")]
    for name in STOCK_VARIABLES:
        if name in environment:
            ours, theirs = flags.divide(environment.pop(name), name)
            words.append(ours)
            if theirs:
                environment[name] = theirs
    environment[flags.ENV] = " ".join(filter(None, words)) or "--noxla_cpu_enable_fast_math"
    check_directory(flags.parse(environment[flags.ENV]).get("xla_dump_to", ""))
    return environment


def check_directory(path: str) -> None:
    """OutputError where the dump directory cannot be made or written; better now than after an hour."""
    if not path:
        return
    try:
        trace.make_directory(path)
    except OSError as error:
        raise OutputError(f"--xla_dump_to={path}: {error.strerror}", "Give a directory that can be written") from None
    if not os.access(path, os.W_OK):
        raise OutputError(f"--xla_dump_to={path}: not writable", "Give a directory that can be written")
