"""What a new size costs each of the programs of `tests.dynamic.shows`, in their full form."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.python.eager.context import Context

import tfxla_cluster
from tests.dynamic.shows import SHOWS, Show
from tfxla_cluster import counters, flags

STOCK_SIZES = 3  # that TensorFlow's own XLA compiles: it does so at each anew


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compiled(show: Show) -> tuple[int, list[tuple[float, float, float]]]:
    """Executables, and of each size from the third on the seconds of TensorFlow's trace, of its bridge, and of the rest
    of the call without the execution."""
    spent = [0.0]
    lower = Context.get_compiler_ir

    def timed(*args: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return lower(*args, **named)
        finally:
            spent[0] += time.perf_counter() - start

    function, rows = tf.function(show.make(False).function, jit_compile=True), []
    with mock.patch.object(Context, "get_compiler_ir", timed):
        before = int(counters.snapshot()["compilations"])
        for size in show.sizes:
            arguments = show.arguments(size)
            trace = seconds(lambda: function.get_concrete_function(*arguments))  # noqa: B023
            spent[0] = 0.0
            call = seconds(lambda: function(*arguments))  # noqa: B023
            lowering = spent[0]
            again = seconds(lambda: function(*arguments))  # noqa: B023
            rows.append((trace, lowering, max(call - lowering - again, 0.0)))
        return int(counters.snapshot()["compilations"]) - before, rows[2:]


def stock(show: Show) -> float:
    """Seconds of a new size under TensorFlow's own XLA, without the execution, the median."""
    function, found = tf.function(show.make(False).function, jit_compile=True), []
    for size in show.sizes[: STOCK_SIZES + 1]:
        arguments = show.arguments(size)
        call = seconds(lambda: function(*arguments))  # noqa: B023
        found.append(call - seconds(lambda: function(*arguments)))  # noqa: B023
    return median(found[1:])


def main(names: Sequence[str]) -> None:
    """Prints a row each: medians over the sizes from the third on."""
    tf.function(lambda x: x + 1)(tf.constant(1))  # TensorFlow has started
    for name in names or SHOWS:
        other = stock(SHOWS[name])
        with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
            count, rows = compiled(SHOWS[name])
        trace, lowering, ours = (median(column) for column in zip(*rows))
        total = trace + lowering + ours
        print(
            f"{name}: {count} executables for {len(SHOWS[name].sizes)} sizes; a new size {total:.3f} s: trace "
            f"{trace:.3f}, lowering {lowering:.3f}, ours {ours:.3f} ({total / (trace + lowering):.2f} of both); "
            f"stock jit {other:.3f} s",
            flush=True,
        )
