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
    "recurrent": (recurrent, [((7, 4, 5), tf.float32), ((5 + 6, 6), tf.float32)]),
}


def main() -> None:
    for name, (program, shapes) in PROGRAMS.items():
        arguments = [tf.zeros(shape, dtype) for shape, dtype in shapes]
        compiled = tf.function(program, jit_compile=True)
        lowered = compiled.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
        (HERE / f"{name}.hlo.pb").write_bytes(lowered)


if __name__ == "__main__":
    main()
