"""Writes the HLO modules of this folder anew, from TensorFlow programs through its own bridge.

python -m tests.data.make
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

HERE = Path(__file__).parent


def mlp_step(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """One step of gradient descent of a two-layer classifier: the loss and the new weights."""
    weights = (w1, b1, w2, b2)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = tf.nn.gelu(x @ w1 + b1) @ w2 + b2
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    gradients = tape.gradient(loss, weights)
    return loss, *(w - 0.1 * g for w, g in zip(weights, gradients))


def recurrent(x: Any, w: Any) -> Any:
    """A recurrent layer as a loop over time with a TensorArray, and its gradient."""
    with tf.GradientTape() as tape:
        tape.watch(w)
        state, outputs = tf.zeros([tf.shape(x)[1], w.shape[1]]), tf.TensorArray(tf.float32, x.shape[0])
        for t in tf.range(x.shape[0]):
            state = tf.tanh(tf.concat([x[t], state], 1) @ w)
            outputs = outputs.write(t, state)
        total = tf.reduce_sum(outputs.stack() ** 2)
    return total, tape.gradient(total, w)


def heads_step(x: Any) -> Any:
    """Keras's attention with a mask and dropout, and the gradients of its weights."""
    with tf.GradientTape() as tape:
        mask = tf.ones([x.shape[0], x.shape[1], x.shape[1]], tf.bool)
        total = tf.reduce_sum(HEADS(x, x, training=True, attention_mask=mask) ** 2)
    return total, *tape.gradient(total, HEADS.trainable_variables)


def halves_step(x: Any, w: Any, mask: Any) -> Any:
    """Attention of 4 heads in bfloat16 after one product for queries, keys and values, and both gradients."""
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        batch, length, width = x.shape
        parts = tf.reshape(x @ w, [batch, length, 3, 4, width // 4])
        q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        bias = tf.cast((1.0 - mask) * -1e4, tf.bfloat16)[:, None, None, :]
        scores = tf.matmul(q, k, transpose_b=True) * tf.constant(0.25, tf.bfloat16) + bias
        result = tf.matmul(tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), tf.bfloat16), v)
        total = tf.reduce_sum(tf.cast(tf.reshape(tf.transpose(result, [0, 2, 1, 3]), x.shape), tf.float32) ** 2)
    return total, *tape.gradient(total, (x, w))


HEADS = tf.keras.layers.MultiHeadAttention(3, 8, dropout=0.1)

PROGRAMS = {
    "mlp_step": (
        mlp_step,
        [
            ((32, 20), tf.float32),
            ((32,), tf.int32),
            ((20, 64), tf.float32),
            ((64,), tf.float32),
            ((64, 10), tf.float32),
            ((10,), tf.float32),
        ],
    ),
    "attention/heads_step": (heads_step, [((2, 20, 16), tf.float32)]),
    "attention/halves_step": (
        halves_step,
        [((2, 20, 64), tf.bfloat16), ((64, 192), tf.bfloat16), ((2, 20), tf.float32)],
    ),
    "recurrent": (recurrent, [((7, 4, 5), tf.float32), ((5 + 6, 6), tf.float32)]),
}


def main() -> None:
    for name, (program, shapes) in PROGRAMS.items():
        arguments = [tf.zeros(shape, dtype) for shape, dtype in shapes]
        program(*arguments)  # a layer makes its variables
        compiled = tf.function(program, jit_compile=True)
        lowered = compiled.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
        (HERE / f"{name}.hlo.pb").write_bytes(lowered)


if __name__ == "__main__":
    main()
