"""The algebra of sizes against counting: what it says of two expressions holds at every size tried."""

from __future__ import annotations

import itertools
import random

import pytest

from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim, bounded, make, sym
from tfxla_cluster.ir.polynomial import as_dim, polynomial, same
from tfxla_cluster.ir.size_operators import OPERATORS
from tfxla_cluster.ir.size_proofs import at_most, divides

N, M, K = sym("n", 5), sym("m", 7), bounded("k", 6)
TWO = sym("two", 5, 2)
CAPPED = sym("capped", 5, 1, 8)
EVEN, ODD, THIRD = sym("even", 6, 2, None, 2), sym("odd", 7, 1, 9, 2, 1), sym("third", 5, 0, None, 3, 2)
VALUES = {"n": range(8), "m": range(8), "k": range(7), "two": range(2, 8), "capped": range(1, 9)}
VALUES |= {"even": range(2, 9, 2), "odd": range(1, 10, 2), "third": range(2, 12, 3)}
LEAVES = (N, M, K, TWO, CAPPED, EVEN, ODD, THIRD, -3, -1, 0, 1, 2, 3, 4)


def drawn(rng: random.Random, depth: int, any_divisor: bool = True) -> Dim:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(LEAVES)
    op, left = rng.choice(list(OPERATORS)), drawn(rng, depth - 1, any_divisor)
    if op in ("floordiv", "mod") and not any_divisor:
        return make(op, left, rng.choice((-2, 1, 2, 3, 4)))
    return make(op, left, drawn(rng, depth - 1, any_divisor))


def environments(rng: random.Random) -> list[dict[str, int]]:
    corners = [dict(zip(VALUES, ends)) for ends in itertools.product(*((v[0], v[-1]) for v in VALUES.values()))]
    return rng.sample(corners, 60) + [{name: rng.choice(values) for name, values in VALUES.items()} for _ in range(60)]


def test_the_normal_form_is_worth_the_expression() -> None:
    rng = random.Random(3)
    for _ in range(400):
        dim = drawn(rng, 4)
        normal = as_dim(polynomial(dim))
        assert polynomial(normal) == polynomial(dim), f"{dim} -> {normal}: not one form"
        for env in environments(rng):
            assert dims.evaluate(normal, env) == dims.evaluate(dim, env), f"{dim} -> {normal} at {env}"


@pytest.mark.parametrize("any_divisor", [False, True])
def test_what_is_proven_holds(any_divisor: bool) -> None:
    """And enough is proven: of the pairs that hold at all sizes tried, most are, where divisors are numbers."""
    rng, hold, proven = random.Random(5), 0, 0
    for _ in range(1200):
        a, b = drawn(rng, 3, any_divisor), drawn(rng, 3, any_divisor)
        pairs = [(dims.evaluate(a, env), dims.evaluate(b, env)) for env in environments(rng)]
        assert not same(a, b) or all(x == y for x, y in pairs), f"{a} == {b}"
        for divisor in (2, 3):
            assert not divides(divisor, a) or all(x % divisor == 0 for x, _ in pairs), f"{divisor} divides {a}"
        if at_most(a, b):
            assert all(x <= y for x, y in pairs), f"{a} <= {b}"
            proven += 1
        hold += all(x <= y for x, y in pairs)
    assert proven > (0.6 if any_divisor else 0.9) * hold > 200


EQUAL = [
    (N * M, M * N),
    ((N + 1) * M, N * M + M),
    (make("floordiv", 1 + N, 2), make("floordiv", N + 1, 2)),
    ((N * 4 + 3) // 4, N),
    ((N * 4 + 6) // 4, N + 1 + 0 * M),
    (N // 2 // 3, N // 6),
    ((N // 2 + 1) // 2, (N + 2) // 4),
    (N % 2 + N // 2 * 2, N),
    (make("max", N, 0), N),
    (make("max", N - 1, M - 1) + 1, make("max", M, N)),
    (make("min", N, M) + make("max", M, N), N + M),
    (make("min", K, 6), K),
    (K // 7, 0),
    ((CAPPED + 29) // 10, 3),
    (make("floordiv", N, -2), make("floordiv", N * -1, 2)),
    (make("max", N * 2 - 2, 0), make("max", N - 1, 0) * 2),
    (N // 0 + N % 0, 0),
    (EVEN // 2 * 2, EVEN),
    ((EVEN + 1) // 2, EVEN // 2),
    ((ODD + 1) // 2 * 2, ODD + 1),
    (ODD % 2 + ODD % 4 // 2 * 2, ODD % 4),
    ((EVEN * ODD + EVEN // 2) // EVEN * 0, 0),
    (EVEN * ODD, EVEN + (ODD // 2) * EVEN * 2),
    ((THIRD + 1) // 3 * 3, THIRD + 1),
    (EVEN % 2 + THIRD % 3, 2),
    ((EVEN // 2 + ODD // 2) // 2, (EVEN + ODD - 1) // 4),
]
DIFFERENT = [
    ((CAPPED + 22) // 10, 3),
    (N, M),
    (N, 5),
    (N * M, N),
    (N // 2 * 2, N),
    (N * M // M, N),
    (make("max", N - 1, 0), N - 1),
]
DIFFERENT += [(EVEN // 4 * 4, EVEN), (ODD // 2 * 2, ODD), (THIRD // 3, THIRD)]


@pytest.mark.parametrize(("a", "b"), EQUAL, ids=str)
def test_equal(a: Dim, b: Dim) -> None:
    assert same(a, b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=str)
def test_not_equal(a: Dim, b: Dim) -> None:
    """Each pair differs at some size, though samples may agree."""
    assert not same(a, b)


AT_MOST = [
    (N, N + M),
    (N - 1, N),
    (N // 2, N),
    ((N + 1) // 2, N),
    (K, 6),
    (1, TWO),
    (N, N * TWO),
    (N, N * N),
    (N * CAPPED, N * 8),
    (make("min", N, M), N),
    (N, make("max", N, M)),
    (make("max", N - 3, 0), N),
    ((N - 3) // 2 + 1, N),
    (0, make("max", (N - 3) // 2 + 1, 0)),
    (N % 4, 3),
    (2, EVEN),
    (ODD // 2, 4),
    (EVEN // 2 + 1, EVEN),
    (2, THIRD),
]
OVER = make("max", N - 3, 0)  # of which the square is more where N - 3 is negative
BELOW = make("floordiv", N - 3, M + 1)  # negative where N is small: no power of it is more than a lower one
NOT_PROVEN = [(9, OVER * OVER + 6 * N), (BELOW, BELOW * BELOW * BELOW)]
NOT_PROVEN += [(3, EVEN), (ODD, 8), (1, N), (N, N * M), (N, 2 * N - 1), (K, 5), (3, TWO), (N - M, 0), (N // 2 + 1, N)]


@pytest.mark.parametrize(("a", "b"), AT_MOST, ids=str)
def test_at_most(a: Dim, b: Dim) -> None:
    assert at_most(a, b)


@pytest.mark.parametrize(("a", "b"), NOT_PROVEN, ids=str)
def test_not_at_most(a: Dim, b: Dim) -> None:
    assert not at_most(a, b)


def test_sizes_of_one_name_keep_their_numbers() -> None:
    """The memory of terms does not take a size of another module for this one."""
    for bound in (6, 90):
        (atom,) = polynomial(bounded("k", bound) * 2).keys() - {()}
        assert atom[0].number == bound
