"""`Scan` as Triton source."""

from __future__ import annotations

from ..kernel.ir import Scan
from .writer import Writer


def scan(e: Writer, stmt: Scan) -> None:
    """Idle lanes come last: what they hold reaches no lane in use."""
    helper, result = e.combine_helper(stmt.combine), e.fresh("scan")
    blocks = [e.spread(v) for v in stmt.values]
    whole = blocks[0] if len(blocks) == 1 else f"({', '.join(blocks)})"
    e.put(f"{result} = tl.associative_scan({whole}, {e.position[stmt.lane]}, {helper})")
    for i, out in enumerate(stmt.outs):
        e.define(out, result if len(blocks) == 1 else f"{result}[{i}]", e.every_axis())
