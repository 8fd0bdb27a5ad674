"""Guards: what each kind means, and what is said of one that fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tfxla_cluster.ir import guard as guards
from tfxla_cluster.ir.dim import sym
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.guard import Guard, divisible, in_range
from tfxla_cluster.ir.shape import array


@dataclass(frozen=True)
class View:
    dims: tuple[int, ...]
    dtype: int = 1
    data: bytes = b""

    def bytes(self) -> bytes:
        return self.data


class Names:
    def input(self, number: int) -> str:
        return f"argument '{'xyz'[number]}'"

    def dtype(self, number: int) -> str:
        return {1: "float32", 2: "float64"}[number]

    def value(self, number: int, data: bytes) -> str:
        return str(list(data))


TWO = (View((32, 4)), View((4,)))
ROWS: list[tuple[Guard, Sequence[View], str]] = [
    (Guard("dtype", 0, 1), [View((), 2)], "argument 'x': dtype was float32, is float64"),
    (Guard("rank", 0, 2), [View((3,))], "argument 'x': rank was 2, is 1"),
    (Guard("equal", (0, 0), 32), [View((33,))], "argument 'x': dim 0 was 32, is 33"),
    (in_range((0, 1), 1, 100), [View((7, 0))], "argument 'x': dim 1 has to be 1 to 100, is 0"),
    (in_range((0, 0), 1, 100), [View((101,))], "argument 'x': dim 0 has to be 1 to 100, is 101"),
    (in_range((0, 0), 2, guards.LARGEST), [View((1,))], "argument 'x': dim 0 has to be at least 2, is 1"),
    (divisible((0, 0), 8), [View((12,))], "argument 'x': dim 0 has to be a multiple of 8, is 12"),
    (guards.residue((0, 0), 4, 3), [View((12,))], "argument 'x': dim 0 has to be 3 more than a multiple of 4, is 12"),
    (guards.residue((0, 0), 8, 0), [View((12,))], "argument 'x': dim 0 has to be a multiple of 8, is 12"),
    (
        Guard("same", (1, 0), (0, 1)),
        [View((2, 3)), View((4,))],
        "argument 'y': dim 0 has to be dim 1 of argument 'x', is 4",
    ),
    (Guard("value", 0, b"\1\2"), [View((2,), data=b"\1\3")], "argument 'x': value was [1, 2], is [1, 3]"),
]


@pytest.mark.parametrize(("guard", "inputs", "words"), ROWS)
def test_a_failing_guard_is_named(guard: Guard, inputs: Sequence[View], words: str) -> None:
    assert not guard.holds(inputs)
    assert guards.failed([guard], inputs) == [guard]
    assert guards.explain(guard, inputs, Names()) == words


@pytest.mark.parametrize(
    ("guard", "inputs"),
    [
        (Guard("dtype", 1, 2), [View(()), View((), 2)]),
        (Guard("rank", 0, 0), [View(())]),
        (Guard("equal", (1, 0), 4), TWO),
        (in_range((0, 0), 32, 32), TWO),
        (in_range((0, 0), 0, 2**62), [View((0,))]),
        (divisible((0, 0), 16), TWO),
        (divisible((0, 0), 7), [View((0,))]),
        (Guard("same", (1, 0), (0, 1)), TWO),
        (Guard("value", 0, b""), [View((0,))]),
    ],
)
def test_a_guard_holds(guard: Guard, inputs: Sequence[View]) -> None:
    assert guard.holds(inputs)
    assert guards.failed([guard], inputs) == []


def test_a_dim_that_is_not_there_fails() -> None:
    assert not Guard("equal", (0, 3), 4).holds(TWO)
    assert not Guard("same", (1, 0), (0, 3)).holds(TWO)


def test_of_another_rank_the_sizes_are_not_named() -> None:
    wanted = [*guards.of_shape(0, (32, 4)), *guards.of_shape(1, (5,)), Guard("value", 1, b"ab")]
    found = guards.failed(wanted, [View((33,)), View((4,))])
    assert found == [Guard("rank", 0, 2), Guard("equal", (1, 0), 5)]


def test_empty_conditions_are_errors() -> None:
    with pytest.raises(ValueError, match="in 3 to 2"):
        in_range("n", 3, 2)
    with pytest.raises(ValueError, match="multiple of 0"):
        divisible("n", 0)
    with pytest.raises(ValueError, match="leaves 2 when divided by 2"):
        guards.residue("n", 2, 2)


def test_shapes_say_ranks_static_dims_ranges_and_equal_sizes() -> None:
    f32, n, m = DTYPES["f32"], sym("n", 5), sym("m", 7, 2, 64)
    shapes = [array(f32, (n, 3)), array(f32, (m, n)), array(f32)]
    assert guards.of_shapes(shapes) == (
        Guard("rank", 0, 2),
        Guard("rank", 1, 2),
        Guard("rank", 2, 0),
        Guard("equal", (0, 1), 3),
        in_range((1, 0), 2, 64),
        Guard("same", (1, 1), (0, 0)),
    )


def test_names_of_sizes_get_places() -> None:
    added = [in_range("n", 1, 9), Guard("same", "m", "n"), Guard("dtype", 0, 1)]
    places = {"n": (0, 1), "m": (2, 0)}
    assert guards.placed(added, places) == (in_range((0, 1), 1, 9), Guard("same", (2, 0), (0, 1)), Guard("dtype", 0, 1))
    with pytest.raises(KeyError, match="k"):
        guards.placed([divisible("k", 2)], places)


def test_inputs_are_renumbered() -> None:
    old = [Guard("rank", 0, 1), Guard("same", (1, 0), (0, 0)), Guard("equal", (2, 0), 3)]
    assert guards.moved(old, [5, 4, -1]) == (Guard("rank", 5, 1), Guard("same", (4, 0), (5, 0)))
    assert guards.moved(old, [-1, 4, 0]) == (Guard("equal", (0, 0), 3),)


def test_differences_in_words() -> None:
    old = [*guards.of_shape(0, (32, 4)), *guards.of_shape(1, ()), Guard("value", 1, b"\1")]
    new = [*guards.of_shape(0, (33,)), *guards.of_shape(1, ()), Guard("value", 1, b"\2")]
    assert guards.differences(old, new, Names()) == [
        "argument 'x': rank was 2, is 1",
        "argument 'y': value was [1], is [2]",
    ]
    facts = guards.facts({"target": "znver3"}), (*guards.facts({"target": "znver3"}), Guard("flag", "fast", "True"))
    assert guards.differences(*facts) == ["fast: was absent, is True"]


def test_json_round_trip() -> None:
    every = [row[0] for row in ROWS] + [*guards.facts({"target": "x"})]
    every += [Guard(kind, "fast", "True") for kind in ("flag", "python", "constexpr")]
    assert {guard.kind for guard in every} == set(guards.KINDS)
    assert guards.from_data(json.loads(json.dumps(guards.to_data(every)))) == tuple(every)


@pytest.mark.parametrize("row", [["odd", 0, 1], ["equal", None, 1], ["equal", [0], 1], ["rank", 0], ["value", 0, "?"]])
def test_what_is_no_guard_is_an_error(row: list[object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        guards.from_data([row])
