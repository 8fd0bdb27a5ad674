"""Loops with a test, and branches, as Triton source."""

from __future__ import annotations

from ..kernel.ir import If, Region, While
from .writer import Writer


def emit_while(e: Writer, stmt: While) -> None:
    """The test is written twice: before the loop, and at the end of its body."""
    e.carry(stmt.cond.args, stmt.init)
    test = e.fresh("test")
    e.put(f"{test} = {_test(e, stmt.cond)}")
    e.put(f"while {test}:")
    e.depth += 1
    for arg, carried in zip(stmt.body.args, stmt.cond.args):
        e.names[arg], e.axes[arg] = e.names[carried], e.axes[carried]
    e.body(stmt.body.body)
    e.assign(stmt.cond.args, stmt.body.results)
    e.put(f"{test} = {_test(e, stmt.cond)}")
    e.depth -= 1
    for out, carried in zip(stmt.outs, stmt.cond.args):
        e.names[out], e.axes[out] = e.names[carried], e.axes[carried]


def _test(e: Writer, cond: Region) -> str:
    e.body(cond.body)
    if e.axes_of(cond.results[0]):
        raise e.unsupported("a loop whose lanes end apart")
    return e.name(cond.results[0])


def emit_if(e: Writer, stmt: If) -> None:
    """Both branches assign the results, as blocks with every open axis."""
    if e.axes_of(stmt.cond):
        raise e.unsupported("a branch whose lanes go apart")
    results = [e.fresh("chosen") for _ in stmt.outs]
    for word, region in (("if " + e.name(stmt.cond), stmt.then), ("else", stmt.orelse)):
        e.put(word + ":")
        e.depth += 1
        e.body(region.body)
        for name, value in zip(results, region.results):
            e.put(f"{name} = {e.spread(value)}")
        e.put("pass")
        e.depth -= 1
    for out, name in zip(stmt.outs, results):
        e.names[out], e.axes[out] = name, e.every_axis()
