"""What CUDA graphs are worth inside TensorFlow: microseconds a call of must-compile functions, without and with them.

    python -m tests.device.graph_calls                      # the first GPU
    python -m tests.device.graph_calls --device /CPU:0      # where there are no graphs: the check of this file

For each program: calls in a row, then calls whose result is awaited, medians. 'kept': results stay alive, so that
addresses change and graphs are updated, not replayed. Exit code 1 where a result with graphs differs in a bit.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster

FIRST = 12  # calls, whose values are compared; by then graphs are there
KEPT = 20  # results that stay alive: more than an executable has graphs
TURNS = 5


@dataclass(frozen=True)
class Program:
    """`body` of a must-compile function, its arguments, and the variables that it changes."""

    body: Callable[..., Any]
    args: tuple[Any, ...]
    variables: tuple[Any, ...] = ()


def _drawn(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) * 0.05)


def softmax() -> Program:
    """Two kernels."""
    return Program(lambda x: tf.nn.softmax(tf.reduce_sum(x, 0) * 2.0 + x), (_drawn(64, 100),))


def means() -> Program:
    """Eight kernels, each of which needs the one before."""

    def body(x: Any) -> Any:
        for n in range(8):
            x = tf.tanh(x) * 1.25 + 0.5 - tf.reduce_mean(x, n % 2, keepdims=True)
        return x

    return Program(body, (_drawn(256, 256),))


def training() -> Program:
    """A step of four small layers."""
    weights = [tf.Variable(_drawn(256, 256)) for _ in range(4)]

    def body(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for w in weights:
                h = tf.nn.gelu(h @ w)
            loss = tf.reduce_mean(tf.square(h - y))
        for w, gradient in zip(weights, tape.gradient(loss, weights)):
            w.assign_sub(0.01 * gradient)
        return loss

    return Program(body, (_drawn(64, 256), _drawn(64, 256)), tuple(weights))


def recurrence() -> Program:
    """A counted loop of 64 steps."""
    w = _drawn(128, 128)

    def body(x: Any) -> Any:
        for _ in tf.range(64):
            x = tf.tanh(x @ w) + x * 0.1
        return x

    return Program(body, (_drawn(32, 128),))


PROGRAMS = (softmax, means, training, recurrence)


def measure(program: Program, is_kept: bool, calls: int) -> tuple[float, float, list[np.ndarray]]:
    """Microseconds of a call in a row and of one alone, and the values of the first calls."""
    before = [v.numpy() for v in program.variables]
    fn = tf.function(program.body, jit_compile=True)
    values = [np.asarray(fn(*program.args)) for _ in range(FIRST)]
    alive: deque[Any] = deque(maxlen=KEPT if is_kept else 1)
    rows, alone = [], []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(calls):
            alive.append(fn(*program.args))
        alive[-1].numpy()
        rows.append((time.perf_counter() - start) / calls)
    for _ in range(calls):
        start = time.perf_counter()
        fn(*program.args).numpy()
        alone.append(time.perf_counter() - start)
    for variable, value in zip(program.variables, before):
        variable.assign(value)
    return statistics.median(rows) * 1e6, statistics.median(alone) * 1e6, values


def main(arguments: list[str] | None = None) -> int:
    """The measurement; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="/GPU:0")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args(arguments)
    wrong = 0
    print("program        results |  one by one: row   alone |  graphs: row   alone")
    for make, is_kept in itertools.product(PROGRAMS, (False, True)):
        with tf.device(options.device):
            program = make()
        found = []
        for least_graph in (0, 1):
            with tfxla_cluster.enable(xla_gpu_graph_min_graph_size=least_graph):
                found.append(measure(program, is_kept, options.calls))
        (row, alone, want), (graph_row, graph_alone, got) = found
        same = all(map(np.array_equal, got, want))
        wrong += not same
        told = f"{make.__name__:14} {'kept' if is_kept else 'dropped':7} | {row:16.1f} {alone:7.1f} |"
        print(told, f"{graph_row:11.1f} {graph_alone:7.1f}{'' if same else '  WRONG'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
