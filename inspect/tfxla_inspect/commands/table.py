"""All commands, in the order in which --help lists them."""

from __future__ import annotations

from . import autotune, bisect, bundle, cache, diff, explain, graph, minimize, pgo, replay, report, show, top, trace
from .command import Command

_MODULES = (report, show, top, explain, graph, diff, replay, bisect, minimize, trace, bundle, autotune, pgo, cache)
COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
