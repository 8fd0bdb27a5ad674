"""What is timed of a model: a step, its data, how many examples it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

Step = Callable[..., "tf.Tensor"]
# Mode -> the flags by which this package runs it: must-compile, or clusters of the plain graph.
FLAGS: dict[str, dict[str, str]] = {"must": {"tf_xla_auto_jit": "0"}, "auto": {"tf_xla_auto_jit": "2"}}
# graph: TensorFlow's plain graph; stock: must-compile by stock XLA.
MODES = ("graph", "must", "auto", "stock")


@dataclass(frozen=True)
class Task:
    """`make()`: a step with variables of its own, a function of `data(batch)` that gives a scalar (a loss).
    `batch`: how many examples a step has unless it is said."""

    make: Callable[[], Step]
    data: Callable[[int], list[tf.Tensor]]
    batch: int


def function(task: Task, mode: str) -> Step:
    """A new step of the task as `mode`, one of MODES, runs it."""
    import tensorflow as tf

    made: Step = tf.function(task.make(), jit_compile=True if mode in ("must", "stock") else None)
    return made
