"""Named pipelines: which passes, in which order."""
from __future__ import annotations

from ..target import Target
from . import call_inliner, dce
from .base import Pass

PASSES: dict[str, Pass] = {p.name: p for p in (call_inliner.PASS, dce.PASS)}


def optimize(target: Target) -> list[Pass]:
    """What runs before fusion."""
    return [call_inliner.PASS, dce.PASS]
