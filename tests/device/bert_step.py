"""A training step of BERT-base in plain TensorFlow ops, timed: bf16 compute, f32 variables, AdamW by hand.

    python -m tests.device.bert_step MODE... --batch 16,64 [--kernels 25]

Modes: graph (tf.function), must (must-compile, by this package), auto (clusters, by this package), stock (must-compile,
by stock XLA). A JSON line for each mode and batch: milliseconds of a step, sequences a second, seconds of the first
step with tracing and compilation, and on a GPU the most memory that TensorFlow's allocator held. `--kernels`: also the
kernels of a step that take longest (this package's are then dumped, which makes the first step longer).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster
from tests.device import kernel_times

PREDICTED = 76  # masked positions of a sequence
TIMED, TIMED_S = 10, 3.0  # steps, fewer where they would take longer than these seconds
PROFILED = 2  # steps
# What switches this package on, by mode.
FLAGS: dict[str, dict[str, str]] = {"must": {"tf_xla_auto_jit": "0"}, "auto": {"tf_xla_auto_jit": "2"}}


@dataclass(frozen=True)
class Size:
    """Of the model; the defaults are BERT-base's."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    inner: int = 3072
    words: int = 30522
    tokens: int = 512


Variables = dict[str, tf.Variable]


def variables(size: Size) -> Variables:
    """Drawn weights and biases; the scales of normalisations are one."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> tf.Variable:
        return tf.Variable(rng.standard_normal(shape).astype("f") * 0.02)

    def ones() -> tf.Variable:
        return tf.Variable(tf.ones([size.hidden]))

    found = {"words": drawn(size.words, size.hidden), "places": drawn(size.tokens, size.hidden)}
    found |= {"scale": ones(), "offset": drawn(size.hidden)}
    for n in range(size.layers):
        found |= {f"{n}.qkv": drawn(size.hidden, 3 * size.hidden), f"{n}.qkv bias": drawn(3 * size.hidden)}
        found |= {f"{n}.out": drawn(size.hidden, size.hidden), f"{n}.out bias": drawn(size.hidden)}
        found |= {f"{n}.up": drawn(size.hidden, size.inner), f"{n}.up bias": drawn(size.inner)}
        found |= {f"{n}.down": drawn(size.inner, size.hidden), f"{n}.down bias": drawn(size.hidden)}
        found |= {f"{n}.scale 1": ones(), f"{n}.offset 1": drawn(size.hidden)}
        found |= {f"{n}.scale 2": ones(), f"{n}.offset 2": drawn(size.hidden)}
    return found


def _narrow(value: Any) -> tf.Tensor:
    return tf.cast(value, tf.bfloat16)


def _normalised(x: tf.Tensor, scale: tf.Variable, offset: tf.Variable) -> tf.Tensor:
    x = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return _narrow((x - mean) * tf.math.rsqrt(variance + 1e-12) * scale + offset)


def _attention(w: Variables, n: int, x: tf.Tensor, bias: tf.Tensor, size: Size) -> tf.Tensor:
    width = size.hidden // size.heads
    joined = x @ _narrow(w[f"{n}.qkv"]) + _narrow(w[f"{n}.qkv bias"])
    joined = tf.reshape(joined, [-1, size.tokens, 3, size.heads, width])
    q, k, v = tf.unstack(tf.transpose(joined, [2, 0, 3, 1, 4]))
    scores = tf.matmul(q, k, transpose_b=True) * _narrow(width**-0.5) + bias
    mixed = tf.matmul(_narrow(tf.nn.softmax(tf.cast(scores, tf.float32))), v)
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, size.tokens, size.hidden])
    return mixed @ _narrow(w[f"{n}.out"]) + _narrow(w[f"{n}.out bias"])


def forward(w: Variables, ids: tf.Tensor, mask: tf.Tensor, size: Size) -> tf.Tensor:
    """bf16[batch, tokens, hidden]."""
    x = _normalised(tf.gather(w["words"], ids) + w["places"], w["scale"], w["offset"])
    bias = _narrow((1.0 - tf.cast(mask, tf.float32)) * -1e4)[:, None, None, :]
    for n in range(size.layers):
        x = _normalised(x + _attention(w, n, x, bias, size), w[f"{n}.scale 1"], w[f"{n}.offset 1"])
        inner = tf.nn.gelu(x @ _narrow(w[f"{n}.up"]) + _narrow(w[f"{n}.up bias"]), approximate=True)
        x = x + inner @ _narrow(w[f"{n}.down"]) + _narrow(w[f"{n}.down bias"])
        x = _normalised(x, w[f"{n}.scale 2"], w[f"{n}.offset 2"])
    return x


def training_step(size: Size) -> Callable[..., tf.Tensor]:
    """(ids, mask, positions, labels) -> loss; it updates variables of its own."""
    w = variables(size)
    first = {name: tf.Variable(tf.zeros_like(value)) for name, value in w.items()}
    second = {name: tf.Variable(tf.zeros_like(value)) for name, value in w.items()}

    def step(ids: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            chosen = tf.gather(forward(w, ids, mask, size), positions, batch_dims=1)
            logits = tf.cast(tf.matmul(chosen, _narrow(w["words"]), transpose_b=True), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for name, slope in zip(w, tape.gradient(loss, list(w.values()))):
            gradient = tf.convert_to_tensor(slope)  # of an embedding it is slices
            first[name].assign(0.9 * first[name] + 0.1 * gradient)
            second[name].assign(0.999 * second[name] + 0.001 * gradient * gradient)
            w[name].assign_sub(1e-4 * (first[name] / (tf.sqrt(second[name]) + 1e-6) + 0.01 * w[name]))
        return loss

    return step


def data(batch: int, size: Size) -> list[tf.Tensor]:
    """Drawn (ids, mask, positions, labels) of `batch` sequences."""
    rng = np.random.default_rng(1)
    places = min(PREDICTED, size.tokens)
    arrays = (
        rng.integers(0, size.words, (batch, size.tokens)),
        np.ones((batch, size.tokens)),
        rng.integers(0, size.tokens, (batch, places)),
        rng.integers(0, size.words, (batch, places)),
    )
    return [tf.constant(a.astype("i4")) for a in arrays]


def measured(step: Callable[..., tf.Tensor], inputs: Sequence[tf.Tensor]) -> dict[str, float]:
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
    rounded = {"ms": round(seconds * 1e3, 2), "sequences_per_s": round(int(inputs[0].shape[0]) / seconds, 1)}
    return {**rounded, "first_step_s": round(first, 1), "peak_gib": round(memory, 1), "loss": round(loss, 4)}


def run(mode: str, batches: Sequence[int], size: Size = Size(), kernels: int = 0) -> list[dict[str, Any]]:
    """A row for each batch size; one that does not fit says so and the next is tried. `kernels`: how many of the
    kernels that take longest are told."""
    step = tf.function(training_step(size), jit_compile=True if mode in ("must", "stock") else None)
    if mode not in FLAGS:
        return [_row(mode, step, data(batch, size), kernels) for batch in batches]
    with tempfile.TemporaryDirectory() as directory:
        flags = {**FLAGS[mode], "xla_dump_to": directory if kernels else ""}
        with tfxla_cluster.config.patch(**flags), tfxla_cluster.enable():
            rows = [_row(mode, step, data(batch, size), kernels, Path(directory)) for batch in batches]
        counts = tfxla_cluster.stats()
    names = ("kernels", "native_kernels", "fallbacks", "compile_s", "ops_total", "ops_clustered")
    print(json.dumps({name: counts[name] for name in names}), flush=True)
    return rows


def _row(
    mode: str, step: Callable[..., tf.Tensor], inputs: Sequence[tf.Tensor], kernels: int, dump: Path | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {"mode": mode, "batch": int(inputs[0].shape[0])}
    try:
        row |= measured(step, inputs)
        print(json.dumps(row), flush=True)
        if kernels:
            profile = kernel_times.of_steps(lambda: float(step(*inputs)), PROFILED, dump)
            print("\n".join(profile.lines(kernels)), flush=True)
    except tf.errors.ResourceExhaustedError as error:
        row["out_of_memory"] = error.message.splitlines()[0]
        print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="+", choices=["graph", "must", "auto", "stock"], metavar="MODE")
    parser.add_argument("--batch", default="16", help="batch sizes, by comma (default 16)")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="tell the N kernels that take longest")
    options = parser.parse_args()
    for mode in options.modes:
        run(mode, [int(batch) for batch in options.batch.split(",")], kernels=options.kernels)


if __name__ == "__main__":
    main()
