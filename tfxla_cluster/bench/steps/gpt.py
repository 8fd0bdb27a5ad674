"""Steps of GPT-2-small in plain TensorFlow ops: training (bf16 compute, f32 variables, AdamW by hand), and decoding one
token of each sequence with the keys and values of the tokens before it kept."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .task import Step, Task
from .transformer import AdamW, Size, Variables, attention, dense, feed_forward, narrow, normalised, variables, weighted

SMALL = Size(words=50257, tokens=1024)
_HIDDEN = -1e9  # a bias on scores of what is not to be seen


def training_step(size: Size) -> Step:
    """(ids,) -> loss of predicting each next token; it updates variables of its own."""
    w = variables(size)
    optimizer = AdamW(w)
    causal = narrow(np.triu(np.full((size.tokens, size.tokens), _HIDDEN, "f"), 1))

    def step(ids: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x = narrow(tf.gather(w["words"], ids) + w["places"])
            for n in range(size.layers):
                x = x + attention(w, n, normalised(x, w[f"{n}.scale 1"], w[f"{n}.offset 1"]), causal, size)
                x = x + feed_forward(w, n, normalised(x, w[f"{n}.scale 2"], w[f"{n}.offset 2"]))
            x = normalised(x, w["scale"], w["offset"])
            logits = tf.cast(tf.matmul(x, narrow(w["words"]), transpose_b=True), tf.float32)[:, :-1]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], logits))
        optimizer.apply(loss, tape)
        return loss

    return step


def decoding_step(size: Size, batch: int) -> Step:
    """(ids s32[batch], place s32[]) -> the sum of the chosen ids; it keeps keys and values in variables of its own,
    bf16[tokens, batch, heads, width] each."""
    w = {name: tf.Variable(narrow(value)) for name, value in variables(size).items()}
    width = size.hidden // size.heads
    kept = [
        [tf.Variable(tf.zeros([size.tokens, batch, size.heads, width], tf.bfloat16)) for _ in "kv"]
        for _ in range(size.layers)
    ]

    def step(ids: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
        x = (tf.gather(w["words"], ids) + tf.gather(w["places"], place))[:, None]
        bias = narrow(tf.where(tf.range(size.tokens) <= place, 0.0, _HIDDEN))
        for n in range(size.layers):
            before = normalised(x, w[f"{n}.scale 1"], w[f"{n}.offset 1"])
            x = x + _decoded(w, n, before, kept[n], place, bias, size)
            x = x + feed_forward(w, n, normalised(x, w[f"{n}.scale 2"], w[f"{n}.offset 2"]))
        x = normalised(x, w["scale"], w["offset"])
        return tf.reduce_sum(tf.argmax(tf.matmul(x, w["words"], transpose_b=True), -1, tf.int32))

    return step


def _decoded(
    w: Variables, n: int, x: tf.Tensor, kept: list[tf.Variable], place: tf.Tensor, bias: tf.Tensor, size: Size
) -> tf.Tensor:
    """Attention of layer `n` for the token at `place`: bf16[batch, 1, hidden] of the same."""
    width = size.hidden // size.heads
    q, *new = tf.unstack(tf.reshape(dense(w, f"{n}.qkv", x), [-1, 3, size.heads, width]), axis=1)
    seen = []
    for variable, value in zip(kept, new, strict=True):
        variable.assign(tf.tensor_scatter_nd_update(variable, [[place]], value[None]))
        seen.append(tf.transpose(variable, [1, 2, 0, 3]))
    keys, values = seen
    mixed = weighted(q[:, :, None], keys, values, bias)
    return dense(w, f"{n}.out", tf.reshape(mixed, [-1, 1, size.hidden]))


def ids(batch: int, size: Size) -> list[tf.Tensor]:
    """Drawn tokens of `batch` sequences."""
    return [tf.constant(np.random.default_rng(1).integers(0, size.words, (batch, size.tokens)).astype("i4"))]


def train(size: Size = SMALL) -> Task:
    return Task(lambda: training_step(size), lambda batch: ids(batch, size), 16)


def decode(size: Size = SMALL, batch: int = 16) -> Task:
    """Of `batch` sequences, whatever the command says: variables are of this size."""

    def data(_: int) -> list[tf.Tensor]:
        return [ids(batch, size)[0][:, 0], tf.constant(size.tokens // 2)]

    return Task(lambda: decoding_step(size, batch), data, batch)
