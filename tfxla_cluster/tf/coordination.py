"""The board of ranks (ranks.board) in the key-value store of TensorFlow's coordination service, which a
MultiWorkerMirroredStrategy starts: its first worker holds the values, and knows who has ended by missing heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.eager import context

from .. import trace
from ..errors import RankError

_ROOM = "tfxla_cluster/"
T = TypeVar("T")


class Coordination:
    """A ranks.board.Board. jobs: (name, tasks) of each, in the order of ranks."""

    def __init__(self, ctx: Any, jobs: tuple[tuple[str, int], ...], job: str, task: int) -> None:
        tasks = [(name, number) for name, count in jobs for number in range(count)]
        self.rank = tasks.index((job, task))
        self.tasks = tuple(f"{name} {number}" for name, number in tasks)
        self._context, self._jobs = ctx, jobs

    def put(self, key: str, value: str) -> bool:
        """As Board.put."""
        try:
            _reached(lambda: self._context.set_config_key_value(_ROOM + key, value), tf.errors.AlreadyExistsError)
        except tf.errors.AlreadyExistsError:
            return False
        return True

    def get(self, key: str, seconds: float) -> str | None:
        """As Board.get."""
        wait = max(int(seconds * 1000), 1)  # 0 would be for ever
        try:
            value = _reached(
                lambda: self._context.get_config_key_value(_ROOM + key, wait), tf.errors.DeadlineExceededError
            )
            return str(value)
        except tf.errors.DeadlineExceededError:
            return None

    def ended(self) -> Mapping[int, str]:
        """As Board.ended: some 10 s after the end, when heartbeats are missed."""
        states = _reached(lambda: self._context.get_task_states(self._jobs))
        return {
            rank: f"TensorFlow's coordination service says: {type(state).__name__}"
            for rank, state in enumerate(states)
            if state is not None
        }


def _reached(call: Callable[[], T], *answers: type[tf.errors.OpError]) -> T:
    """What the service answers, these errors among it; RankError where it does not."""
    try:
        return call()
    except answers:
        raise
    except tf.errors.OpError as error:
        first = error.message.splitlines()[0] if error.message else type(error).__name__
        what = "TensorFlow's coordination service, which the first worker runs, cannot be reached"
        raise RankError(f"{what} ({first})") from error


_made: list[tuple[Any, Coordination | None]] = []  # of the newest server alone


def board() -> Coordination | None:
    """That of this process; None where it is no worker of a strategy over several, which it is not before the strategy
    was made."""
    ctx = context.context()
    server = getattr(ctx, "_collective_ops_server_def", None)
    if server is None:
        return None
    if not _made or _made[0][0] is not server:
        _made[:] = [(server, _of(ctx, server))]
    return _made[0][1]


def _of(ctx: Any, server: Any) -> Coordination | None:
    service = ctx.coordination_service
    if service is None or not service.service_type:
        trace.once(
            "collectives: no service",
            "--tfxla_compiler_collectives has no effect: this worker has no coordination service of TensorFlow "
            "(the strategy starts one unless context.configure_coordination_service said otherwise)",
        )
        return None
    jobs = tuple((str(job.name), int(job.num_tasks)) for job in service.coordinated_job_list)
    if sum(count for _, count in jobs) < 2 or server.job_name not in dict(jobs):
        return None
    return Coordination(ctx, jobs, server.job_name, server.task_index)
