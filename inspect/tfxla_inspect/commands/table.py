"""All commands, in the order in which --help lists them."""

from __future__ import annotations

from . import autotune, bisect, bundle, cache, diff, minimize, pgo, replay, report
from .command import Command

COMMANDS: tuple[Command, ...] = tuple(
    m.COMMAND for m in (report, diff, replay, bisect, minimize, bundle, autotune, pgo, cache)
)
