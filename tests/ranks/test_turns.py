"""One rank compiles, the others get the bytes (tfxla_cluster.ranks.turns, tfxla_cluster.handover)."""

from __future__ import annotations

import contextlib
import time
from functools import partial

import pytest

from tests.ranks.memory_board import LONG, MemoryBoard, boards, together
from tfxla_cluster.errors import RankError
from tfxla_cluster.handover import Handing, Handover
from tfxla_cluster.ir import guard
from tfxla_cluster.ranks import board as texts
from tfxla_cluster.ranks.exchange import Exchange
from tfxla_cluster.stored import entry

KEY = guard.facts({"hlo": "a module"})
CODE = {"plan.json": b"{}", "object.0": bytes(range(256))}


def exchanges(count: int) -> list[Exchange]:
    return [Exchange(board) for board in boards(count)]


def board_of(exchange: Exchange) -> MemoryBoard:
    assert isinstance(exchange.board, MemoryBoard)
    return exchange.board


def handed(exchange: Exchange, seconds: float = LONG, compile_s: float = 0.2) -> tuple[bool, dict[str, bytes]]:
    """(whether it was compiled here, the executable)."""
    with exchange.turn("key") as turn:
        handover = Handover(Handing(exchange, turn, KEY, "f", "f", seconds))
        found = handover.take()
        if found is not None:
            return False, dict(found)
        time.sleep(compile_s)
        handover.give(CODE)
        return True, CODE


def test_one_compiles() -> None:
    found = together(*(partial(handed, exchange) for exchange in exchanges(4)))
    assert sorted(compiled for compiled, _ in found) == [False, False, False, True]
    assert all(code == CODE for _, code in found)


def test_an_answer_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board has what this rank wrote, which does not know it: it is its turn all the same."""
    one, other = exchanges(2)

    def put(board: MemoryBoard, key: str, value: str) -> bool:
        return original(board, key, value) and not key.startswith("turn/")

    original = MemoryBoard.put
    monkeypatch.setattr(MemoryBoard, "put", put)
    assert handed(one) == (True, CODE)
    assert handed(other) == (False, CODE)


def test_two_threads_of_one_rank() -> None:
    (one,) = exchanges(1)
    assert sorted(compiled for compiled, _ in together(partial(handed, one), partial(handed, one))) == [False, True]


def test_it_is_there_for_who_comes_later() -> None:
    one, other = exchanges(2)
    assert handed(one) == (True, CODE)
    assert handed(other) == handed(one) == (False, CODE)


def test_one_that_fails() -> None:
    """Who waits compiles for itself, and finds the same."""
    one, other = exchanges(2)
    with contextlib.suppress(ZeroDivisionError), one.turn("key") as turn:
        assert turn.is_ours
        raise ZeroDivisionError
    assert handed(other) == (True, CODE)
    with other.turn("key") as turn:
        assert turn.take(LONG) == (None, "worker 0 could not compile it, or not hand it over")


def test_one_that_ends_while_it_compiles() -> None:
    one, other = exchanges(2)
    turn = one.turn("key")
    board_of(one).shared.ended[0] = "no heartbeat"
    with other.turn("key") as waiting:
        start = time.monotonic()
        assert waiting.take(LONG) == (None, "worker 0 has ended while it compiled it (no heartbeat)")
        assert time.monotonic() - start < 10
    assert turn.is_ours


def test_one_that_takes_too_long() -> None:
    one, other = exchanges(2)
    with one.turn("key"), other.turn("key") as waiting:
        assert waiting.take(0.2) == (None, "worker 0 did not compile it within 0.2 s")
        assert handed(other, 0.2) == (True, CODE)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = exchanges(2)
    monkeypatch.setattr(texts, "MOST_BYTES", 10)
    assert handed(one) == handed(other) == (True, CODE)


@pytest.mark.parametrize(
    "value", ["?", texts.pack(b"no entry"), texts.pack(entry.pack(guard.facts({"hlo": "another"}), CODE))]
)
def test_bytes_that_are_no_executable_of_this_key(value: str) -> None:
    one, other = exchanges(2)
    with one.turn("key"):
        board_of(one).put("code/key", value)
    assert handed(other) == (True, CODE)


def test_a_board_that_is_gone() -> None:
    one, _ = exchanges(2)
    with one.turn("key") as turn:
        board_of(one).shared.is_gone = True
        Handover(Handing(one, turn, KEY, "f", "f", LONG)).give(CODE)
    with pytest.raises(RankError, match="cannot be reached"):
        one.turn("key")


def test_alone() -> None:
    handover = Handover()
    assert handover.take() is None
    assert not handover.is_wanted
    handover.give(CODE)
