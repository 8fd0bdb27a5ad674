"""The search measures a tenth of a large space and ends near its best; of a small one it measures all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from tfxla_cluster.codegen.kernel.choice import Candidates, Choice
from tfxla_cluster.tuning.search import EXHAUSTIVE, SHARE, search

SPACE = {
    "rows": (64, 16, 32, 128, 256),
    "cols": (64, 16, 32, 128, 256),
    "depth": (32, 16, 64, 128),
    "warps": (4, 2, 8),
    "stages": (3, 2, 4),
    "splits": (1, 2, 4, 7),
}


class Machine:
    """Times by a formula; keeps what it was asked."""

    def __init__(self, optimum: Mapping[str, int], shared: int = 10**9) -> None:
        self.optimum, self.shared, self.asked = optimum, shared, list[Choice]()

    def seconds(self, choice: Choice) -> float:
        """Each knob costs by its distance from the best, in doublings; too much memory falls out."""
        if (choice["rows"] + choice["cols"]) * choice["depth"] * choice["stages"] > self.shared:
            return math.inf
        return 1e-3 * math.prod(1 + 0.15 * abs(math.log2(choice[n] / v)) for n, v in self.optimum.items())

    def __call__(self, candidates: Sequence[Choice]) -> dict[Choice, float]:
        self.asked += candidates
        return {c: self.seconds(c) for c in candidates}


@pytest.mark.parametrize(
    "optimum",
    [
        {"rows": 128, "cols": 256, "depth": 64, "warps": 8, "stages": 3, "splits": 1},
        {"rows": 16, "cols": 16, "depth": 128, "warps": 2, "stages": 4, "splits": 7},
        {"rows": 64, "cols": 64, "depth": 32, "warps": 4, "stages": 3, "splits": 1},
    ],
)
@pytest.mark.parametrize("shared", [10**9, 40_000])
def test_a_tenth_of_the_space_is_enough(optimum: dict[str, int], shared: int) -> None:
    machine, space = Machine(optimum, shared), Candidates(SPACE)
    found = search(space, machine, lambda: False)
    assert len(machine.asked) == len(set(machine.asked)) == len(found) <= len(space) / SHARE
    assert min(found.values()) <= 1.05 * min(map(machine.seconds, space))


def test_a_small_space_is_measured_whole() -> None:
    space = Candidates({"rows": (1, 2, 4, 8), "cols": (1, 2, 4, 8)})
    assert len(space) == EXHAUSTIVE
    asked: list[Choice] = []

    def evaluate(candidates: Sequence[Choice]) -> dict[Choice, float]:
        asked.extend(candidates)
        return dict.fromkeys(candidates, 1.0)

    assert search(space, evaluate, lambda: False).keys() == set(space)
    assert asked == list(space)


def test_it_stops_when_told_and_has_the_default() -> None:
    machine, space = Machine({"rows": 256}), Candidates(SPACE)
    assert list(search(space, machine, lambda: True)) == [space[0]]
    small = Candidates({**SPACE, "cols": (64,), "depth": (32,), "warps": (4,), "stages": (3,), "splits": (1,)})
    assert list(search(small, machine, lambda: True)) == [small[0]]


@pytest.mark.parametrize("space", [SPACE, {"rows": (1, 2)}])
def test_choices_outside_the_space_are_measured_too(space: dict[str, tuple[int, ...]]) -> None:
    """The walk goes by the space alone; the fastest of all wins."""
    others = [Choice({"library": n}) for n in range(3)]
    seconds = {others[0]: 2.0, others[1]: 1e-9, others[2]: math.inf}

    def evaluate(candidates: Sequence[Choice]) -> dict[Choice, float]:
        return {c: seconds[c] if c in seconds else 1 + abs(c["rows"] - 16) for c in candidates}

    found = search(Candidates(space, others), evaluate, lambda: False)
    assert seconds.items() <= found.items()
    assert min(found, key=found.__getitem__) == others[1]
    assert found.keys() - set(others) == search(Candidates(space), evaluate, lambda: False).keys()


def test_one_candidate() -> None:
    only = Candidates({"rows": (1,)})
    assert search(only, lambda c: dict.fromkeys(c, 2.0), lambda: False) == {only[0]: 2.0}
