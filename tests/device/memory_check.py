"""What happens where TensorFlow's memory on a GPU runs out: programs that need more of it than there is, many at once,
in must-compile functions and clusters, with CUDA graphs and without, and small programs beside and after them.

    python -m tests.device.memory_check [--limit MiB] [--times N]

TensorFlow's GPU is given --limit MiB. Each program that does not fit, N times from as many threads (its allocator waits
10 s for memory before it says no): ResourceExhaustedError; the same program at a size that fits: the right value. Then
all memory that the programs took is free again. Exit code 1 where that is not so.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster

SMALL = 200
MODES = ("must", "auto")
GRAPHS = {"graphs": 2, "no graphs": 0}  # kernels from which a plan is one


def result(x: Any) -> Any:
    """What does not fit is the result itself."""
    y = tf.tanh(x)[:, None] * x[None, :] + 1.0
    return tf.nn.relu(y) * 2.0 - y


def temporary(x: Any) -> Any:
    """What does not fit lies between the kernels."""
    y = tf.tanh(x)[:, None] * x[None, :] + 1.0
    both = tf.cumsum(y, 0) * tf.cumsum(y, 1)
    return tf.reduce_sum(tf.cumsum(both, 0, reverse=True), 1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {"result": result, "temporary": temporary}


@dataclass(frozen=True)
class Case:
    """A program compiled for the size that fits and the one that does not."""

    name: str
    call: Callable[[Any], Any]
    small: Any
    large: Any
    wanted: np.ndarray


def cases(extent: int) -> list[Case]:
    """Every program in each mode, with graphs and without: functions of their own, compiled for both sizes."""
    found: list[Case] = []
    small, large = (tf.constant(np.linspace(-1, 1, n, dtype=np.float32)) for n in (SMALL, extent))
    for word, least in GRAPHS.items():
        made = []
        for name, body in PROGRAMS.items():
            for mode in MODES:
                call = tf.function(lambda x, body=body: body(x), jit_compile=True if mode == "must" else None)
                made.append(Case(f"{name}, {mode}, {word}", call, small, large, np.asarray(body(small))))
        with tfxla_cluster.config.patch(tf_xla_auto_jit="2", xla_gpu_graph_min_graph_size=least):
            for case in made:
                case.call(small)
            at_once([lambda c=case: _attempt(lambda: c.call(large)) for case in made])
        found += made
    return found


def _attempt(call: Callable[[], Any]) -> str:
    """How a call ended: '' where it did well."""
    try:
        call()
    except tf.errors.ResourceExhaustedError:
        return "ResourceExhaustedError"
    except Exception as error:  # noqa: BLE001 - told, and wrong
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""


def small(case: Case) -> str:
    """What is wrong with the program at the size that fits."""
    found: list[np.ndarray] = []
    said = _attempt(lambda: found.append(np.asarray(case.call(case.small))))
    if said:
        return said
    return "" if np.allclose(found[0], case.wanted, rtol=2e-4, atol=2e-4) else "a wrong value"


def at_once(calls: Sequence[Callable[[], str]]) -> list[str]:
    """What each gives, from a thread each."""
    ended = [""] * len(calls)

    def run(number: int) -> None:
        ended[number] = calls[number]()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def check(found: Sequence[Case], times: int) -> list[str]:
    """What is wrong: failures of another kind, none where there should be one, small programs that fail or differ."""
    large = [lambda c=c: _attempt(lambda: c.call(c.large)) for c in found for _ in range(times)]
    beside = [lambda c=c: small(c) for c in found for _ in range(times)]
    begin = time.perf_counter()
    ended = at_once([*large, *beside])
    print(f"{len(large)} programs that do not fit and {len(beside)} that do: {time.perf_counter() - begin:.1f} s")
    wrong = []
    for number, case in enumerate(found):
        counts = Counter(ended[number * times : (number + 1) * times])
        beside_counts = Counter(ended[len(large) + number * times : len(large) + (number + 1) * times])
        after = small(case)
        print(f"{case.name}: {dict(counts)}; beside them {dict(beside_counts)}; after them '{after}'", flush=True)
        if counts != {"ResourceExhaustedError": times} or after or set(beside_counts) != {""}:
            wrong.append(case.name)
    return wrong


def memory() -> int:
    """Bytes that TensorFlow's allocator has given out for what is still in use."""
    gc.collect()  # errors, their frames and the tensors in these are cycles
    return int(tf.config.experimental.get_memory_info("GPU:0")["current"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        print("there is no GPU")
        return 3
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=given.limit)
    tf.config.set_logical_device_configuration(gpus[0], [limit])
    tf.config.threading.set_inter_op_parallelism_threads(2 * given.times * len(PROGRAMS) * len(MODES) * len(GRAPHS))
    extent = int((given.limit * 2**20 / 4) ** 0.5 * 1.2)  # the square of floats is beyond the limit
    with tfxla_cluster.enable():
        found = cases(extent)
        wrong = check(found, 1)
        before = memory()
        wrong += check(found, given.times)
        counts = tfxla_cluster.stats()
    after = memory()
    print(
        f"memory given out: {before} bytes before, {after} after; {counts['native_kernels']} native kernels, ", end=""
    )
    print(f"fallbacks {counts['fallbacks']} {counts['fallback_reasons']}, internal errors {counts['internal_errors']}")
    if after > before:
        wrong.append(f"{after - before} bytes are not given back")
    print(*(f"WRONG: {line}" for line in wrong), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
