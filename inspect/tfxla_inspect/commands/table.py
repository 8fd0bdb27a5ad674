"""All commands, in the order in which --help lists them."""

from __future__ import annotations

from . import autotune, cache, diff, pgo, report
from .command import Command

COMMANDS: tuple[Command, ...] = (report.COMMAND, diff.COMMAND, autotune.COMMAND, pgo.COMMAND, cache.COMMAND)
