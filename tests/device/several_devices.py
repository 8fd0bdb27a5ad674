"""Programs on several devices of one process, without and with this package: the same values, on the same devices.

    python -m tests.device.several_devices                   # all GPUs that TensorFlow sees, at least two
    python -m tests.device.several_devices --processors 2    # so many CPUs instead

On GPUs each program runs twice, kernels launched one by one and as CUDA graphs. The last lines are a table. Exit code
1 where a program differs or ran nothing natively, 3 with fewer than two devices.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.device.programs import mixed, numbers

Devices = list[str]
ROUNDS = 12  # of calls: the first of them launch kernels, later ones graphs


def _inputs(devices: Devices) -> list[tuple[str, Any]]:
    """Other numbers for each device, on it."""
    found = []
    for number, device in enumerate(devices):
        with tf.device(device):
            found.append((device, tf.identity(tf.constant(numbers(30 + number, 50)))))
    return found


def one_function_in_turns(devices: Devices) -> Any:
    f = tf.function(mixed, jit_compile=True)
    results = []
    for _ in range(ROUNDS):
        for device, x in _inputs(devices):
            with tf.device(device):
                results.append(f(x))
    return results[-2 * len(devices) :]


def clusters_in_turns(devices: Devices) -> Any:
    f = tf.function(mixed)
    results = []
    for _ in range(ROUNDS):
        for device, x in _inputs(devices):
            with tf.device(device):
                results.append(f(x))
    return results[-2 * len(devices) :]


def one_graph_on_all(devices: Devices) -> Any:
    """What one device computes goes on to the next."""

    @tf.function
    def chain(a: Any) -> Any:
        for device in devices * 2:
            with tf.device(device):
                a = tf.tanh(a @ tf.transpose(a)) * 0.1 + tf.reduce_mean(mixed(a)) + a[:, :1]
        return a

    x = tf.constant(numbers(20, 20))
    return [chain(x) for _ in range(ROUNDS)][-2:]


def a_thread_each(devices: Devices) -> Any:
    """Two threads for each device, all at once, through one function with a loop that asks what was computed."""

    @tf.function(jit_compile=True)
    def f(a: Any) -> Any:
        for _ in tf.range(3):
            a = tf.sort(a * 1.5 - tf.reduce_mean(a, axis=0), axis=1)
        return mixed(a)

    def work(given: tuple[str, Any]) -> Any:
        device, x = given
        with tf.device(device):
            return [f(x) for _ in range(ROUNDS)][-1]

    with ThreadPoolExecutor(2 * len(devices)) as threads:
        return list(threads.map(work, _inputs(devices) * 2))


def mirrored(devices: Devices) -> Any:
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        w = tf.Variable(numbers(50))

    @tf.function
    def step(a: Any) -> Any:
        def replica(b: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(mixed(b * w)) * 1e-2
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(a,)), axis=None)

    data = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensors(numbers(8, 50)).repeat().unbatch().batch(4 * len(devices))
    )
    losses = [step(batch).numpy() for _, batch in zip(range(ROUNDS), data)]
    return losses, [v.numpy() for v in w.values]


def mirrored_sizes(devices: Devices) -> Any:
    """Each replica has a batch of another size, and another one at each step."""
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        w = tf.Variable(numbers(50))

    @tf.function(reduce_retracing=True)
    def step(a: Any) -> Any:
        def replica(b: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(mixed(b * w)) * 1e-2
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        return strategy.experimental_local_results(strategy.run(replica, args=(a,)))

    def batch(number: int, replica: int) -> Any:
        return tf.constant(numbers((1, 2, 5, 8, 3, 13)[(number + 2 * replica) % 6], 50))

    losses = []
    for number in range(ROUNDS):
        of = functools.partial(batch, number)
        values = strategy.experimental_distribute_values_from_function(
            lambda replica, of=of: of(replica.replica_id_in_sync_group)
        )
        losses += [loss.numpy() for loss in step(values)]
    return losses, [v.numpy() for v in w.values]


def keras_mirrored(devices: Devices) -> Any:
    tf.keras.utils.set_random_seed(5)
    with tf.distribute.MirroredStrategy(devices).scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((50,)), tf.keras.layers.Dense(40, "gelu"), tf.keras.layers.Dense(10, "softmax")]
        )
        model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    labels = np.arange(64) % 10
    return model.fit(numbers(64, 50), labels, batch_size=16, epochs=3, shuffle=False, verbose=0).history["loss"]


PROGRAMS: tuple[Callable[[Devices], Any], ...] = (
    one_function_in_turns,
    clusters_in_turns,
    one_graph_on_all,
    a_thread_each,
    mirrored,
    mirrored_sizes,
    keras_mirrored,
)


def _placed(value: Any) -> str:
    return str(value.device) if tf.is_tensor(value) else ""


def check(program: Callable[[Devices], Any], devices: Devices, least_graph: int) -> tuple[int, str]:
    """Native executions, and what went wrong or ''."""
    want = tf.nest.flatten(program(devices))
    before = int(tfxla_cluster.stats()["executions"])
    flags = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "xla_gpu_graph_min_graph_size": least_graph}
    with tfxla_cluster.enable(**flags):
        got = tf.nest.flatten(program(devices))
    executions = int(tfxla_cluster.stats()["executions"]) - before
    if not executions:
        return 0, "nothing ran natively"
    if [_placed(v) for v in want] != [_placed(v) for v in got]:
        return executions, f"devices {[_placed(v) for v in got]}, stock {[_placed(v) for v in want]}"
    for a, b in zip(want, got, strict=True):
        assert_near(np.array(b), np.array(a), 2e-5, program.__name__)
    return executions, ""


def main(arguments: list[str] | None = None) -> int:
    """The check; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", type=int, default=0, metavar="N", help="take N CPUs in place of GPUs")
    parser.add_argument("programs", nargs="*", help="names of programs (default: all)")
    options = parser.parse_args(arguments)
    if options.processors:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * options.processors)
    kind = "CPU" if options.processors else "GPU"
    devices = [f"/{kind}:{number}" for number in range(len(tf.config.list_logical_devices(kind)))]
    if len(devices) < 2:
        print(f"TensorFlow sees {len(devices)} {kind}s here, this takes two", file=sys.stderr)
        return 3
    tf.config.experimental.enable_tensor_float_32_execution(False)
    chosen = [p for p in PROGRAMS if p.__name__ in options.programs or not options.programs]
    rows = []
    for program, least_graph in itertools.product(chosen, (0,) if options.processors else (0, 1)):
        try:
            executions, wrong = check(program, devices, least_graph)
        except Exception as error:  # noqa: BLE001 - the others are still to be seen
            traceback.print_exc()
            executions, wrong = 0, f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
        rows.append((program.__name__, least_graph, executions, wrong))
    for reason, times in tfxla_cluster.stats()["fallback_reasons"].items():
        print(f"{times} x left to TensorFlow: {reason[:200]}")
    print(f"{len(devices)} {kind}s; {'program':24} graphs native  result")
    for name, least_graph, executions, wrong in rows:
        print(f"{name:31} {least_graph:6} {executions:6}  {wrong or 'ok'}")
    return int(any(wrong for *_, wrong in rows))


if __name__ == "__main__":
    sys.exit(main())
