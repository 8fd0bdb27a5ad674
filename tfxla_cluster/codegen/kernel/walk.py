"""All statements of a kernel, in order, and what a statement accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .ir import Across, For, If, Reduce, Stmt, Tile, While


def nested(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists inside a statement."""
    if isinstance(stmt, For | Tile):
        return (stmt.body,)
    if isinstance(stmt, Reduce):
        return stmt.body, stmt.combine.body
    if isinstance(stmt, Across):
        return (stmt.combine.body,)
    if isinstance(stmt, If):
        return stmt.then.body, stmt.orelse.body
    if isinstance(stmt, While):
        return stmt.cond.body, stmt.body.body
    return ()


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
        own = isinstance(stmt, Tile) or (isinstance(stmt, For | Reduce) and stmt.kind == "vector")
        deepest = max([deepest, *(own + lane_depth(inner) for inner in nested(stmt))])
    return deepest
