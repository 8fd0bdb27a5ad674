"""When each value of a launch plan is in memory, and where: buffers.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import dim as dims
from ..runtime.plan import LaunchPlan, Placed


def buffer_lives(plan: LaunchPlan, buffers: Sequence[Placed], moments: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """`moments`: (tick, instruction) of each step in order. A value is there in the half-open ranges of ticks `live`: a
    step at tick t reads at t and writes at t + 1. Sizes are those of the sample."""
    return {
        "arena_bytes": dims.sample(plan.arena_bytes),
        "aliases": [list(pair) for pair in plan.aliases],
        "steps": [[tick, name] for tick, name in moments],
        "buffers": [
            {
                "name": one.name,
                "bytes": dims.sample(one.bytes),
                "kind": one.place.kind,
                "index": one.place.index,
                "offset": dims.sample(one.place.offset),
                "live": [list(segment) for segment in one.segments],
            }
            for one in buffers
            if one.segments or one.place.kind in ("input", "output")
        ],
    }
