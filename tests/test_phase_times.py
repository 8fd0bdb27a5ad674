"""Times of phases add up, however they are shown."""

from __future__ import annotations

import random

import pytest

from tfxla_cluster import trace
from tfxla_cluster.phase_times import REST, PhaseTimes

NAMES = "abcdef"


def drawn(dice: random.Random, depth: int = 0) -> PhaseTimes:
    """With a second of its own or none, and phases inside that repeat names."""
    times = PhaseTimes()
    for _ in range(dice.randrange(4) if depth < 4 else 0):
        inner = drawn(dice, depth + 1)
        times.seconds += inner.seconds
        times.add(dice.choice(NAMES), inner)
    times.seconds += dice.choice([0, 1, 2])
    return times


@pytest.mark.parametrize("seed", range(200))
def test_the_sum_is_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    times = drawn(dice)
    apart, opened = ({n for n in NAMES if dice.random() < 0.3} for _ in range(2))
    found = times.milliseconds(apart, opened - apart)
    assert sum(found.values()) == pytest.approx(times.seconds * 1e3)
    assert min(found.values()) >= 0
    assert not found.keys() & (opened - apart)


def test_phases_apart_and_opened() -> None:
    tuned = PhaseTimes(6, {"assembler": PhaseTimes(5)})
    code = PhaseTimes(10, {"assembler": PhaseTimes(7), "dump": PhaseTimes(1)})
    compiled = PhaseTimes(20, {"lower": PhaseTimes(8, {"tuning": tuned}), "codegen": code})
    whole = PhaseTimes(23, {"cache": PhaseTimes(1), "compile": compiled})
    assert whole.milliseconds({"assembler", "dump", "tuning"}, {"compile"}) == {
        **{"cache": 1e3, "lower": 2e3, "tuning": 6e3},  # what tuning assembles is tuning
        **{"codegen": 2e3, "assembler": 7e3, "dump": 1e3},
        REST: 4e3,
    }
    assert whole.milliseconds() == {"cache": 1e3, "compile": 20e3, REST: 2e3}


def test_a_phase_that_is_open_tells_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(trace.time, "perf_counter", lambda: next(now))
    with trace.phase("outer") as outer:  # 0
        with trace.phase("inner"):  # 1 to 2
            pass
        assert outer.seconds == 4  # once when the inner one ended, once now
        assert outer.times.parts["inner"].seconds == 1
    assert outer.seconds == outer.seconds == 6
