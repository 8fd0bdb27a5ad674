"""All statements of a kernel, in order, and what a statement accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .attention_ir import Attention
from .ir import Across, Dot, For, If, Reduce, Scan, Stmt, Tile, While

_NESTED: Mapping[type, Callable[[Any], tuple[tuple[Stmt, ...], ...]]] = {
    For: lambda stmt: (stmt.body,),
    Tile: lambda stmt: (stmt.body,),
    Reduce: lambda stmt: (stmt.body, stmt.combine.body),
    Across: lambda stmt: (stmt.combine.body,),
    Scan: lambda stmt: (stmt.combine.body,),
    Dot: lambda stmt: tuple(region.body for region in stmt.regions()),
    If: lambda stmt: (stmt.then.body, stmt.orelse.body),
    While: lambda stmt: (stmt.cond.body, stmt.body.body),
    Attention: lambda stmt: tuple(region.body for region in stmt.regions()),
}


def nested(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists inside a statement."""
    inner = _NESTED.get(type(stmt))  # one look-up: most statements hold none
    return () if inner is None else inner(stmt)


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, nested ones too, in order."""
    for stmt in body:
        yield stmt
        for inner in nested(stmt):
            yield from walk(inner)


def lane_depth(body: Iterable[Stmt]) -> int:
    """How deep tiles and vector loops nest."""
    deepest = 0
    for stmt in body:
        own = int(isinstance(stmt, Tile) or (isinstance(stmt, (For, Reduce)) and stmt.kind == "vector"))
        if isinstance(stmt, Attention):
            own = 2  # a block has rows, and what they are multiplied with or summed over
        deepest = max([deepest, *(own + lane_depth(inner) for inner in nested(stmt))])
    return deepest
