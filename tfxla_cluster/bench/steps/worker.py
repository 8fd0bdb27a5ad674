"""A step in one mode, in a process of its own: `python -m tfxla_cluster.bench.steps.worker TASK MODE BATCH` answers
what turns asks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...child_process import serve
from .. import memory
from . import table
from .task import FLAGS, NATIVE, Step, Task, function


class Served:
    """Questions are its public methods by name, with numbers."""

    def __init__(self, task: Task, mode: str, batch: int) -> None:
        self._task, self._mode, self._batch = task, mode, batch
        self._step: Step | None = None
        self._inputs: Sequence[Any] = ()
        self._before = _counts() if mode in NATIVE else {}

    def answer(self, question: str) -> Mapping[str, Any]:
        """What the method that the question names gives; {"failed": why} where it raises."""
        import tensorflow as tf

        name, *numbers = question.split()
        try:
            found: Mapping[str, Any] = getattr(self, name)(*map(int, numbers))
        except tf.errors.ResourceExhaustedError:
            return {"failed": f"a batch of {self._batch} does not fit into the GPU's memory"}
        except Exception as error:  # noqa: BLE001 - it is told and fails the run
            return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        return found

    def first(self) -> dict[str, Any]:
        """Seconds of the trace by TensorFlow and of the first step, trace and compilation included, and its loss."""
        self._inputs = self._task.data(self._batch)
        self._step = function(self._task, self._mode)
        start = time.perf_counter()
        trace = getattr(self._step, "get_concrete_function", None)
        if trace is None:
            self._inputs = [value.numpy() for value in self._inputs]
        else:
            trace(*self._inputs)
        traced = time.perf_counter() - start
        loss = _number(self._step(*self._inputs))
        return {"trace_s": traced, "first_step_s": time.perf_counter() - start, "loss": loss}

    def turn(self, steps: int) -> dict[str, float]:
        """Milliseconds a step, of so many steps back to back."""
        assert self._step is not None
        start = time.perf_counter()
        for _ in range(steps):
            last = self._step(*self._inputs)
        _number(last)
        return {"ms": (time.perf_counter() - start) * 1e3 / steps}

    def end(self) -> dict[str, Any]:
        """GiB that TensorFlow's allocator of a GPU held at most, on a CPU by which memory grows at most in a step;
        RuntimeError where this package left something to others."""
        import tensorflow as tf

        if self._mode in NATIVE:
            _only_native(self._before)
        if not tf.config.list_physical_devices("GPU"):
            assert self._step is not None
            return {"peak_gib": (memory.peak(lambda: self.turn(1), "CPU:0") or 0) / 2**30}
        return {"peak_gib": tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30}


def _number(result: Any) -> float:
    """A result, or the sum of one that is no scalar, when it is there."""
    return float(np.sum(np.asarray(result)))


def _counts() -> dict[str, int]:
    import tfxla_cluster

    counts = tfxla_cluster.stats()
    return {name: counts[name] for name in ("fallbacks", "kernels", "native_kernels")}


def _only_native(before: Mapping[str, int]) -> None:
    import tfxla_cluster

    grown = {name: count - before[name] for name, count in _counts().items()}
    if grown["fallbacks"] or not grown["kernels"] or grown["kernels"] != grown["native_kernels"]:
        raise RuntimeError(f"not native: {grown}, {tfxla_cluster.stats()['fallback_reasons']}")


def main() -> None:
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several share the GPU
    name, mode, batch = sys.argv[1:]
    if mode in FLAGS:
        import tensorflow as tf

        import tfxla_cluster

        on_cpu: dict[str, Any] = {} if tf.config.list_physical_devices("GPU") else {"tf_xla_cpu_global_jit": True}
        tfxla_cluster.enable(**FLAGS[mode], **on_cpu)
    serve(Served(table.task(name), mode, int(batch)).answer)


if __name__ == "__main__":
    main()
