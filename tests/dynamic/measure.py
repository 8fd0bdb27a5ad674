"""What sizes that vary cost.

python -m tests.dynamic.measure steps MODE
    A training step of a small transformer at 20 batch sizes, from nothing: seconds, and executables compiled. MODE:
    graph (plain tf.function), on (one executable for all), off (one a size), stock (TensorFlow's own XLA).
python -m tests.dynamic.measure shows [NAME...]
    The programs of `tests.dynamic.shows` in their full form: executables, and what a new size costs.
python -m tests.dynamic.measure kernels [NAME]
    Functions compiled for their own size and for all: microseconds of a call, best of 300, and own time over the other,
    the median over turns; both have to compute the same. In brackets how many executables the second took. NAME: a part
    of the functions' names.
python -m tests.dynamic.measure warm [RUNS]
    tests.dynamic.warm: the first step of a process that finds a store full, beside one that finds it empty.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.dynamic import show_times

BATCHES = (32, 16, 8, 64, 7, 13, 24, 40, 48, 56, 11, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_ROUNDS = 300
WIDTH, HEADS, LAYERS, LENGTH, WORDS = 64, 4, 2, 16, 100


def transformer() -> Callable[[Any, Any], Any]:
    """A step of gradient descent; its variables are made here."""
    rng = np.random.default_rng(0)

    def weights(*dims: int) -> Any:
        return tf.Variable(rng.standard_normal(dims).astype(np.float32) * 0.05)

    words = weights(WORDS, WIDTH)
    layers = [
        [weights(WIDTH, 3 * WIDTH), weights(WIDTH, WIDTH), weights(WIDTH, 2 * WIDTH), weights(2 * WIDTH, WIDTH)]
        for _ in range(LAYERS)
    ]

    def norm(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5)

    def attend(x: Any, into: Any, out: Any) -> Any:
        parts = tf.reshape(x @ into, [tf.shape(x)[0], LENGTH, 3, HEADS, WIDTH // HEADS])
        q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.25), v)
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [tf.shape(x)[0], LENGTH, WIDTH]) @ out

    def step(tokens: Any, labels: Any) -> Any:
        variables = [words, *(w for layer in layers for w in layer)]
        with tf.GradientTape() as tape:
            x = tf.gather(words, tokens)
            for into, out, wide, narrow in layers:
                x = x + attend(norm(x), into, out)
                x = x + tf.nn.gelu(norm(x) @ wide) @ narrow
            logits = tf.matmul(tf.reduce_mean(x, 1), words, transpose_b=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    return step


def steps(mode: str) -> None:
    """Prints a line: wall and processor seconds, executables compiled, the last loss."""
    if mode in ("on", "off"):
        tfxla_cluster.enable(tfxla_dynamic=mode)
    step = tf.function(transformer(), jit_compile=mode != "graph")
    tf.function(lambda x: x + 1)(tf.constant(1))  # TensorFlow has started
    wall, processor = time.perf_counter(), time.process_time()
    for batch in BATCHES:
        rng = np.random.default_rng(batch)
        tokens = tf.constant(rng.integers(0, WORDS, (batch, LENGTH)).astype(np.int32))
        loss = step(tokens, tf.constant(rng.integers(0, WORDS, batch).astype(np.int32)))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    count = tfxla_cluster.stats()["compilations"]
    print(f"{mode}: {wall:.1f} s, of processors {processor:.1f} s, {count} compiled, loss {float(loss):.6f}")


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": tf.nn.softmax,
    "normalised rows": lambda x: (x - tf.reduce_mean(x, 1, keepdims=True)) * tf.reduce_max(x, 1, keepdims=True),
    "sum of columns": lambda x: tf.reduce_sum(x, 0),
    "sum of rows": lambda x: tf.reduce_sum(x, 1),
    "gelu": tf.nn.gelu,
    "transpose": lambda x: tf.transpose(x + 1.0),
    "product": lambda x: tf.matmul(x, x, transpose_b=True),
    "argmax": lambda x: tf.argmax(x, 1),
    "concatenation": lambda x: tf.concat([x[:, 1:], x[:, :1]], 1) * 2.0,
    "cumulative sum of rows": lambda x: tf.cumsum(x, 1),
    "cumulative sum of columns": lambda x: tf.cumsum(x, 0),
}
WINDOW = np.random.default_rng(1).standard_normal((3, 3, 32, 32)).astype(np.float32)


def _gradients(convolved: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        window = tf.constant(WINDOW)
        with tf.GradientTape() as tape:
            tape.watch([x, window])
            loss = tf.reduce_sum(convolved(x, window) ** 2)
        return tape.gradient(loss, [x, window])

    return function


# Of 4 images, whose sizes leave the same by 4.
IMAGES: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda x: tf.nn.conv2d(x, WINDOW, 1, "SAME"),
    "strided convolution": lambda x: tf.nn.conv2d(x, WINDOW, 2, "SAME"),
    "its gradients": _gradients(lambda x, window: tf.nn.conv2d(x, window, 1, "SAME")),
    "its gradients, strided": _gradients(lambda x, window: tf.nn.conv2d(x, window, 2, "SAME")),
    "maximum pooling, gradient": _gradients(lambda x, window: tf.nn.max_pool2d(x, 2, 2, "SAME") * window[0, 0, 0]),
    "mean pooling, gradient": _gradients(lambda x, window: tf.nn.avg_pool2d(x, 3, 2, "SAME") * window[0, 0, 0]),
}
WEIGHTS = np.random.default_rng(2).standard_normal((512, 2048)).astype(np.float32)
Shapes = tuple[tuple[int, ...], ...]  # the one that is timed, then others


def _attend(x: Any) -> Any:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True) * 0.125) @ x


PRODUCTS: dict[str, tuple[Callable[[Any], Any], Shapes]] = {
    "product with weights": (lambda x: x @ WEIGHTS[:, :512], ((512, 512), (40, 512), (72, 512))),
    "product with weights, few rows": (lambda x: x @ WEIGHTS, ((32, 512), (640, 512), (720, 512))),
    "product with few columns of weights": (lambda x: x @ WEIGHTS[:, :10], ((1024, 512), (40, 512), (72, 512))),
    "product, tanh, product": (lambda x: tf.tanh(x @ WEIGHTS) @ WEIGHTS.T, ((300, 512), (40, 512), (72, 512))),
    "product, gradient of weights": (lambda x: tf.matmul(x, x, transpose_a=True), ((4000, 256), (40, 256), (72, 256))),
    "product of square matrices": (lambda x: x @ x, ((509, 509), (40, 40), (72, 72))),
    "product of 16 matrices": (lambda x: x @ x, ((16, 128, 128), (16, 40, 40), (16, 72, 72))),
    "product of many small matrices": (lambda x: x @ x, ((512, 32, 32), (40, 32, 32), (72, 32, 32))),
    "product in f64": (lambda x: tf.cast(x, "float64") @ tf.cast(x, "float64"), ((384, 384), (40, 40), (72, 72))),
    "product in bf16": (lambda x: tf.cast(x, "bfloat16") @ tf.cast(x, "bfloat16"), ((384, 384), (40, 40), (72, 72))),
    "products of attention": (_attend, ((8, 256, 64), (8, 40, 64), (8, 72, 64))),
}


def kernels(named: str = "") -> None:
    """Prints a row for each function with this in its name."""
    square, images = ((512, 512), (64, 128), (96, 256)), ((4, 56, 56, 32), (4, 24, 20, 32), (4, 32, 40, 32))
    rows = [(*row, square) for row in FUNCTIONS.items()] + [(*row, images) for row in IMAGES.items()]
    rows += [(name, *row) for name, row in PRODUCTS.items()]
    for name, function, (timed, *others) in (row for row in rows if named in row[0]):
        x = tf.random.normal(timed)
        pair = [tfxla_cluster.jit(function, dynamic=dynamic) for dynamic in (False, None)]
        before = tfxla_cluster.stats()["compilations"]
        for shape in others:  # the second makes it for all
            pair[1](tf.random.normal(shape))
        got, count = pair[1](x), tfxla_cluster.stats()["compilations"] - before
        for one, other in zip(tf.nest.flatten(pair[0](x)), tf.nest.flatten(got), strict=True):
            assert_near(one, other, 1e-5, name)
        times = np.array([_turn(pair, x, number % 2 == 1) for number in range(_ROUNDS)])
        (own, generic), ratio = times.min(0) * 1e6, np.median(times[:, 0] / times[:, 1])
        print(f"{name}: own {own:.0f} us, for all {generic:.0f} us, {ratio:.2f} ({count} compiled)", flush=True)


def _turn(pair: list[Callable[[Any], Any]], x: Any, second_first: bool) -> list[float]:
    """Seconds of each: who begins, takes the memory that the last result left."""
    if second_first:
        return [_seconds(jitted, x) for jitted in pair[::-1]][::-1]
    return [_seconds(jitted, x) for jitted in pair]


def _seconds(jitted: Callable[[Any], Any], x: Any) -> float:
    start = time.perf_counter()
    jitted(x)
    return time.perf_counter() - start


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    if sys.argv[1] == "warm":
        from tests.dynamic import warm

        warm.compare(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    elif sys.argv[1] == "shows":
        show_times.main(sys.argv[2:])
    else:
        kernels(*sys.argv[2:]) if sys.argv[1] == "kernels" else steps(sys.argv[2])
