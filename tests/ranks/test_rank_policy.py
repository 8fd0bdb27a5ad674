"""Ranks come to the same modules (tfxla_cluster.rank_policy): each is a thread with its own families."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.dynamic.test_families import module, table
from tests.ranks.memory_board import MemoryBoard, boards, together
from tfxla_cluster import flags
from tfxla_cluster.dynamic import prove, rows, unify
from tfxla_cluster.dynamic.families import Choice, Families
from tfxla_cluster.errors import RankError
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import StoreOptions
from tfxla_cluster.rank_policy import RankPolicy, Wanted
from tfxla_cluster.ranks import board as texts
from tfxla_cluster.runtime.kept_modules import KeptModules
from tfxla_cluster.tf.compiler_port import CompileRequest

PATIENCE = 0.3


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    with flags.patch(tfxla_compiler_collectives=True):
        yield


class Rank:
    """One worker: what it has seen, and its view of the board."""

    def __init__(self, board: MemoryBoard | None, store: Path | None = None) -> None:
        self.families, self.board = Families(), board
        self.policy = RankPolicy(lambda: board, PATIENCE)
        self.store = None if store is None else StoreOptions(str(store))

    def choose(self, wanted: Module, kind: str = "must", name: str = "f", sample: Module | None = None) -> Choice:
        """As dynamic_policy does."""
        read = rows.of_module(wanted)
        served = self.families.serving(name, read)
        if served is not None:
            return served
        request = CompileRequest(name, kind, ("argument 'x'",), family=name, named=("x",), title=name)
        structure = rows.structure(read)
        kept = KeptModules(self.store, name, structure)
        found = self.policy.choose(
            self.families, Wanted(request, name, read, structure, unify.NONE, [lambda: sample], True, kept)
        )
        assert found.module is wanted or holds(found, wanted)
        return found


def holds(choice: Choice, wanted: Module) -> bool:
    """What was chosen is the module."""
    read = rows.of_module(wanted)
    if choice.generic is not None:
        return bool(prove.prove(choice.generic, read))
    return rows.content(rows.of_module(choice.module)) == rows.content(read)


def ranks(count: int) -> list[Rank]:
    return [Rank(board) for board in boards(count)]


def sizes(*of: Sequence[int], **how: Any) -> list[list[Choice]]:
    """What ranks choose that have these sizes one after the other."""

    def run(rank: Rank, own: Sequence[int]) -> list[Choice]:
        return [rank.choose(module(size), **how) for size in own]

    return together(*(partial(run, rank, own) for rank, own in zip(ranks(len(of)), of)))


def test_two_sizes_make_it_generic_at_once() -> None:
    (one,), (other,), (third,) = sizes([5], [9], [9])
    assert one.generic is not None
    assert one.digest == other.digest == third.digest


def test_it_is_known_whose_sizes_made_it_generic() -> None:
    """Also where they came later, of another rank; own ones are told by what changed."""
    (one, own), (other,), (third,) = sizes([5, 31], [9], [9])
    assert list(map(str, one.told)) == [f"worker {rank} saw size 9 in dim 0 of argument 'x'" for rank in (1, 2)]
    assert [(t.task, t.size) for t in other.told] == [(t.task, t.size) for t in third.told] == [("worker 0", 5)]
    assert own.told == (), "served by what there is"
    first, second = ranks(2)
    together(partial(first.choose, module(5)), partial(second.choose, module(5)))
    assert first.choose(module(9)).told == ()
    assert list(map(str, second.choose(module(7)).told)) == ["worker 0 saw size 9 in dim 0 of argument 'x'"]


def test_one_size_stays_as_it_is() -> None:
    (one,), (other,) = sizes([5], [5])
    assert one.generic is None
    assert one.digest == other.digest


def test_more_sizes_than_an_entry_holds() -> None:
    found = sizes(*([size] for size in (3, 5, 7, 11, 13, 17)))
    assert len({choice.digest for (choice,) in found}) == 1


def test_a_later_size_of_one_rank_is_there_for_the_other() -> None:
    one, other = ranks(2)
    first = together(partial(one.choose, module(5)), partial(other.choose, module(5)))
    made = one.choose(module(9))
    assert first[0].generic is None
    assert made.generic is not None
    assert other.choose(module(31)).digest == made.digest


def test_later_sizes_at_the_same_time() -> None:
    (_, one), (_, other) = sizes([5, 9], [5, 31])
    assert one.generic is not None
    assert one.digest == other.digest


def test_a_sample_of_one_rank_makes_it_generic_for_all() -> None:
    one, other = ranks(2)
    found = together(partial(one.choose, module(5), sample=module(21)), partial(other.choose, module(5)))
    assert found[0].generic is not None
    assert found[0].digest == found[1].digest


def test_small_sizes_have_modules_of_their_own() -> None:
    (one, _), (other, _), (zero, _) = sizes([1, 5], [5, 5], [0, 5])
    assert one.generic is other.generic is zero.generic is None
    assert len({one.digest, other.digest, zero.digest}) == 3


def test_what_is_no_module_for_all_sizes() -> None:
    one, other = ranks(2)
    found = together(partial(one.choose, table(5)), partial(other.choose, table(9)))
    assert [choice.generic for choice in found] == [None, None]
    assert found[0].digest != found[1].digest
    assert "literal" in str(found[1].misfit)


def test_another_program_on_one_rank() -> None:
    one, other = ranks(2)
    found = together(partial(one.choose, module(5)), partial(other.choose, module(5, "exponential")))
    assert [choice.generic for choice in found] == [None, None]
    later = together(partial(one.choose, module(9)), partial(other.choose, module(9)))
    assert later[0].digest == later[1].digest


@pytest.mark.parametrize("seed", range(6))
def test_drawn_sizes(seed: int) -> None:
    """Whatever each rank has in whatever order, all of it is right (`Rank.choose`), and at most the modules of 0, 1 and
    the first common size stand beside the one for all."""
    draw = random.Random(seed)
    count = draw.randint(2, 4)
    pool = draw.sample([0, 1, 2, 3, 5, 7, 8, 13, 64, 101], draw.randint(1, 6))
    found = sizes(*([draw.choice(pool) for _ in range(draw.randint(1, 5))] for _ in range(count)))
    generic = {choice.digest for of in found for choice in of if choice.generic is not None}
    alone = {choice.digest for of in found for choice in of if choice.generic is None}
    assert len(generic) <= 1
    assert len(alone) <= 3


def test_forgotten_modules_come_again_from_the_log() -> None:
    one, other = ranks(2)
    made = together(partial(one.choose, module(5)), partial(other.choose, module(9)))[0]
    one.families = Families()
    assert one.choose(module(31)).digest == made.digest


def test_what_one_rank_kept_from_an_earlier_process_serves_all(tmp_path: Path) -> None:
    before = Rank(None, tmp_path)
    made = [before.choose(module(size)) for size in (5, 9)][1]
    one, other = (Rank(board, store) for board, store in zip(boards(2), (tmp_path, None)))
    found = together(partial(one.choose, module(31)), partial(other.choose, module(31)))
    assert [choice.digest for choice in found] == [made.digest] * 2


def test_a_rank_that_does_not_come() -> None:
    one, other = ranks(2)
    with flags.patch(tfxla_compiler_collectives_timeout=1):
        with pytest.raises(RankError, match="all workers compile function f together, but worker 1 did not come") as e:
            one.choose(module(5))
        assert "Call it on every worker, start all with the same flags" in e.value.remedy
        assert one.choose(module(5), "cluster", "c").generic is None
        assert one.choose(module(9), "cluster", "c").generic is not None
    found = together(partial(one.choose, module(5)), partial(other.choose, module(9)))
    assert found[0].digest == found[1].digest
    assert other.choose(module(31), "cluster", "c").generic is not None


def test_a_board_that_is_gone() -> None:
    one, _ = ranks(2)
    assert one.board is not None
    one.board.shared.is_gone = True
    with pytest.raises(RankError, match="cannot be reached"):
        one.choose(module(5))
    found = [one.choose(module(size), "cluster") for size in (5, 9)]
    assert found[0].generic is None
    assert found[1].generic is not None


@pytest.mark.parametrize("value", ["?", texts.pack(b"\xff\xff\xff"), texts.pack(b"")])
def test_a_module_that_arrives_broken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ranks(2)

    def put(key: str, text: str) -> bool:
        return MemoryBoard.put(one.board, key, value if key.startswith("blob/") else text)  # type: ignore[arg-type]

    monkeypatch.setattr(one.board, "put", put)

    def run(rank: Rank, size: int, kind: str) -> str:
        try:
            return str(rank.choose(module(size), kind).generic is None)
        except RankError as error:
            return str(error)

    for kind, said in (("must", "another worker"), ("cluster", "True")):
        found = together(partial(run, one, 5, kind), partial(run, other, 9, kind))
        assert all(said in text for text in found), (kind, found)


def test_a_module_that_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled of it, though the log has it."""
    one, other = ranks(2)
    strange = texts.pack(proto.write(module(5, "exponential")))
    name = texts.digest(texts.unpack(strange))
    assert one.board is not None
    one.board.put(f"blob/{name}", strange)
    original = MemoryBoard.put

    def put(board: MemoryBoard, key: str, text: str) -> bool:
        if key.startswith("log/"):
            entry = json.loads(text)
            entry["members"][0]["module"] = name
            text = json.dumps(entry)
        return original(board, key, text)

    monkeypatch.setattr(MemoryBoard, "put", put)
    with pytest.raises(RankError, match="a module of another worker is another program"):
        together(partial(one.choose, module(5)), partial(other.choose, module(5)))


def test_a_module_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 10)
    (one, second), (other,) = sizes([5, 9], [5])
    assert one.generic is other.generic is None
    assert second.generic is not None


def test_without_the_flag_nobody_waits() -> None:
    one, _ = ranks(2)
    with flags.patch(tfxla_compiler_collectives=False):
        assert one.choose(module(5)).generic is None
    assert one.board is not None
    assert not one.board.shared.values
