"""Ranks meet (tfxla_cluster.ranks.meetings): all of them, some, late, ended, elsewhere; whatever happens, it ends."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.ranks.memory_board import LONG, MemoryBoard, boards, together
from tfxla_cluster.errors import RankError
from tfxla_cluster.ranks import board as texts
from tfxla_cluster.ranks.meetings import Meetings, Met, Topic

PATIENCE = 0.3


def topic(name: str, function: str = "") -> Topic:
    return Topic(name, function or name, f"function {name}")


def meetings(count: int) -> list[Meetings]:
    return [Meetings(board, PATIENCE) for board in boards(count)]


def board_of(one: Meetings) -> MemoryBoard:
    assert isinstance(one._board, MemoryBoard)
    return one._board


def test_all_come() -> None:
    ranks = meetings(5)
    found = together(*(partial(one.meet, topic("f"), {"size": n}, LONG) for n, one in enumerate(ranks)))
    for met in found:
        assert list(met.offers) == [0, 1, 2, 3, 4]
        assert met.offers == {n: {"size": n} for n in range(5)}
        assert (met.missing, met.is_failed) == ({}, False)


def test_one_that_comes_later_is_waited_for() -> None:
    one, other = meetings(2)

    def later() -> Met:
        time.sleep(3 * PATIENCE)
        return other.meet(topic("f"), 1, LONG)

    early, late = together(partial(one.meet, topic("f"), 0, LONG), later)
    assert early.offers == late.offers == {0: 0, 1: 1}
    assert early.seconds >= 2 * PATIENCE > late.seconds


def test_one_that_does_not_come_is_told_in_time() -> None:
    one, other = meetings(2)
    met = one.meet(topic("f"), 0, 0.5)
    assert met.is_failed
    assert met.offers == {0: 0}
    assert "worker 1 did not come in 0." in met.missing[1]
    assert "it has compiled nothing with --tfxla_compiler_collectives" in met.missing[1]
    assert 0.5 <= met.seconds < 5
    assert one.meet(topic("g"), 0, 5.0).seconds < 2.5  # a tenth
    again = other.meet(topic("f"), 1, LONG)  # the others went on; what they had is there
    assert again.offers == {0: 0, 1: 1}
    assert not again.missing
    assert one.meet(topic("f"), 0, 0.5).offers == {0: 0, 1: 1}
    assert "what it compiled last is function f" in one.meet(topic("h"), 0, 0.5).missing[1]


def test_one_that_has_ended() -> None:
    one, other, third = meetings(3)
    board_of(one).shared.ended[2] = "no heartbeat"
    for met in together(partial(one.meet, topic("f"), 0, LONG), partial(other.meet, topic("f"), 1, LONG)):
        assert met.is_failed
        assert met.offers == {0: 0, 1: 1}
        assert met.missing == {2: "worker 2 has ended (no heartbeat)"}
        assert met.seconds < 10
    assert third.meet(topic("f"), 2, LONG).offers == {0: 0, 1: 1, 2: 2}  # what it said before it counts


def test_two_that_wait_for_each_other() -> None:
    """The lower one goes on, and meets the other where that one is."""
    one, other = meetings(2)

    def lower() -> list[Met]:
        return [one.meet(topic("only here"), 0, LONG), one.meet(topic("f"), 0, LONG)]

    (alone, first), (second,) = together(lower, lambda: [other.meet(topic("f"), 1, LONG)])
    assert alone.missing == {1: "worker 1 waits for this one at function f"}
    assert not alone.is_failed
    assert PATIENCE <= alone.seconds < 10
    assert first.offers == second.offers == {0: 0, 1: 1}


def test_the_same_function_is_another_program_there() -> None:
    one, other = meetings(2)
    found = together(partial(one.meet, topic("a", "f"), 0, LONG), partial(other.meet, topic("b", "f"), 1, LONG))
    for rank, met in enumerate(found):
        assert met.missing == {1 - rank: f"worker {1 - rank} has another program for it"}
        assert not met.is_failed
        assert met.seconds < 10


def test_a_compilation_under_way_is_waited_for() -> None:
    """It may be what the other one is waiting for."""
    one, other = meetings(2)

    def busy() -> Met:
        with ThreadPoolExecutor(1) as pool:
            one.compiles(1)
            waiting = pool.submit(one.meet, topic("a"), 0, LONG)
            time.sleep(4 * PATIENCE)
            one.compiles(-1)
            one_at_b = one.meet(topic("b"), 0, LONG)
            assert not one_at_b.missing
            return waiting.result(LONG)

    def idle() -> Met:
        assert not other.meet(topic("b"), 1, LONG).missing
        return other.meet(topic("a"), 1, LONG)

    assert all(not met.missing for met in together(busy, idle))


@pytest.mark.parametrize("seed", range(4))
def test_any_order_ends(seed: int) -> None:
    """Topics in another order on each rank, on fewer threads than there are topics: each is met by all, or told
    why not; nobody is late."""
    count, names, threads = 3, [f"t{n}" for n in range(6)], 2
    ranks = meetings(count)

    def run(rank: int) -> list[Met]:
        order = random.Random(seed * 10 + rank).sample(names, len(names))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda name: ranks[rank].meet(topic(name), [rank, name], LONG), order))

    for rank, found in enumerate(together(*(partial(run, rank) for rank in range(count)))):
        for met in found:
            assert not met.is_failed
            assert met.seconds < LONG / 2
            assert set(met.offers) | set(met.missing) == set(range(count))
            assert {tuple(offer)[1] for offer in met.offers.values()} == {met.offers[rank][1]}
            assert all(offer[0] == other for other, offer in met.offers.items())


def test_a_board_that_is_gone() -> None:
    one, _ = meetings(2)
    board_of(one).shared.is_gone = True
    with pytest.raises(RankError, match="cannot be reached"):
        one.meet(topic("f"), 0, LONG)


def test_what_a_rank_says_is_json() -> None:
    one, _ = meetings(2)
    one.meet(topic("f"), {"a": [1, "é\n"]}, 0.1)
    (said,) = [json.loads(v) for k, v in board_of(one).shared.values.items() if k == "at/0/0"]
    assert said["offer"] == {"a": [1, "é\n"]}


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 1000, bytes(range(256))])
def test_blobs(data: bytes) -> None:
    assert texts.unpack(texts.pack(data)) == data


@pytest.mark.parametrize("text", ["", "?", "AAAA", texts.pack(b"abc")[:-4]])
def test_no_blob(text: str) -> None:
    with pytest.raises(RankError, match="cannot be read"):
        texts.unpack(text)


def test_a_blob_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 10)
    with pytest.raises(OverflowError, match="more than the 10 that workers hand over"):
        texts.pack(bytes(range(100)))
