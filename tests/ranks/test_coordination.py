"""The board in TensorFlow's coordination service (tfxla_cluster.tf.coordination) on a double of TensorFlow's context;
tests/ranks/test_workers.py has the service itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from tfxla_cluster import trace
from tfxla_cluster.errors import RankError
from tfxla_cluster.tf import coordination


class Context:
    """As tensorflow.python.eager.context.Context has it; `error`: what each call raises."""

    def __init__(self, job: str, task: int, jobs: dict[str, int], service: str = "standalone") -> None:
        self._collective_ops_server_def = SimpleNamespace(job_name=job, task_index=task)
        self.coordination_service = coordination_config_pb2.CoordinationServiceConfig(service_type=service)
        for name, count in jobs.items():
            self.coordination_service.coordinated_job_list.add(name=name, num_tasks=count)
        self.values: dict[str, str] = {}
        self.error: tf.errors.OpError | None = None
        self.waits: list[int] = []

    def set_config_key_value(self, key: str, value: str) -> None:
        self._fail()
        if key in self.values:
            raise tf.errors.AlreadyExistsError(None, None, "there")
        self.values[key] = value

    def get_config_key_value(self, key: str, timeout_in_ms: int) -> str:
        self._fail()
        self.waits.append(timeout_in_ms)
        if key not in self.values:
            raise tf.errors.DeadlineExceededError(None, None, "timed out")
        return self.values[key]

    def get_task_states(self, jobs: Any) -> list[Any]:
        self._fail()
        states: list[Any] = [None] * sum(count for _, count in jobs)
        states[-1] = tf.errors.UnavailableError(None, None, "no heartbeat")
        return states

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def board_of(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> coordination.Coordination | None:
    monkeypatch.setattr(context, "context", lambda: ctx)
    monkeypatch.setattr(coordination, "_made", [])
    return coordination.board()


def test_ranks_are_the_tasks_in_the_order_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = board_of(Context("worker", 1, {"chief": 1, "worker": 2}), monkeypatch)
    assert found is not None
    assert (found.rank, found.tasks) == (2, ("chief 0", "worker 0", "worker 1"))
    assert coordination.board() is found
    assert found.ended() == {2: "TensorFlow's coordination service says: UnavailableError"}


@pytest.mark.parametrize(
    ("job", "jobs"), [("worker", {"worker": 1}), ("evaluator", {"worker": 2}), ("chief", {"worker": 0, "ps": 3})]
)
def test_no_rank_of_several(job: str, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert board_of(Context(job, 0, jobs), monkeypatch) is None


def test_no_strategy_over_several_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Context("worker", 0, {"worker": 2})
    ctx._collective_ops_server_def = None  # type: ignore[assignment]
    assert board_of(ctx, monkeypatch) is None


def test_no_coordination_service_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(trace, "_said", set())
    assert board_of(Context("worker", 0, {"worker": 2}, ""), monkeypatch) is None
    assert "--tfxla_compiler_collectives has no effect" in capsys.readouterr().err


def test_values_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Context("worker", 0, {"worker": 2})
    found = board_of(ctx, monkeypatch)
    assert found is not None
    assert found.put("a", "1")
    assert not found.put("a", "2")
    assert found.get("a", 3.0) == "1"
    assert found.get("b", 0.0001) is None
    assert ctx.waits == [3000, 1], "0 would wait for ever"
    assert set(ctx.values) == {"tfxla_cluster/a"}


def test_a_service_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Context("worker", 0, {"worker": 2})
    found = board_of(ctx, monkeypatch)
    assert found is not None
    ctx.error = tf.errors.UnavailableError(None, None, "Connection refused\nand more")
    for call in (lambda: found.put("a", "1"), lambda: found.get("a", 1.0), found.ended):
        with pytest.raises(RankError, match=r"cannot be reached \(Connection refused\)$"):
            call()
    ctx.error = tf.errors.DeadlineExceededError(None, None, "slow")
    with pytest.raises(RankError, match="slow"):
        found.put("a", "1")
