"""The acyclic order of groups: merging keeps it, and refuses what would make a cycle."""

from __future__ import annotations

import random

import pytest

from tfxla_cluster.fusion.group_order import Group, Order
from tfxla_cluster.ir import shape
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Instr


def graph(count: int, edges: set[tuple[int, int]]) -> tuple[list[Instr], Order]:
    instrs = [Instr(f"i{n}", "add", shape.array(F32, (4,))) for n in range(count)]
    users = {instrs[n]: [instrs[b] for a, b in sorted(edges) if a == n] for n in range(count)}
    return instrs, Order([Group((n,), "loop", {i: None}) for n, i in enumerate(instrs)], users)


def cyclic(order: Order) -> bool:
    return any(group.key >= other.key for group in order.groups() for other in order.successors(group))


def test_a_path_outside_refuses() -> None:
    instrs, order = graph(3, {(0, 1), (1, 2), (0, 2)})
    assert order.between(order.group[instrs[0]], order.group[instrs[2]]) is None
    assert order.between(order.group[instrs[0]], order.group[instrs[1]]) is not None


@pytest.mark.parametrize("seed", range(30))
def test_random_merges_keep_the_order(seed: int) -> None:
    rng, count = random.Random(seed), 30
    edges = {(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 0.08}
    instrs, order = graph(count, edges)
    for _ in range(60):
        a, b = (order.group[i] for i in rng.sample(instrs, 2))
        between = order.between(a, b) if a is not b else None
        if between is not None:
            order.merge(a, b, between)
        assert not cyclic(order)
