"""Fusions that a later stage cannot take as one kernel come apart: into halves, at last into instructions."""

from __future__ import annotations

from collections.abc import Collection

from ..ir.node import Computation, Instr, Module
from ..ir.rewrite import Names, inline, map_computations, rebuild
from .build import fused
from .graph import Graph, order_of
from .group_order import Group, Order


def split(module: Module, fusions: Collection[Instr]) -> Module:
    """The module with each of `fusions`, which are instructions of it, replaced by fusions of the first and of the
    second half of its work; one with a single piece of work by its instructions."""
    wanted = {fusion.name for fusion in fusions}
    names = Names(i.name for comp in module.computations() for i in comp.instrs)

    def renewed(comp: Computation) -> Computation:
        found = [i for i in comp.instrs if i.opcode == "fusion" and i.name in wanted]
        return rebuild(comp, {i: inline(_parted(i.attrs["calls"], names), i.operands, i.sources) for i in found})

    return map_computations(module, renewed)


def _parted(comp: Computation, names: Names) -> Computation:
    """A fused computation with a fusion for each half of what it computes."""
    graph = Graph(comp)
    order = order_of(graph)
    work = [group for group in order.groups() if group.kind != "single"]
    if len(work) < 2:
        return comp
    middle = len(work) // 2
    for half in (work[:middle], work[middle:]):
        _merge(order, half)
    return fused(graph, order, names)


def _merge(order: Order, groups: list[Group]) -> None:
    """Makes one group of those that can be one (something between them may belong to no fusion)."""
    leader = groups[0]
    for group in groups[1:]:
        between = order.between(leader, group)
        if between is not None:
            order.merge(leader, group, between)
