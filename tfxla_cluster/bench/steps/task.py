"""What is timed of a model: a step, its data, how many examples it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

Step = Callable[..., "tf.Tensor"]
# Mode -> the flags by which this package runs it: must-compile, or clusters of the plain graph.
FLAGS: dict[str, dict[str, str]] = {"must": {"tf_xla_auto_jit": "0"}, "auto": {"tf_xla_auto_jit": "2"}}
NATIVE = (*FLAGS, "jit")
# graph: TensorFlow's plain graph; stock: must-compile by stock XLA; jit: called directly (tfxla_cluster.jit).
MODES = ("graph", "must", "auto", "stock", "jit", "jax")


@dataclass(frozen=True)
class Task:
    """`make()`: a step with variables of its own, a function of `data(batch)` that gives a scalar (a loss).
    `batch`: how many examples a step has unless it is said. `jax`: gives the same step of JAX's arrays, where it is
    written."""

    make: Callable[[], Step]
    data: Callable[[int], list[tf.Tensor]]
    batch: int
    jax: Callable[[], Step] | None = None


def function(task: Task, mode: str) -> Step:
    """A new step of the task as `mode`, one of MODES, runs it."""
    if mode == "jit":
        return _directly(task.make())
    if mode == "jax":
        if task.jax is None:
            raise UsageError("the step is not written for JAX")
        return task.jax()
    import tensorflow as tf

    made: Step = tf.function(task.make(), jit_compile=True if mode in ("must", "stock") else None)
    return made


def _directly(step: Step) -> Step:
    import tfxla_cluster

    made: Step = tfxla_cluster.jit(step)
    return made
