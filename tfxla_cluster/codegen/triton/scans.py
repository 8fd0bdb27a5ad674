"""`Scan` as Triton source."""

from __future__ import annotations

from typing import Protocol

from ..kernel.ir import Region, Scan, Var


class Emitter(Protocol):
    """What a statement asks of the source's emitter."""

    position: dict[Var, int]

    def put(self, line: str) -> None: ...

    def fresh(self, prefix: str) -> str: ...

    def define(self, var: Var, text: str, axes: frozenset[int]) -> None: ...

    def spread(self, var: Var) -> str: ...

    def every_axis(self) -> frozenset[int]: ...

    def combine_helper(self, region: Region) -> str: ...


def scan(e: Emitter, stmt: Scan) -> None:
    """Idle lanes come last: what they hold reaches no lane in use."""
    helper, result = e.combine_helper(stmt.combine), e.fresh("scan")
    blocks = [e.spread(v) for v in stmt.values]
    whole = blocks[0] if len(blocks) == 1 else f"({', '.join(blocks)})"
    e.put(f"{result} = tl.associative_scan({whole}, {e.position[stmt.lane]}, {helper})")
    for i, out in enumerate(stmt.outs):
        e.define(out, result if len(blocks) == 1 else f"{result}[{i}]", e.every_axis())
