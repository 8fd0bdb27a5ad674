"""One of two workers of a MultiWorkerMirroredStrategy, which go through all cases of tests/ranks/test_workers.py in one
process each: `python -m tests.ranks.worker RANK PORT PORT`. Its last line is what it found, as JSON.

Between two cases the workers wait for each other, so that a case begins on both at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

RANK = int(sys.argv[1])
TASKS = [f"localhost:{port}" for port in sys.argv[2:4]]
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": TASKS}, "task": {"type": "worker", "index": RANK}})

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402

import tfxla_cluster  # noqa: E402
from tests.close import assert_near  # noqa: E402
from tfxla_cluster import config  # noqa: E402

COUNTED = ("compilations", "fallbacks", "internal_errors")
W = np.random.default_rng(7).standard_normal((4, 3)).astype(np.float32)
BARRIER_MS = 60_000
HEARTBEAT_MS = 6_000


def strategy() -> tf.distribute.Strategy:
    """The end of a worker is known after HEARTBEAT_MS, not 10 s."""
    context.context().configure_coordination_service(
        "standalone",
        "/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=HEARTBEAT_MS,
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=len(TASKS))],
    )
    return tf.distribute.MultiWorkerMirroredStrategy()


def rows(size: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(size).standard_normal((size, 4)), tf.float32)


def step(x: tf.Tensor) -> tf.Tensor:
    """Reads its size while it is traced."""
    return tf.reduce_sum(tf.tanh(x @ W), 0) / x.shape[0]


def called(name: str, *sizes: int, same: Callable[[Any], Any] = step) -> None:
    """`same` times a number of its own (an equal program would be found compiled), must-compile, under a name of its
    own; its values are eager's."""
    factor = 1.0 + zlib.crc32(name.encode()) % 97

    def function(x: tf.Tensor) -> tf.Tensor:
        return same(x) * factor

    function.__name__ = name
    made = tf.function(function, jit_compile=True)
    for size in sizes:
        assert_near(made(rows(size)), same(rows(size)) * factor, 2e-6, f"{name} of {size}")


def refused(name: str, size: int) -> dict[str, Any]:
    """What a call says that cannot be compiled, and after how long."""
    start = time.monotonic()
    try:
        called(name, size)
    except tf.errors.UnavailableError as error:
        return {"error": error.message, "seconds": time.monotonic() - start}
    return {"error": "", "seconds": time.monotonic() - start}


def two_sizes() -> None:
    called("two_sizes", (6, 9)[RANK], (31, 17)[RANK])


def one_size() -> None:
    called("one_size", 6)


def later_size() -> None:
    """One rank alone has a second size; what it makes of it is the other's too, once that one needs it."""
    called("later_size", 6, *((8,) if RANK == 0 else ()))
    meet("later")
    if RANK == 1:
        called("later_size", 10)


def other_programs() -> None:
    """The same function is another program on each rank."""
    called("other_programs", (5, 7)[RANK], same=lambda x: tf.tanh(x) if x.shape[0] == 5 else tf.exp(x) + 1.0)


def one_rank_alone() -> None:
    """Rank 0 has a function that rank 1 has not, which meanwhile waits for rank 0 at the next one."""
    if RANK == 0:
        called("on_rank_0", 6)
    called("on_both", (6, 9)[RANK])


def cluster(model: tf.distribute.Strategy) -> None:
    """Clusters between collectives, in strategy.run."""

    @tf.function
    def replica(x: tf.Tensor) -> tf.Tensor:
        y = tf.reduce_sum(tf.tanh(x @ W) * 2.0 + 1.0, 0)
        total = tf.distribute.get_replica_context().all_reduce("sum", y)
        return tf.nn.softmax(total * 0.5 + y)

    def run(size: int) -> Any:
        @tf.function
        def program(x: tf.Tensor) -> Any:
            return model.experimental_local_results(model.run(replica, (x,)))[0]

        return program(rows(size))

    sums = [tf.reduce_sum(tf.tanh(rows(size) @ W) * 2.0 + 1.0, 0) for size in (6, 9)]
    assert_near(run((6, 9)[RANK]), tf.nn.softmax((sums[0] + sums[1]) * 0.5 + sums[RANK]), 5e-6, "cluster")


def net() -> Any:
    tf.keras.utils.set_random_seed(3)
    return tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])


def keras_steps(model: tf.distribute.Strategy) -> list[float]:
    """Two steps of training with gradients summed over the workers, batches of other sizes on each: the weights."""
    with model.scope():
        made, optimizer = net(), tf.keras.optimizers.SGD(0.1)
        optimizer.build(made.trainable_variables)

    def train(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(made(x) - x[:, :1]))
        optimizer.apply_gradients(zip(tape.gradient(loss, made.trainable_variables), made.trainable_variables))

    @tf.function
    def program(x: tf.Tensor) -> None:
        model.run(train, (x,))

    for size in ((6, 5), (9, 7))[RANK]:
        program(rows(size))
    return [float(np.abs(variable.numpy()).sum()) for variable in made.trainable_variables]


def keras_fit() -> list[float]:
    """Batches of 8 rows; the last has 5 on one rank and 3 on the other. (Keras' fit refuses this strategy, so each
    worker trains a model of its own.)"""
    made, x = net(), rows((21, 19)[RANK])
    made.compile("sgd", "mse", jit_compile=True)
    return [float(loss) for loss in made.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0).history["loss"]]


def meet(name: str) -> None:
    context.context().wait_at_barrier(f"tests/{name}", BARRIER_MS)


def counts() -> dict[str, int]:
    stats = tfxla_cluster.stats()
    return {name: stats[name] for name in COUNTED} | {"from_rank": stats["cache_hit_reasons"].get("rank", 0)}


def main() -> None:
    found: dict[str, Any] = {}

    def case(name: str, run: Callable[[], Any], **flags: Any) -> None:
        meet(name)
        before, start = counts(), time.monotonic()
        with config.patch(**{"tfxla_compiler_collectives": True, **flags}):
            result = run()
        after = counts()
        counted = {key: after[key] - before[key] for key in after}
        found[name] = {"result": result, "seconds": time.monotonic() - start, **counted}

    tfxla_cluster.enable(tfxla_must_compile_fallback="raise")  # before, as TFXLA_FLAGS does
    model = strategy()
    for run in (two_sizes, one_size, later_size, other_programs, one_rank_alone):
        case(run.__name__, run)
    auto = {"tf_xla_auto_jit": 2, "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 2}
    case("cluster", lambda: cluster(model), **auto)
    case("keras_steps", lambda: keras_steps(model), **auto)
    case("keras_fit", keras_fit)
    only = {"tfxla_compiler_collectives_timeout": 1}
    case("one_flag", lambda: refused("one_flag", 6), tfxla_compiler_collectives=RANK == 0, **only)
    case("never", lambda: refused("never", 6) if RANK == 0 else None, **only)
    case("again", lambda: called("never", 6))
    case("end", lambda: None)
    if RANK == 0:
        with config.patch(tfxla_compiler_collectives=True, tfxla_compiler_collectives_timeout=100, **auto):
            found["ended"] = refused("ended", 6)
            before = counts()
            assert_near(tf.function(step)(rows(6)), step(rows(6)), 2e-6, "a cluster without the other worker")
            found["ended_cluster"] = {key: count - before[key] for key, count in counts().items()}
    print(json.dumps(found), flush=True)
    os._exit(0)  # as one that dies does: no goodbye to the coordination service


main()
