"""Algebra of extents, symbolic and not."""

from __future__ import annotations

import pytest

from tfxla_cluster.fusion.extent import divide
from tfxla_cluster.ir.dim import Dim, make, sym
from tfxla_cluster.ir.polynomial import same

B, S = sym("B", 4), sym("S", 7)
ODD, EVEN = sym("odd", 7, 1, None, 2, 1), sym("even", 8, 2, None, 2)


@pytest.mark.parametrize(
    ("a", "b"), [(6, 6), (B * S, make("mul", S, B)), (B + S, S + B), ((B + 1) * S, S * B + S), (B * 2 + B, B * 3)]
)
def test_same(a: Dim, b: Dim) -> None:
    assert same(a, b)


@pytest.mark.parametrize(("a", "b"), [(6, 7), (B, S), (B * S, B), (B + 1, B), (B // 2, B)])
def test_not_same(a: Dim, b: Dim) -> None:
    assert not same(a, b)


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (12, 4, 3),
        (12, 5, None),
        (B * S, B, S),
        (B * S, S * B, 1),
        (B * 6, 3, B * 2),
        (B, S, None),
        (B, 2, None),
        (B * S + B, B, S + 1),
        (0, 5, 0),
        (5, 0, None),
        (B, S * 0, None),
        (B * ODD, ODD, B),
        (B * ODD * EVEN, B * ODD, EVEN),
        (EVEN, EVEN // 2, 2),
        (EVEN, 2, EVEN // 2),
        (ODD, 2, None),
        (ODD + 1, 2, (ODD + 1) // 2),
        (B * B + B * S * 2 + S * S, B + S, B + S),
        (B * B + S, B + S, None),
    ],
)
def test_divide(a: Dim, b: Dim, quotient: Dim | None) -> None:
    found = divide(a, b)
    assert found is None if quotient is None else found is not None and same(found, quotient)
