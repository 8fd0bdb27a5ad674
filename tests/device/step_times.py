"""Times steps of whole programs, as TensorFlow runs them and as this package does.

Modes: graph (tf.function), must (must-compile, by this package), auto (clusters, by this package), stock (must-compile,
by stock XLA). A JSON line for each mode and batch: milliseconds of a step, examples a second, seconds of the first step
with tracing and compilation, and on a GPU the most memory that TensorFlow's allocator held. `--kernels`: also the
kernels of a step that take longest (this package's are then dumped, which makes the first step longer).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfxla_cluster
from tests.device import kernel_times
from tfxla_cluster.bench.steps.task import FLAGS, MODES, Step, Task, function

TIMED, TIMED_S = 10, 3.0  # steps, fewer where they would take longer than these seconds
PROFILED = 2  # steps


def measured(step: Step, inputs: Sequence[tf.Tensor], batch: int) -> dict[str, float]:
    """What the step takes on these inputs; peak memory in GiB, 0 without a GPU."""
    begin = time.perf_counter()
    loss = float(step(*inputs))
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    float(step(*inputs))
    timed = max(min(TIMED, int(TIMED_S / (time.perf_counter() - begin))), 2)
    float(step(*inputs))
    begin = time.perf_counter()
    for _ in range(timed):
        last = step(*inputs)
    float(last)
    seconds = (time.perf_counter() - begin) / timed
    memory = 0.0
    if tf.config.list_physical_devices("GPU"):
        memory = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30
        tf.config.experimental.reset_memory_stats("GPU:0")
    rounded = {"ms": round(seconds * 1e3, 2), "examples_per_s": round(batch / seconds, 1)}
    return {**rounded, "first_step_s": round(first, 1), "peak_gib": round(memory, 1), "loss": round(loss, 4)}


def run(task: Task, mode: str, batches: Sequence[int], kernels: int = 0) -> list[dict[str, Any]]:
    """A row for each batch size; one that does not fit says so and the next is tried. `kernels`: how many of the
    kernels that take longest are told."""
    step = function(task, mode)
    if mode not in FLAGS:
        return [_row(task, mode, step, batch, kernels) for batch in batches]
    with tempfile.TemporaryDirectory() as directory:
        flags = {**FLAGS[mode], "xla_dump_to": directory if kernels else ""}
        with tfxla_cluster.config.patch(**flags), tfxla_cluster.enable():
            rows = [_row(task, mode, step, batch, kernels, Path(directory)) for batch in batches]
        counts = tfxla_cluster.stats()
    names = ("clusters", "kernels", "native_kernels", "fallbacks", "fallback_reasons", "compile_s", "ops_total")
    print(json.dumps({name: counts[name] for name in (*names, "ops_clustered")}), flush=True)
    return rows


def _row(task: Task, mode: str, step: Step, batch: int, kernels: int, dump: Path | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"mode": mode, "batch": batch}
    try:
        inputs = task.data(batch)
        row |= measured(step, inputs, batch)
        print(json.dumps(row), flush=True)
        if kernels:
            profile = kernel_times.of_steps(lambda: float(step(*inputs)), PROFILED, dump)
            print("\n".join(profile.lines(kernels)), flush=True)
    except tf.errors.ResourceExhaustedError as error:
        row["out_of_memory"] = error.message.splitlines()[0]
        print(json.dumps(row), flush=True)
    return row


def command(task: Task, description: str | None) -> None:
    """The command line of a task."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="+", choices=MODES, metavar="MODE")
    parser.add_argument("--batch", default=str(task.batch), help=f"batch sizes, by comma (default {task.batch})")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="tell the N kernels that take longest")
    options = parser.parse_args()
    for mode in options.modes:
        run(task, mode, [int(batch) for batch in options.batch.split(",")], options.kernels)
