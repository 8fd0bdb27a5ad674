"""One executable for all sizes (tfxla_cluster.dynamic_policy), through the whole compiler: counted, equal to eager at
every size."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests import fresh
from tests.close import assert_near
from tfxla_cluster import counters, flags

Shapes = Callable[[int, int], list[tuple[int, ...]]]
SIZES = ((6, 4), (9, 5), (13, 7), (31, 2), (2, 11))
SMALL = ((1, 5), (0, 4), (7, 1))  # modules of their own

enabled = contextmanager(fresh.compiler)
ours = pytest.fixture(autouse=True)(fresh.compiler)

AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 2}


def compiled() -> int:
    return int(counters.snapshot()["compilations"])


def values(shape: tuple[int, ...], seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def check(got: Any, want: Any, what: str, tolerance: float = 2e-6) -> None:
    for number, (a, b) in enumerate(zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True)):
        assert_near(a, b, tolerance, f"{what}, result {number}")


# --- functions: (its arguments' shapes at n and m, the function) ---


def attention(x: Any) -> Any:
    """Causal, over sequences of length n; the mask is a literal of the trace."""
    length = x.shape[1]
    mask = tf.constant(np.where(np.tri(length, dtype=bool), 0.0, -1e9).astype(np.float32))
    scores = tf.matmul(x, x, transpose_b=True) / tf.sqrt(float(x.shape[-1])) + mask
    return tf.matmul(tf.nn.softmax(scores), x)


def batch_norm(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        scale = tf.ones([x.shape[-1]])
        y, mean, variance = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=scale * 0.5, mean=[], variance=[], epsilon=0.01
        )[:3]
        total = tf.reduce_sum(y**3)
    return y, mean, variance, tape.gradient(total, x)


def convolution(x: Any) -> Any:
    """Strided, pooled, with the gradient of the window."""
    window = tf.reshape(tf.linspace(-1.0, 1.0, 3 * 3 * 2 * 4), [3, 3, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(window)
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, window, 2, "SAME")), 2, 2, "VALID")
        loss = tf.reduce_mean(y**2)
    return loss, tape.gradient(loss, window)


def cross_entropy(x: Any) -> Any:
    labels = tf.argmax(tf.sin(x * 9.0), 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))
    return loss, tape.gradient(loss, x)


def layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5)


def cumulative(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cumsum(x, 0, exclusive=True), tf.cumsum(x, 1, reverse=True), tf.math.cumprod(tf.tanh(x), 0)
        total = tf.add_n([tf.reduce_sum(part**2) for part in y])
    return *y, tf.math.cumulative_logsumexp(x, 1), tape.gradient(total, x)


def recurrent(x: Any) -> Any:
    """A loop over time with a TensorArray, and its gradient."""
    weights = tf.reshape(tf.linspace(-0.5, 0.5, 6 * 3), [6, 3])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        state, outputs = tf.zeros([x.shape[1], 3]), tf.TensorArray(tf.float32, x.shape[0])
        for t in tf.range(x.shape[0]):
            state = tf.tanh(tf.concat([x[t], state], 1) @ weights)
            outputs = outputs.write(t, state)
        total = tf.reduce_sum(outputs.stack() ** 2)
    return total, tape.gradient(total, weights)


def moves(x: Any) -> Any:
    n = x.shape[0]
    return (
        tf.concat([x[1:], x[:1]], 0),
        tf.reshape(x, [-1]),
        tf.pad(x, [[1, 2], [0, 0]]),
        tf.tile(x, [2, 1]),
        tf.reverse(x, [0]),
        tf.sort(x, 0),
        tf.transpose(x) @ x,
        tf.roll(x, 1, 0),
        tf.one_hot(tf.argmax(x, 1), x.shape[1]),
        tf.eye(n) * float(n),
        tf.shape(x) * n,
    )


def random(x: Any) -> Any:
    """With seeds that are no constants: the bridge would fold the numbers."""
    seed = tf.add(tf.cast(tf.reduce_sum(tf.abs(x)) < 0.0, tf.int32), [1, 2])
    return tf.nn.experimental.stateless_dropout(x, 0.4, seed) + tf.random.stateless_normal(x.shape, seed)


def literals(x: Any) -> Any:
    """Numbers of a trace that no expression of its sizes gives."""
    n, m = x.shape
    near = np.abs(np.arange(n)[:, None] - np.arange(n)).astype(np.float32)
    return (
        x * math.log(n) + 0.9**m,
        x * tf.signal.hann_window(n)[:, None] + tf.linspace(-1.0, 1.0, m),
        x + tf.random.stateless_normal(x.shape, [n, 5]),
        x * tf.one_hot(n - 1, n)[:, None] + (2.71 if n == 9 else 3.3),
        tf.gather(x, np.random.default_rng(n).permutation(n)),
        tf.matmul(x, x, transpose_b=True) - 0.25 * near,
        tf.where(np.arange(n * m).reshape(n, m) % 7 == 0, x, -x),
        tf.cast(x, tf.float64) * math.sqrt(n) ** m,
        tf.scan(lambda state, row: state * math.exp(-1 / n) + row, x, tf.zeros([m])),
        tf.cond(tf.reduce_sum(x) > 0, lambda: x * math.log(n), lambda: x * tf.signal.hann_window(n)[:, None]),
    )


FUNCTIONS: dict[str, tuple[Shapes, Callable[..., Any]]] = {
    "softmax": (lambda n, m: [(n, m)], tf.nn.softmax),
    "attention": (lambda n, m: [(m, n, 8)], attention),
    "batch_norm": (lambda n, m: [(n, 3, m, 5)], batch_norm),
    "convolution": (lambda n, m: [(n, 12, 12, 2)], convolution),
    "cross_entropy": (lambda n, m: [(n, m)], cross_entropy),
    "layer_norm": (lambda n, m: [(n, m)], layer_norm),
    "cumulative": (lambda n, m: [(n, m)], cumulative),
    "recurrent": (lambda n, m: [(n, m, 3)], tf.function(recurrent)),
    "literals": (lambda n, m: [(n, m)], literals),
    "moves": (lambda n, m: [(n, m)], moves),
    "random": (lambda n, m: [(n, m)], random),
    "mean": (lambda n, m: [(n, m)], lambda x: (tf.reduce_sum(x * x) / x.shape[0], tf.math.reduce_variance(x, 0))),
    "two": (lambda n, m: [(n, m), (m, n)], lambda x, y: x @ y + tf.transpose(y) @ tf.transpose(x)),
}
NEVER_EMPTY = ("recurrent", "literals")  # x[t] in the loop's body is refused where there is none; log(0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_compilations_do_for_all_sizes(name: str) -> None:
    shapes, function = FUNCTIONS[name]
    jitted = tf.function(function, jit_compile=True)
    before, results = compiled(), []
    for n, m in SIZES:
        args = [values(shape, n) for shape in shapes(n, m)]
        results.append((jitted(*args), args, f"{name} at {n}, {m}"))
    assert compiled() - before == 2
    for got, args, what in results:
        check(got, function(*args), what)
    for n, m in SMALL[: 1 if name in NEVER_EMPTY else None]:
        args = [values(shape, n) for shape in shapes(n, m)]
        check(jitted(*args), function(*args), f"{name} at {n}, {m}")


def test_images_of_each_parity_have_one() -> None:
    """SAME padding of a strided convolution is one on each side for odd sizes, on one side for even ones. With the
    gradients of two convolutions and of pooling."""
    windows = [values((3, 3, 2, 4)), values((2, 2, 4, 3), 1)]

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, *windows])
            y = tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, windows[0], 2, "SAME")), windows[1], 1, "SAME")
            loss = tf.reduce_mean(tf.nn.avg_pool2d(tf.nn.max_pool2d(y, 3, 1, "SAME"), 2, 1, "SAME") ** 2)
        return loss, tape.gradient(loss, [x, *windows])

    jitted, before = tf.function(step, jit_compile=True), compiled()
    for size in (8, 9, 12, 13, 2, 3, 7, 31, 30):
        x = values((2, size, 10, 2), size)
        check(jitted(x), step(x), f"{size}", 1e-5)
    assert compiled() - before == 4
    x = values((2, 1, 10, 2))
    check(jitted(x), step(x), "1", 1e-5)


def test_python_that_reads_a_size_is_never_wrong() -> None:
    def function(x: Any) -> Any:
        y = x * (2.0 if x.shape[0] == 33 else 3.0)
        return y + float(min(x.shape[0], 40)) if x.shape[0] % 5 else tf.tanh(y)

    jitted = tf.function(function, jit_compile=True)
    for size in (32, 34, 36, 33, 35, 40, 41, 42, 60, 61, 33):
        x = values((size, 3))
        check(jitted(x), function(x), f"{size}")


def test_sizes_that_changed_together_come_apart() -> None:
    jitted, before = tf.function(lambda x, y: x @ y, jit_compile=True), compiled()
    for n, m in ((8, 8), (12, 12), (16, 16), (5, 9), (9, 5), (6, 6)):
        x, y = values((n, m)), values((m, n))
        check(jitted(x, y), tf.matmul(x, y), f"{n}, {m}")
    assert compiled() - before == 3


def test_retraces_are_compared() -> None:
    """`dynamic=False` compiles each size; an argument's rank and type change the function."""
    static, before = tfxla_cluster.jit(lambda x: tf.tanh(x) + 1.0, dynamic=False), compiled()
    for size in (3, 4, 5, 6):
        static(values((size,)))
    assert compiled() - before == 4
    dynamic, before = tfxla_cluster.jit(lambda x: tf.tanh(x) + 2.0), compiled()
    for size in (3, 4, 5, 6):
        dynamic(values((size,)))
    assert compiled() - before == 2
    with flags.patch(tfxla_dynamic="off"):
        off, before = tfxla_cluster.jit(lambda x: tf.tanh(x) + 3.0), compiled()
        for size in (3, 4, 5):
            off(values((size,)))
        assert compiled() - before == 3


