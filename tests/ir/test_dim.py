"""Sizes: what makes two of them equal."""

from __future__ import annotations

from tfxla_cluster.ir.dim import DimExpr, bounded, make, sym


def test_a_size_is_its_name() -> None:
    assert sym("n", 4) == sym("n", 7)
    assert hash(sym("n", 4)) == hash(sym("n", 7))
    assert bounded("k", 4) == bounded("k", 9)
    assert sym("n", 4) != sym("m", 4)
    assert sym("n", 4) != 4
    assert sym("n", 4) != bounded("n", 4)


def test_an_expression_is_what_it_says() -> None:
    n, again = sym("n", 4), sym("n", 100)
    assert n * 2 + 1 == again * 2 + 1
    assert len({n * 2, again * 2, n * 3}) == 2
    assert n + 1 != n * 2
    assert make("floordiv", n, 2) != make("floordiv", 2, n) != DimExpr("mod", (2, n))
