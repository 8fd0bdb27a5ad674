"""Two workers of a real MultiWorkerMirroredStrategy compile together (tfxla_cluster.tf.coordination and all above it).

The workers (tests/ranks/worker.py) go through all cases once; each test looks at one.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs_in_child import ROOT, environment
from tfxla_cluster.dump.schema import RECORD_KINDS

TIMEOUT_S = 240


def free_ports(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Workers:
    """What both found, by case; what they said and recorded."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(2)
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.ranks.worker", str(rank), *ports],
                env=environment(f"--xla_dump_to={directory / str(rank)}", TFXLA_LOGS="ranks,recompiles"),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            done = [child.communicate(timeout=TIMEOUT_S) for child in children]
        finally:
            for child in children:
                child.kill()
        self.said = [err for _, err in done]
        assert [child.returncode for child in children] == [0, 0], "\n".join(err[-3000:] for err in self.said)
        self.found: list[dict[str, Any]] = [json.loads(out.splitlines()[-1]) for out, _ in done]
        self.records = [
            [json.loads(line) for path in (directory / str(rank)).glob("trace.*") for line in path.open()]
            for rank in range(2)
        ]

    def case(self, name: str) -> list[dict[str, Any]]:
        return [found[name] for found in self.found]

    def of(self, function: str, event: str, rank: int = 0) -> list[dict[str, Any]]:
        """The records `ranks` about a function, or a cluster of any."""
        kind = [r for r in self.records[rank] if r["kind"] == "ranks" and r["event"] == event]
        return [r for r in kind if function in r["function"]]

    def total(self, name: str, count: str) -> int:
        return sum(found[count] for found in self.case(name))


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Workers:
    return Workers(tmp_path_factory.mktemp("workers"))


def test_two_sizes_are_one_executable_that_one_rank_compiles(workers: Workers) -> None:
    """Four sizes on two ranks; the values are checked in the workers."""
    assert workers.total("two_sizes", "compilations") == workers.total("two_sizes", "from_rank") == 1
    for rank in range(2):
        (met,) = workers.of("two_sizes", "met", rank)
        assert met["sizes"] == {"worker 0": [["x", [6, 4]]], "worker 1": [["x", [9, 4]]]}
        assert met["missing"] == {}
        (agreed,) = workers.of("two_sizes", "agreed", rank)
        assert agreed["generic"]
    (compiled,) = [r for rank in range(2) for r in workers.of("two_sizes", "compiled", rank)]
    (loaded,) = [r for rank in range(2) for r in workers.of("two_sizes", "loaded", rank)]
    assert compiled["task"] == compiled["by"] == loaded["by"] != loaded["task"]


def test_records_of_compilations_tell_of_the_other_ranks_size(workers: Workers) -> None:
    """Of the one that compiled, and of the one that loaded."""
    found = {}
    for rank in range(2):
        record = next(r for r in workers.records[rank] if r["kind"] == "compile" and "two_sizes" in r["module"])
        found[record["hit"]] = record["reason"]
        (told,) = record["told"]
        assert told == {"task": f"worker {1 - rank}", "of": "argument 'x'", "axis": 0, "size": (6, 9)[1 - rank]}
        since = f"worker {1 - rank} saw size {told['size']} in dim 0 of argument 'x'"
        assert record["reason"].endswith(f"; compiled for all such sizes since {since}")
        assert f"compiled for all such sizes since {since}" in workers.said[rank]
    assert found[""].startswith("first compilation of this function")
    assert found["rank"].startswith("another worker compiled it")


def test_keys_are_free_of_ranks(workers: Workers) -> None:
    keys = [
        {r["key"] for r in workers.records[rank] if r["kind"] == "compile" and "two_sizes" in r["module"]}
        for rank in range(2)
    ]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 1


def test_one_size_is_compiled_once(workers: Workers) -> None:
    assert workers.total("one_size", "compilations") == workers.total("one_size", "from_rank") == 1
    assert not workers.of("one_size", "agreed")[0]["generic"]


def test_a_size_that_comes_later_on_one_rank(workers: Workers) -> None:
    """Nobody waits for it; the other rank needs no executable of its own for a third size."""
    assert workers.total("later_size", "compilations") == workers.total("later_size", "from_rank") == 2
    assert workers.of("later_size", "agreed", 1)[-1]["by"] == "worker 0"


def test_the_ranks_have_other_programs(workers: Workers) -> None:
    assert [found["compilations"] for found in workers.case("other_programs")] == [1, 1]
    for rank in range(2):
        (met,) = workers.of("other_programs", "met", rank)
        assert met["missing"] == {f"worker {1 - rank}": f"worker {1 - rank} has another program for it"}


def test_a_function_of_one_rank_alone_holds_nobody_up(workers: Workers) -> None:
    (met,) = workers.of("on_rank_0", "met")
    assert met["missing"] == {"worker 1": "worker 1 waits for this one at function on_both"}
    assert workers.of("on_both", "agreed")[0]["generic"]


def test_clusters(workers: Workers) -> None:
    """Two of them, between collectives: one has two sizes."""
    assert workers.total("cluster", "compilations") == workers.total("cluster", "from_rank") == 2


def test_keras_steps(workers: Workers) -> None:
    """The weights are the same on both after steps on batches of other sizes."""
    first, second = (found["result"] for found in workers.case("keras_steps"))
    assert first == second
    assert len(first) == 4
    assert workers.total("keras_steps", "compilations") == workers.total("keras_steps", "from_rank")


def test_keras_fit(workers: Workers) -> None:
    """Short last batches of 5 and 3 rows: one executable for all, compiled once."""
    assert workers.total("keras_fit", "compilations") == workers.total("keras_fit", "from_rank") == 1
    assert all(losses[1] < losses[0] for losses in (found["result"] for found in workers.case("keras_fit")))


@pytest.mark.parametrize("case", ["one_flag", "never"])
def test_a_rank_that_does_not_come(workers: Workers, case: str) -> None:
    """It runs without the flag, or does not call the function."""
    found = workers.case(case)[0]["result"]
    assert f"all workers compile function {case} together, but worker 1 did not come in " in found["error"]
    assert "worker.py:" in found["error"]
    assert "start all with the same flags" in found["error"]
    assert found["seconds"] < 10
    assert workers.case("one_flag")[1]["result"]["error"] == ""


def test_it_comes_after_all(workers: Workers) -> None:
    assert workers.total("again", "compilations") == workers.total("again", "from_rank") == 1


def test_a_rank_that_has_ended(workers: Workers) -> None:
    """Known by missing heartbeats, long before the timeout; a cluster is compiled for who is there."""
    error, seconds = (workers.found[0]["ended"][key] for key in ("error", "seconds"))
    assert "all workers compile function ended together, but worker 1 has ended" in error
    assert seconds < 30
    assert workers.found[0]["ended_cluster"]["compilations"] == 1
    assert "is compiled for this worker alone: worker 1 has ended" in workers.said[0]
    assert workers.of("cluster", "alone")[0]["reason"].startswith("worker 1 has ended")


def test_no_bug_and_no_fallback(workers: Workers) -> None:
    for found in workers.found:
        counted = [case for case in found.values() if "internal_errors" in case]
        assert not any(case["internal_errors"] or case["fallbacks"] for case in counted)


def test_records_have_every_field(workers: Workers) -> None:
    records = [r for of in workers.records for r in of if r["kind"] == "ranks"]
    assert {name for record in records for name in record} >= set(RECORD_KINDS["ranks"].fields)
    assert "[tfxla ranks] event=met function=__inference_two_sizes" in workers.said[0]