def test_a_signature_without_sizes() -> None:
    """One trace, which is lowered at a sample too: the first executable is for all. Where it is trusted, sizes are not
    lowered any more."""
    for verify, lowerings in (("always", 6), ("first", 5), ("off", 4)):  # two are at sizes that nothing asked for
        with flags.patch(tfxla_dynamic_verify=verify):
            function = lambda x: tf.nn.softmax(x) * float(len(verify))  # noqa: B023
            spec = [tf.TensorSpec([None, 3], tf.float32)]
            jitted = tf.function(function, input_signature=spec, jit_compile=True)
            before = counters.snapshot()
            for size in (5, 7, 11, 13, 17, 7):
                x = values((size, 3), size)
                check(jitted(x), function(x), f"{size}")
            after = counters.snapshot()
            assert after["compilations"] - before["compilations"] == 1
            assert after["lowerings"] - before["lowerings"] == lowerings


def test_a_signature_that_fits_at_some_sizes_only() -> None:
    """The sample is no program: the second size tells how the arguments' sizes hang together."""
    spec = [tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.float32)]
    jitted = tf.function(lambda x, y: tf.concat([x, x, x], 0) * y, input_signature=spec, jit_compile=True)
    before = compiled()
    for size in (5, 7, 11, 13):
        x, y = values((size,)), values((3 * size,), 1)
        check(jitted(x, y), tf.concat([x, x, x], 0) * y, f"{size}")
    assert compiled() - before == 2


