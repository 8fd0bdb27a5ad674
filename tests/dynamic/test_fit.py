"""Expressions over sizes that are neither products nor sums (tfxla_cluster.dynamic.fit): parts, blocks, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dynamic.test_unify import Body, check_at, floats, unified
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.node import Instr


def _sliced(length: Callable[[int], int]) -> Body:
    return lambda b, n: [b.slice(floats(b, n, 2), [(0, length(n), 1), (0, 2, 1)])]


def _blocks(b: Builder, n: int) -> list[Instr]:
    """Filled up to blocks of 8, cut to pairs, and what is left of each."""
    x = floats(b, n)
    full = b.reshape(b.pad(x, b.constant(0.0), [(0, -n % 8)]), [-(-n // 8), 8])
    pairs = b.reshape(b.slice(x, [(0, n // 2 * 2, 1)]), [n // 2, 2])
    return [full, pairs, b.slice(x, [(n // 2 * 2, n, 1)])]


ROUNDED: dict[str, Body] = {
    "two thirds": _sliced(lambda n: 2 * n // 3),
    "nine tenths": _sliced(lambda n: 9 * n // 10),
    "up": _sliced(lambda n: -(-3 * n // 4)),
    "at most 12": _sliced(lambda n: min(n, 12)),
    "beyond 12": _sliced(lambda n: max(n - 12, 0)),
    "windows": _sliced(lambda n: (n - 3) // 2 + 1),
    "blocks": _blocks,
    "up to 64": lambda b, n: [b.pad(floats(b, n), b.constant(1.0), [(0, 64 - n)])],
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_and_limited_sizes(name: str) -> None:
    generic = unified(ROUNDED[name], (7,), (15,), (22,), (29,), (36,))
    for n in (7, 9, 12, 13, 24, 31, 50):
        check_at(ROUNDED[name], generic, n)
