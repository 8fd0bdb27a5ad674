"""Literals that follow sizes (tfxla_cluster.dynamic.literals): what is fitted to a few sizes holds at others, bit for
bit, in Python and in compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.dynamic.test_unify import check_at, floats, lowered, misfit, unified
from tfxla_cluster.dynamic import literals, prove
from tfxla_cluster.dynamic.forms import Handed
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.size_values import instantiate

F16, F32, BF16 = np.float16, np.float32, ml_dtypes.bfloat16
Value = Callable[[int, int], Any]
SIZES = ((6, 4), (11, 5), (7, 13), (29, 31))  # of the modules that are made one
OTHERS = ((2, 2), (3, 101), (64, 33), (41, 6))

VALUES: dict[str, Value] = {
    "the gradient of a mean of cubes": lambda n, m: F32(3) * (F32(1) / F32(n * m)),
    "of a weighted mean": lambda n, m: F32(0.3) * (F32(1) / F32(n)),
    "of a mean of means": lambda n, m: F32(1) / F32(n) / F32(m),
    "of a mean over 10 of means": lambda n, m: F32(1) / F32(n) / F32(10),
    "of a narrow mean of cubes": lambda n, m: BF16(BF16(3) * BF16(BF16(1) / BF16(n))),
    "of a half": lambda n, m: F16(F16(1) / F16(n)) * F16(3),
    "of a double": lambda n, m: np.array(7.0 * (1.0 / n)),  # a Python float would be an f32
    "a Python quotient": lambda n, m: F32(3 / n),
    "more than a size": lambda n, m: F32(1 / (m + 2)),
    "both": lambda n, m: F32(1 / (n + m)),
    "a root of more": lambda n, m: F32(math.sqrt(n + 3)),
    "the inverse of a root of more": lambda n, m: F32(1 / math.sqrt(m + 2)),
    "pairs": lambda n, m: F32(n * (n - 1) / 2),
    "a mean over pairs": lambda n, m: F32(1 / (n * (n + 1) // 2)),
    "a count of pairs": lambda n, m: np.int32(n * (n - 1) // 2),
    "a sum": lambda n, m: np.int32(10 * n + m),
    "a difference": lambda n, m: np.int64(n - m),
    "a product and a sum": lambda n, m: np.int64(n * m - 2 * n + 3),
    "a half of a product": lambda n, m: np.int64(n * m // 2),
    "a shape": lambda n, m: np.array([n + m, n * m, 7], np.int32),
    "steps": lambda n, m: np.arange(n, dtype=np.int32) * m + 3,
    "down": lambda n, m: np.arange(n, 0, -1, dtype=np.int64) * m,
    "rows": lambda n, m: np.arange(n * m, dtype=np.float32).reshape(n, m),
    "rows of one column": lambda n, m: np.arange(n, dtype=np.int32)[:, None] * 5,
    "columns": lambda n, m: np.arange(n)[:, None] + np.arange(m)[None] * n,
}


def _positions(n: int, m: int) -> Any:
    """Sines of places, as programs make them in Python."""
    return np.sin(np.arange(n)[:, None] / 100.0 ** (np.arange(m) / 64)).astype(F32)


def _body(value: Value) -> Callable[[Builder, int, int], list[Instr]]:
    return lambda b, n, m: [floats(b, n, m), b.constant(value(n, m))]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_follows_sizes(name: str) -> None:
    body = _body(VALUES[name])
    generic = unified(body, *SIZES)
    for sizes in (*SIZES, *OTHERS):
        check_at(body, generic, *sizes)


@pytest.mark.parametrize("pair", [(1.7e308, 1e308), (5e-324, 1e-323), (np.nan, 1.0), (-np.inf, np.inf), (0.0, -0.0)])
def test_extremes_follow_no_size(pair: tuple[float, float]) -> None:
    """What a size times them, or by them, is no longer a number of the type."""
    body = _body(lambda n, m: np.array(pair[n == 6]))
    assert "a literal varies that follows no size" in misfit(body, *SIZES[:2])


def test_a_number_may_be_more_than_a_dimension_can_say() -> None:
    """n * m and n * (n - 1) / 2 beyond 2^31: counted in 64 bits, from shapes that are no arrays here."""

    def body(b: Builder, n: int, m: int) -> list[Instr]:
        floats(b, n, 0)
        floats(b, m, 0)
        return [b.constant(np.int64(n * m // 2)), b.constant(np.int64(n * (n - 1) // 2))]

    sizes = ((70_000, 90_001), (65_537, 80_021), (100_003, 70_001), (123_457, 99_991))
    generic = unified(body, *sizes)
    for at in (*sizes, (200_003, 77_777)):
        own = lowered(body, *at)
        env = prove.sizes_of(generic, own.module.param_shapes)
        assert prove.prove(generic, own)
        assert not isinstance(env, prove.Decision)
        args = [np.zeros(p.shape.sample_dims, np.float32) for p in own.module.entry.params]
        for got, want in zip(evaluate(instantiate(generic.module, env), args), evaluate(own.module, args), strict=True):
            assert got.tobytes() == want.tobytes()


def test_a_table_of_positions_holds_up_to_the_largest() -> None:
    body = _body(_positions)
    generic = unified(body, (9, 31), (33, 40), (20, 35))
    for sizes in ((9, 31), (33, 40), (2, 3), (33, 2), (32, 39)):
        check_at(body, generic, *sizes)
    for larger in ((34, 40), (33, 41)):
        assert "another literal" in prove.prove(generic, lowered(body, *larger)).reason
    assert not generic.is_guarded
    assert unified(_body(lambda n, m: F32(1 / n)), *SIZES).is_guarded


HANDED: dict[str, tuple[Value, tuple[int, ...]]] = {
    "a logarithm": (lambda n, m: F32(math.log(n)), ()),
    "a double": (lambda n, m: np.array(0.9**n * m), ()),
    "a whole number": (lambda n, m: np.int32(n * 7919 % 101), ()),
    "a truth": (lambda n, m: np.array(n % 3 == 0), ()),
    "drawn": (lambda n, m: np.random.default_rng(n + 99 * m).standard_normal((n, m)).astype(F32), (0, 1)),
    "the last row": (lambda n, m: np.eye(n, dtype=F32)[-1:].T + np.zeros(m, F32), (0,)),
    "columns": (lambda n, m: np.broadcast_to(np.sin(np.arange(m) / m).astype(BF16), (n, 2, m)), (2,)),
    "alike": (lambda n, m: np.full((n, m), np.exp(-n), F32), ()),
    "extremes": (lambda n, m: np.array([-0.0, np.nan, np.inf, n % 5 or -np.inf, 5e-324])[:, None] * np.ones(m), (0,)),
    "fewer and fewer": (lambda n, m: np.random.default_rng(n).standard_normal((m - 2, 2)).astype(F32), (0, 1)),
    "bits": (lambda n, m: (np.arange(n) ** 3 % 251).astype(np.uint8), (0,)),
}


@pytest.mark.parametrize("name", HANDED)
def test_what_follows_no_size_is_handed_over(name: str) -> None:
    """Larger ones than those that were seen too."""
    value, axes = HANDED[name]
    body = _body(value)
    generic = unified(body, *SIZES, limits=Limits(hands=True))
    for sizes in (*SIZES, *OTHERS):
        check_at(body, generic, *sizes)
    forms = [form for form in generic.literals.values() if isinstance(form, Handed)]
    assert [form.axes for form in forms] == [axes]
    assert not generic.is_guarded


def test_literals_are_handed_over_in_their_order_while_there_is_room() -> None:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        drawn = np.random.default_rng(n).standard_normal(8).astype(F32)
        rows = np.broadcast_to(drawn[:, None], (8, m))
        return [floats(b, n, m), b.constant(drawn), b.constant(rows), b.constant(drawn[0])]

    generic = unified(body, *SIZES, limits=Limits(hands=True))
    assert [p.shape.rank for p in generic.module.entry.params] == [2, 1, 1, 0]
    for sizes in OTHERS:
        check_at(body, generic, *sizes)
    large = lambda n, m: np.random.default_rng(n).standard_normal((n, literals.MOST_HANDED // 32))
    assert "a literal varies" in misfit(_body(large), *SIZES, limits=Limits(hands=True))


def test_a_literal_that_is_handed_over_is_the_same_along_other_dimensions() -> None:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        rows = np.full((n, m), np.exp(-n), F32)
        rows[-1, -1] += n == 64
        return [floats(b, n, m), b.constant(rows)]

    generic = unified(body, *SIZES, limits=Limits(hands=True))
    check_at(body, generic, 41, 6)
    assert "another literal" in prove.prove(generic, lowered(body, 64, 33)).reason
