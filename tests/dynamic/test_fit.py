"""Expressions over sizes that are neither products nor sums (tfxla_cluster.dynamic.fit): parts, blocks, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dynamic.test_unify import Body, check_at, floats, unified
from tfxla_cluster.dynamic.fit import is_guess
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import Dim, make, sym
from tfxla_cluster.ir.node import Instr


def _sliced(length: Callable[[int], int]) -> Body:
    return lambda b, n: [b.slice(floats(b, n, 2), [(0, length(n), 1), (0, 2, 1)])]


def _blocks(b: Builder, n: int) -> list[Instr]:
    """Filled up to blocks of 8, cut to pairs, and what is left of each."""
    x = floats(b, n)
    full = b.reshape(b.pad(x, b.constant(0.0), [(0, -n % 8)]), [-(-n // 8), 8])
    pairs = b.reshape(b.slice(x, [(0, n // 2 * 2, 1)]), [n // 2, 2])
    return [full, pairs, b.slice(x, [(n // 2 * 2, n, 1)])]


N = sym("n", 7, 2)
ROUNDED: dict[str, Body] = {
    "two thirds": _sliced(lambda n: 2 * n // 3),
    "nine tenths": _sliced(lambda n: 9 * n // 10),
    "up": _sliced(lambda n: -(-3 * n // 4)),
    "at most 12": _sliced(lambda n: min(n, 12)),
    "beyond 12": _sliced(lambda n: max(n - 12, 0)),
    "windows": _sliced(lambda n: (n - 3) // 2 + 1),
    "half and more": _sliced(lambda n: n // 3 + 5),
    "the middle": lambda b, n: [b.slice(floats(b, n, 2), [(n // 2, n // 2 + 1, 1), (0, 2, 1)])],
    "trimmed": lambda b, n: [b.slice(floats(b, n, 2), [(7, max(n - 6, 7), 1), (0, 2, 1)])],
    "blocks": _blocks,
    "up to 64": lambda b, n: [b.pad(floats(b, n), b.constant(1.0), [(0, 64 - n)])],
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_and_limited_sizes(name: str) -> None:
    generic = unified(ROUNDED[name], (7,), (15,), (22,), (29,), (36,))
    for n in (7, 9, 12, 13, 24, 31, 50):
        check_at(ROUNDED[name], generic, n)


def test_a_range_is_less_than_a_guess() -> None:
    """Of 5 and 8 rows [2:-2] ends at 3 and 6: n - 2 from 4 on, not n // 3 * 3 of all."""
    body: Body = lambda b, n: [b.slice(floats(b, n, 2), [(2, n - 2, 1), (0, 2, 1)])]
    generic = unified(body, (5,), (8,))
    for n in (4, 13, 64, 100):
        check_at(body, generic, n)


def test_the_likelier_of_two_sizes() -> None:
    """Where one varies by twice what the other does, m - 3 is 2 * n - 5 just as well."""
    body: Body = lambda b, n, m: [b.slice(floats(b, m, n), [(0, m - 3, 1), (0, n, 1)])]
    generic = unified(body, (21, 40), (5, 8))
    for sizes in ((8, 11), (13, 100)):
        check_at(body, generic, *sizes)


def test_steps_beyond_what_there_is() -> None:
    """All sizes of the module take one row, which the program then is without."""
    body: Body = lambda b, n: [b.reshape(b.slice(floats(b, n, 2), [(0, n, 50), (0, 2, 1)]), [2])]
    generic = unified(body, (5,), (37,))
    for n in (2, 13, 50):
        check_at(body, generic, n)
    assert generic.module.entry.params[0].shape.dims[0].high == 50


@pytest.mark.parametrize(
    ("dim", "guess"),
    [(N, False), (N * 700 + 3, False), (N * N * 5, False), (N + 90, True), (N // 3, True), (make("max", N, 9), True)],
)
def test_what_two_modules_do_not_tell(dim: Dim, guess: bool) -> None:
    assert is_guess(dim) is guess