@pytest.mark.parametrize("verify", ["first", "off"])
def test_sizes_that_have_to_fit_are_trusted_nowhere(verify: str) -> None:
    """The second argument is twice as long as the first: no guard says so."""
    spec = [tf.TensorSpec([None], tf.float32)] * 2
    with flags.patch(tfxla_dynamic_verify=verify):
        jitted = tf.function(lambda x, y: tf.concat([x, x], 0) + y, input_signature=spec, jit_compile=True)
        for size in (5, 7, 11, 13):
            x, y = values((size,)), values((2 * size,), 1)
            check(jitted(x, y), tf.concat([x, x], 0) + y, f"{size}")
        with pytest.raises(tf.errors.InvalidArgumentError):
            jitted(values((17,)), values((33,)))


def test_variables_keep_their_sizes() -> None:
    variables = [tf.Variable(values((size, 4))) for size in (3, 5, 6)]
    before = compiled()
    for variable in variables:
        jitted = tf.function(lambda x, v=variable: x @ v, jit_compile=True)
        x = values((2, variable.shape[0]))
        check(jitted(x), x @ variable, "product")
    assert compiled() - before == 3


@flags.patch(**AUTO)
def test_automatic_clusters_and_nested_functions() -> None:
    tfxla_cluster.enable()
    inner = tf.function(lambda x: tf.nn.softmax(x * 2.0) + 1.0, jit_compile=True)
    nested = tf.function(lambda x: tf.strings.length(tf.strings.as_string(tf.reduce_sum(x))) * 0 + tf.size(inner(x)))
    function = lambda x: tf.tanh(tf.tanh(x) * 2.0 + tf.exp(-x)) * tf.sigmoid(x - 1.0)
    before = compiled()
    for traced in (tf.function(function), tf.function(function, reduce_retracing=True)):
        for size in (6, 9, 4, 13, 21):
            x = values((size, 3), size)
            check(traced(x), function(x), f"{size}")
    assert compiled() - before == 2
    before = compiled()
    for size in (6, 9, 4, 13):
        assert int(nested(values((size, 3)))) == size * 3
    assert 2 <= compiled() - before <= 4  # the callee, and what surrounds it


def test_keras_compiles_a_short_last_batch_with_all_others() -> None:
    def fitted() -> tuple[list[float], int]:
        tf.keras.utils.set_random_seed(1)
        layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3)]
        model = tf.keras.Sequential([tf.keras.layers.Input((5,)), *layers])
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
        before = compiled()
        losses: list[float] = []
        for rows in (32, 21, 26, 19):
            x, y = values((rows, 5), rows), tf.range(rows) % 3
            losses += model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False).history["loss"]
        return losses, compiled() - before

    losses, count = fitted()
    tfxla_cluster.disable()
    assert_near(losses, fitted()[0], 1e-5)
    tfxla_cluster.enable()
    assert count <= 4, "the step and its metrics, each at one size and for all"


def test_the_trace_says_why(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return x * 2.0 if x.shape[0] == 33 else x + 3.0

    with flags.patch(xla_dump_to=str(tmp_path)):
        jitted = tf.function(function, jit_compile=True)
        for size in (32, 34, 36, 33):
            jitted(values((size,)))
    lines = [line for path in tmp_path.glob("trace.*.jsonl") for line in path.read_text().splitlines()]
    records = [r for r in map(json.loads, lines) if r["kind"] == "compile"]
    assert [r["generic"] for r in records] == [False, True, True, False]
    assert [r["hit"] for r in records] == ["", "", "memory", ""]
    assert "argument 'x': dim 0 was 32, is 34; compiled for all such sizes" in records[1]["reason"]
    assert "for these alone" in records[3]["reason"]
    assert f"{Path(__file__).name}:" in records[3]["reason"]
    assert "the programs part here" in records[3]["reason"]
