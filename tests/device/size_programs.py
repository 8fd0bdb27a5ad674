"""Programs whose sizes vary, on a GPU: as eager TensorFlow there at each size, executables counted, seconds.

    python -m tests.device.size_programs [--sizes N] [--stock N] [NAME...]

They are those of tests.dynamic.shows in their full form, a Keras `fit` with a short last batch, and rows that data
choose. Seconds are of all sizes, traces included: this package, the plain graph, and of a new size of stock
`jit_compile` (of the first `--stock` sizes). Exit code 1 where a result differs or there are more executables than the
program may have.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.dynamic.shows import BATCHES, SHOWS, Program, Show, normal
from tfxla_cluster import counters, flags

TOLERANCE = 1e-4  # as a part of the largest element: the libraries of eager TensorFlow are as far off


def _chosen_rows(_: bool) -> Program:
    """Rows of which a number is positive, doubled, and how many there are."""

    def function(x: Any) -> Any:
        rows = tf.boolean_mask(x, x[:, 0] > 0)
        return tf.tanh(rows) * 2.0, tf.shape(tf.where(x > 1.0))[0]

    return Program(function)


MORE = {"chosen rows": Show(_chosen_rows, lambda n: (normal(n, 64),), BATCHES, small=())}
PROGRAMS = {**SHOWS, **MORE}


def called(function: Callable[..., Any], program: Program, arguments: tuple[Any, ...]) -> list[Any]:
    """The results and the variables after it, which are as before again."""
    before = [tf.identity(variable) for variable in program.variables]
    found = [tf.identity(x) for x in (*tf.nest.flatten(function(*arguments)), *program.variables)]
    for variable, value in zip(program.variables, before, strict=True):
        variable.assign(value)
    return found


def seconds_of(program: Program, show: Show, sizes: tuple[int, ...], must: bool) -> tuple[float, list[list[Any]]]:
    """Of all sizes from nothing, and the results."""
    function = tf.function(program.function, jit_compile=must)
    start = time.perf_counter()
    found = [called(function, program, show.arguments(size)) for size in sizes]
    _ = [x.numpy() for x in found[-1]]
    return time.perf_counter() - start, found


def stock(show: Show, sizes: tuple[int, ...]) -> float:
    """Seconds of a new size under TensorFlow's own XLA."""
    return seconds_of(show.make(False), show, sizes, True)[0] / max(len(sizes), 1)


def row(name: str, most: int, stock_sizes: int) -> str:
    """Runs a program; what is wrong, '' for nothing."""
    show = PROGRAMS[name]
    sizes = show.sizes[:most]
    program = show.make(False)
    want = [called(program.function, program, show.arguments(size)) for size in sizes]
    graph, _ = seconds_of(program, show, sizes, False)
    other = stock(show, sizes[:stock_sizes]) if stock_sizes else 0.0
    before = counters.snapshot()
    with flags.patch(tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        ours, got = seconds_of(program, show, sizes, True)
    after = counters.snapshot()
    count = int(after["compilations"]) - int(before["compilations"])
    wrong = [] if count <= show.most else [f"{count} executables, it may have {show.most}"]
    if after["internal_errors"] != before["internal_errors"]:
        wrong.append("internal errors")
    for size, one, two in zip(sizes, got, want):
        wrong += [f"at {size}: {said}" for a, b in zip(one, two, strict=True) if (said := _differs(a, b))]
    print(f"{name:18} {count:>3} {len(sizes):>5} {ours:>8.1f} {graph:>8.1f} {other:>8.2f}  {'; '.join(wrong) or 'ok'}")
    sys.stdout.flush()
    return "; ".join(wrong)


def _differs(one: Any, other: Any) -> str:
    try:
        assert_near(one, other, TOLERANCE, "")
    except AssertionError as error:
        return str(error).strip().splitlines()[0][:200]
    return ""


def keras_fit() -> str:
    """Batches of 64 and a last one of 36, as stock TensorFlow: losses of two epochs."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((164, 20)).astype(np.float32), rng.integers(0, 5, 164)

    def losses() -> list[float]:
        tf.keras.utils.set_random_seed(3)
        layers = [tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(5)]
        model = tf.keras.Sequential([tf.keras.Input((20,)), *layers])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, jit_compile=True)
        return list(model.fit(x, y, batch_size=64, epochs=2, shuffle=False, verbose=0).history["loss"])

    want = losses()
    before = int(counters.snapshot()["compilations"])
    with tfxla_cluster.enable():
        got = losses()
    count = int(counters.snapshot()["compilations"]) - before
    wrong = "" if np.allclose(got, want, rtol=1e-3) else f"losses {got}, stock {want}"
    wrong = wrong or ("" if 0 < count <= 2 else f"{count} executables, it may have 2")
    print(f"{'Keras fit':18} {count:>3} {2:>5} {'':>8} {'':>8} {'':>8}  {wrong or 'ok'}", flush=True)
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """The check; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of programs (default: all)")
    parser.add_argument("--sizes", type=int, default=99, help="of each program, at most")
    parser.add_argument("--stock", type=int, default=0, help="sizes that TensorFlow's own XLA compiles (default 0)")
    options = parser.parse_args(arguments)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    devices = tf.config.list_physical_devices("GPU")
    print(
        f"on {'a GPU' if devices else 'the CPU'}, process {os.getpid()}: executables, sizes, seconds of all sizes here"
    )
    print("and as a plain graph, of a new size of stock jit_compile")
    before = dict(tfxla_cluster.stats()["fallback_reasons"])
    wrong = [row(name, options.sizes, options.stock) for name in options.names or PROGRAMS if name != "Keras fit"]
    if not options.names or "Keras fit" in options.names:
        wrong.append(keras_fit())
    for reason, times in tfxla_cluster.stats()["fallback_reasons"].items():
        if times > before.get(reason, 0):
            print(f"{times - before.get(reason, 0)} x left to TensorFlow: {reason[:300]}")
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
