"""All commands, in the order in which --help lists them."""

from __future__ import annotations

from . import autotune, bisect, bundle, cache, diff, minimize, pgo, replay, report, trace
from .command import Command

_MODULES = (report, diff, replay, bisect, minimize, trace, bundle, autotune, pgo, cache)
COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
