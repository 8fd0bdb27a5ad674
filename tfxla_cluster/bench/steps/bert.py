"""A training step of BERT-base in plain TensorFlow ops: bf16 compute, f32 variables, AdamW by hand."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .task import Step, Task
from .transformer import AdamW, Size, Variables, attention, feed_forward, narrow, normalised, variables

PREDICTED = 76  # masked positions of a sequence


def forward(w: Variables, ids: tf.Tensor, mask: tf.Tensor, size: Size) -> tf.Tensor:
    """bf16[batch, tokens, hidden]."""
    x = normalised(tf.gather(w["words"], ids) + w["places"], w["scale"], w["offset"])
    bias = narrow((1.0 - tf.cast(mask, tf.float32)) * -1e4)[:, None, None, :]
    for n in range(size.layers):
        x = normalised(x + attention(w, n, x, bias, size), w[f"{n}.scale 1"], w[f"{n}.offset 1"])
        x = normalised(x + feed_forward(w, n, x), w[f"{n}.scale 2"], w[f"{n}.offset 2"])
    return x


def training_step(size: Size) -> Step:
    """(ids, mask, positions, labels) -> loss; it updates variables of its own."""
    w = variables(size)
    optimizer = AdamW(w)

    def step(ids: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            chosen = tf.gather(forward(w, ids, mask, size), positions, batch_dims=1)
            logits = tf.cast(tf.matmul(chosen, narrow(w["words"]), transpose_b=True), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(loss, tape)
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


BASE = Size()


def task(size: Size = BASE) -> Task:
    return Task(lambda: training_step(size), lambda batch: data(batch, size), 16)
