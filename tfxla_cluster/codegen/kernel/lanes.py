"""Which loops may run in lanes: what differs between the iterations of a vector loop."""

from __future__ import annotations

from collections.abc import Iterable

from .ir import For, If, Load, Op, Reduce, Stmt, Var, While
from .walk import walk


def varying_variables(body: Iterable[Stmt], seeds: Iterable[Var]) -> set[Var]:
    """Variables of `body` whose value may differ between lanes when those of `seeds` do."""
    varying = set(seeds)
    size = -1
    while size != len(varying):
        size = len(varying)
        _spread(body, varying)
    return varying


def _spread(body: Iterable[Stmt], varying: set[Var]) -> None:
    """One pass of the data flow: adds what depends on `varying`."""
    for stmt in body:
        if isinstance(stmt, Op) and not varying.isdisjoint(stmt.operands):
            varying.add(stmt.out)
        elif isinstance(stmt, Load):
            inputs = {stmt.offset, stmt.mask, stmt.other}
            if not varying.isdisjoint(inputs):
                varying.add(stmt.out)
        elif isinstance(stmt, For):
            _link(varying, zip(stmt.init, stmt.args), zip(stmt.yields, stmt.args))
            _spread(stmt.body, varying)
            _link(varying, zip(stmt.yields, stmt.outs), zip(stmt.init, stmt.outs))
        elif isinstance(stmt, Reduce):
            _spread(stmt.body, varying)
            count = len(stmt.outs)
            args, results = stmt.combine.args, stmt.combine.results
            _link(varying, zip(stmt.init, args[:count]), zip(stmt.values, args[count:]))
            _spread(stmt.combine.body, varying)
            _link(varying, zip(results, args[:count]), zip(results, stmt.outs), zip(stmt.init, stmt.outs))
        elif isinstance(stmt, If):
            for region in (stmt.then, stmt.orelse):
                _spread(region.body, varying)
                _link(varying, zip(region.results, stmt.outs))
        elif isinstance(stmt, While):
            args, results = (*stmt.cond.args, *stmt.body.args), (*stmt.body.results, *stmt.body.results)
            _link(varying, zip((*stmt.init, *stmt.init), args), zip(results, args))
            _spread(stmt.cond.body, varying)
            _spread(stmt.body.body, varying)
            _link(varying, zip(stmt.init, stmt.outs), zip(stmt.body.results, stmt.outs))


def _link(varying: set[Var], *pairs: Iterable[tuple[Var, Var]]) -> None:
    for group in pairs:
        varying.update(target for source, target in group if source in varying)


def runs_in_lanes(body: Iterable[Stmt], varying: set[Var]) -> bool:
    """False where control flow inside depends on the lane: such a loop runs one iteration at a time."""
    for stmt in walk(body):
        if isinstance(stmt, (For, Reduce)) and (stmt.start in varying or stmt.stop in varying):
            return False
        if isinstance(stmt, If) and stmt.cond in varying:
            return False
        if isinstance(stmt, While) and stmt.cond.results[0] in varying:
            return False
    return True
