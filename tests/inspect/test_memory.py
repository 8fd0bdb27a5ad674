"""Memory over the schedule: what files say of it, the sums against a plain count, and the page."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.inspect import sample
from tests.inspect.pages import site, tab
from tfxla_inspect import memory, memory_page, report
from tfxla_inspect.parsers import buffers, lives
from tfxla_inspect.parsers.lives import Lives, Value

STOCK = """BufferAssignment:
allocation 0: size 60, parameter 1, shape |f32[3,5]| at ShapeIndex {}:
 value: <8 y.1 @0> (size=60,offset=0): f32[3,5]{1,0}
allocation 1: size 20, output shape is |f32[5]|, maybe-live-out:
 value: <10 fusion @0> (size=20,offset=0): f32[5]{0}
allocation 2: size 4, thread-local:
 value: <2 add.5 @0> (size=4,offset=0): f32[]
allocation 3: size 208, preallocated-temp:
 value: <9 dot.1{0} @0> (size=80,offset=0): f32[4,5]{1,0}
 value: <11 exp @0> (size=80,offset=128): f32[4,5]{1,0}
"""
RANGES = """HloLiveRange (max 3):
  InstructionSequence:
    0:y.1
    1:dot.1
    2:exp
    3:fusion
  BufferLiveRange:
    y.1{}:0-4
    dot.1{0}:1-2
    exp{}:2-3
    fusion{}:3-4
  Live ranges at 2 (peak):
    exp{}: 80 bytes (cumulative: 80 bytes)
"""


def test_xla_s_live_ranges() -> None:
    found = lives.of_text(RANGES, buffers.parse(STOCK))
    assert found is not None
    assert found.steps == [(0, "y.1"), (2, "dot.1"), (4, "exp"), (6, "fusion")]
    made = memory.timeline(found)
    assert made.temporary == [0, 80, 160, 80]
    assert (made.peak, made.most, made.inputs, made.outputs, made.lives.arena) == (2, 160, 60, 20, 208)
    assert [one.names(2) for one in made.at(2)] == [["dot.1{0}"], ["exp"]]
    assert lives.of_text(STOCK, buffers.parse(STOCK)) is None
    assert lives.of_text(RANGES, []) is None


def drawn(dice: random.Random) -> Lives:
    """Values that are alive at random, those of one place and size never at one time."""
    steps = [(2 * n, f"s{n}") for n in range(dice.randrange(1, 12))]
    end, values = 2 * len(steps) + 1, []
    for place in range(dice.randrange(6)):
        kind, tick = dice.choice(["temp", "temp", "temp", "input", "output"]), 0
        for number in range(dice.randrange(4)):
            start = tick + dice.randrange(4)
            tick = start + dice.randrange(1, 6)
            if tick <= end:
                values.append(Value(f"v{place}.{number}", 8 * (place + 1), kind, place, 64 * place, ((start, tick),)))
    return Lives(steps, values, 64 * 6)


@pytest.mark.parametrize("seed", range(100))
def test_sums_are_those_of_a_plain_count(seed: int) -> None:
    given = drawn(random.Random(seed))
    made = memory.timeline(given)
    plain = [
        sum(v.bytes for v in given.values if v.kind == "temp" and any(a <= tick + 1 < b for a, b in v.live))
        for tick, _ in given.steps
    ]
    assert made.temporary == plain
    assert plain[made.peak] == max(plain) == made.most
    for step in range(len(plain)):
        assert sum(h.bytes for h in made.at(step)) == plain[step]
        assert all(h.around(step)[0] <= step <= h.around(step)[1] for h in made.at(step))
    text = memory_page.build(made, "m0", {"v0.0": "a.py:1  <x>"}, ["argument 'x'"])
    assert "<x>" not in text


def test_a_value_written_over_another_counts_once() -> None:
    values = [Value("a", 100, "temp", 0, 0, ((1, 4),)), Value("b", 100, "temp", 0, 0, ((3, 6),))]
    made = memory.timeline(Lives([(0, "x"), (2, "y"), (4, "z")], values, 128))
    assert made.temporary == [100, 100, 100]
    assert made.at(1)[0].names(1) == ["a", "b"]
    assert made.at(2)[0].names(2) == ["b"]


ODD: list[Any] = [None, [], {}, "x", -1, 1.5, True, 2**70, [[1]], [["a", 2]], [[5, 1]], float("inf")]


@pytest.mark.parametrize("seed", range(40))
def test_files_that_are_damaged_give_what_is_whole(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    record = json.loads((sample.write(tmp_path) / "module_0000.cluster_0.buffers.json").read_text())
    for _ in range(3):
        holder = dice.choice([record, *[b for b in record["buffers"] if isinstance(b, dict)]])
        holder[dice.choice(list(holder))] = dice.choice(ODD)
        if not isinstance(record["buffers"], list):
            break
    found = lives.of_json(record)
    if found is not None:
        memory_page.build(memory.timeline(found), "m0", {}, [])


def test_the_page_of_a_dump(tmp_path: Path) -> None:
    made = report.build(sample.write(tmp_path))
    assert [t["id"] for t in site(made)["m0"]["tabs"]].count("memory") == 1
    text = tab(made, "m0", "memory")
    assert "Most is held at step 1 of 4" in text
    assert "384 B in 1 place" in text
    assert "p1" in text
    assert text.count("<rect") == 2  # what lies there one after the other is one stay
