"""What the steps of transformers share, in plain TensorFlow ops: bf16 compute, f32 variables, AdamW by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Size:
    """Of a model; the defaults are BERT-base's."""

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


def narrow(value: Any) -> tf.Tensor:
    return tf.cast(value, tf.bfloat16)


def normalised(x: tf.Tensor, scale: tf.Variable, offset: tf.Variable) -> tf.Tensor:
    x = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    scale, offset = (tf.cast(v, tf.float32) for v in (scale, offset))
    return narrow((x - mean) * tf.math.rsqrt(variance + 1e-12) * scale + offset)


def dense(w: Variables, name: str, x: tf.Tensor) -> tf.Tensor:
    return x @ narrow(w[name]) + narrow(w[f"{name} bias"])


def weighted(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """bf16[batch, heads, tokens, width]: values by the softmax of the scores of queries and keys plus `bias`."""
    scores = tf.matmul(q, k, transpose_b=True) * narrow(int(q.shape[-1]) ** -0.5) + bias
    return tf.matmul(narrow(tf.nn.softmax(tf.cast(scores, tf.float32))), v)


def attention(w: Variables, n: int, x: tf.Tensor, bias: tf.Tensor, size: Size) -> tf.Tensor:
    """Of layer `n`: bf16[batch, tokens, hidden] of the same."""
    joined = tf.reshape(dense(w, f"{n}.qkv", x), [-1, size.tokens, 3, size.heads, size.hidden // size.heads])
    q, k, v = tf.unstack(tf.transpose(joined, [2, 0, 3, 1, 4]))
    mixed = weighted(q, k, v, bias)
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, size.tokens, size.hidden])
    return dense(w, f"{n}.out", mixed)


def feed_forward(w: Variables, n: int, x: tf.Tensor) -> tf.Tensor:
    return dense(w, f"{n}.down", tf.nn.gelu(dense(w, f"{n}.up", x), approximate=True))


class AdamW:
    """Its moments of the variables, and their updates."""

    def __init__(self, w: Variables) -> None:
        self.w = w
        self.first = {name: tf.Variable(tf.zeros_like(value)) for name, value in w.items()}
        self.second = {name: tf.Variable(tf.zeros_like(value)) for name, value in w.items()}

    def apply(self, loss: tf.Tensor, tape: tf.GradientTape) -> None:
        for name, slope in zip(self.w, tape.gradient(loss, list(self.w.values()))):
            value, first, second = self.w[name], self.first[name], self.second[name]
            gradient = tf.convert_to_tensor(slope)  # of an embedding it is slices
            first.assign(0.9 * first + 0.1 * gradient)
            second.assign(0.999 * second + 0.001 * gradient * gradient)
            value.assign_sub(1e-4 * (first / (tf.sqrt(second) + 1e-6) + 0.01 * value))
