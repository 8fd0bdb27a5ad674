"""Programs whose sizes vary, as users write them: a table for tests and for `python -m tests.dynamic.measure shows`.

They know nothing of this package. Weights come from NumPy, so that a program made twice is the same program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Function = Callable[..., Any]


class Program(NamedTuple):
    """function: from tensors to a structure of tensors. variables: what a call may change."""

    function: Function
    variables: Sequence[Any] = ()


@dataclass(frozen=True)
class Show:
    """A program, the arguments that it has at a size, and how many executables it may have.

    make: the program; of the real dimensions, or of small ones for a quick test. sizes: what varies, without 0 and 1;
    the first `quick` of them are those of the quick test. most: executables for all of these. small: of the sizes 0 and
    1, those that the program takes in eager TensorFlow. tolerance: as a part of an array's largest element.
    """

    make: Callable[[bool], Program]
    arguments: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, ...]
    quick: int = 5
    most: int = 2
    small: tuple[int, ...] = (1, 0)
    tolerance: float = 1e-5


BATCHES = (6, 4, 7, 13, 2, 32, 16, 8, 24, 40, 11, 19, 23, 29, 31, 37, 5, 3, 48, 53)
LENGTHS = (9, 6, 13, 2, 5, 17, 31, 23, 7, 11)
IMAGES = (12, 20, 13, 31, 17, 16, 24, 40, 23, 37)
WORDS = 50


def normal(*shape: int, seed: int = 0) -> Any:
    """Standard normal f32."""
    return tf.constant(np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32))


def integers(high: int, *shape: int, seed: int = 0) -> Any:
    """s32 from 0 to high - 1."""
    return tf.constant(np.random.default_rng((seed, *shape)).integers(0, high, shape).astype(np.int32))


def weights(*shape: int, seed: int = 0) -> Any:
    """A variable whose product with something of variance 1 has variance 1."""
    return tf.Variable(normal(*shape, seed=seed) / math.sqrt(np.prod(shape[:-1])))


def _descend(tape: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
    """A step of gradient descent; the gradients."""
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(0.05 * gradient)
    return gradients


# --- transformers ---


def _norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5)


def _attend(x: Any, mask: Any, into: Any, heads: int) -> Any:
    """Of several heads; keys where the mask is 0 are not seen."""
    batch, length, width = tf.shape(x)[0], x.shape[1], x.shape[2]
    parts = tf.reshape(x @ into, [batch, length, 3, heads, width // heads])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    scores = tf.matmul(q, k, transpose_b=True) / math.sqrt(width // heads) + (mask[:, None, None] - 1.0) * 1e4
    return tf.reshape(tf.transpose(tf.nn.softmax(scores) @ v, [0, 2, 1, 3]), [batch, length, width])


def _bert(quick: bool) -> Program:
    """A training step of a BERT-like model: embeddings, masks by length, dropout, masked words' cross entropy."""
    width, heads, count, length = (16, 2, 1, 8) if quick else (64, 4, 2, 32)
    words, places = weights(WORDS, width), weights(length, width, seed=1)
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    layers = [[weights(*shape, seed=k) for shape in shapes] for k in range(count)]
    variables = [words, places, *(w for layer in layers for w in layer)]

    def step(tokens: Any, lengths: Any, seed: Any) -> Any:
        tokens = tokens[:, :length]
        mask = tf.sequence_mask(lengths, length, tf.float32)
        with tf.GradientTape() as tape:
            x = _norm(tf.gather(words, tokens) + places)
            for into, out, wide, narrow in layers:
                x = _norm(x + _attend(x, mask, into, heads) @ out)
                x = _norm(x + tf.nn.experimental.stateless_dropout(tf.nn.gelu(x @ wide), 0.1, seed) @ narrow)
            logits = tf.einsum("blw,vw->blv", x, words)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, logits)
            loss = tf.math.divide_no_nan(tf.reduce_sum(each * mask), tf.reduce_sum(mask))
        return loss, _descend(tape, loss, variables)

    return Program(step, variables)


def _bert_arguments(batch: int) -> tuple[Any, ...]:
    return integers(WORDS, batch, 32), integers(9, batch), tf.constant([batch, 3])


def _attention(quick: bool) -> Program:
    """Causal, forward and gradients, over sequences of a length that varies."""
    width = 8 if quick else 64
    into, out = weights(width, 3 * width), weights(width, width, seed=1)

    def function(x: Any) -> Any:
        x = x[..., :width]
        length = x.shape[1]
        mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            q, k, v = tf.split(x @ into, 3, -1)
            scores = tf.einsum("bqd,bkd->bqk", q, k) / math.sqrt(width) + (mask - 1.0) * 1e9
            y = tf.nn.softmax(scores) @ v @ out
            loss = tf.reduce_sum(y * y)
        return y, tape.gradient(loss, [x, into, out])

    return Program(function)


# --- recurrent networks ---


def _lstm_cell(width: int) -> tuple[Function, list[Any]]:
    kernel, bias = weights(2 * width, 4 * width), tf.Variable(tf.zeros([4 * width]))

    def cell(x: Any, state: Any, memory: Any) -> Any:
        into, forget, new, out = tf.split(tf.concat([x, state], 1) @ kernel + bias, 4, 1)
        memory = memory * tf.sigmoid(forget + 1.0) + tf.sigmoid(into) * tf.tanh(new)
        return tf.tanh(memory) * tf.sigmoid(out), memory

    return cell, [kernel, bias]


def _lstm_loop(quick: bool) -> Program:
    """`tf.while_loop` over a TensorArray, with the gradients of the weights and a step down them."""
    width = 4 if quick else 32
    cell, variables = _lstm_cell(width)

    def step(x: Any) -> Any:
        x = x[..., :width]
        rows = tf.TensorArray(tf.float32, tf.shape(x)[1]).unstack(tf.transpose(x, [1, 0, 2]))
        zero = tf.zeros([x.shape[0], width])

        def body(t: Any, state: Any, memory: Any, outputs: Any) -> Any:
            state, memory = cell(rows.read(t), state, memory)
            return t + 1, state, memory, outputs.write(t, state)

        with tf.GradientTape() as tape:
            start = (0, zero, zero, tf.TensorArray(tf.float32, tf.shape(x)[1], element_shape=zero.shape))
            *_, outputs = tf.while_loop(lambda *_: True, body, start, maximum_iterations=x.shape[1])
            loss = tf.reduce_mean(outputs.stack() ** 2)
        return loss, _descend(tape, loss, variables)

    return Program(tf.function(step), variables)


def _lstm_keras(quick: bool) -> Program:
    """Keras' layer, both directions, forward."""
    width = 4 if quick else 32
    layer = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(width, return_sequences=True))
    layer.build((None, None, width))
    for k, variable in enumerate(layer.trainable_variables):
        variable.assign(normal(*variable.shape, seed=k) * 0.3)
    return Program(lambda x: layer(x[..., :width]))


class _Cell:
    """What `dynamic_rnn` asks of a cell."""

    def __init__(self, width: int) -> None:
        self.output_size = self.state_size = width
        self.kernel = weights(2 * width, width)

    def zero_state(self, batch: Any, dtype: Any) -> Any:
        return tf.zeros([batch, self.state_size], dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        state = tf.tanh(tf.concat([inputs, state], 1) @ self.kernel)
        return state, state


def _dynamic_rnn(quick: bool) -> Program:
    """With the lengths of the rows."""
    width = 4 if quick else 32
    cell = _Cell(width)

    def function(x: Any, lengths: Any) -> Any:
        return tf.compat.v1.nn.dynamic_rnn(cell, x[..., :width], lengths, dtype=tf.float32)

    return Program(tf.function(function))


def _sequences(length: int) -> tuple[Any, ...]:
    return (normal(3, length, 64),)


# --- images ---


def _bottleneck(x: Any, width: int, stride: int) -> Any:
    def convolved(inputs: Any, filters: int, size: int, by: int = 1) -> Any:
        layers = tf.keras.layers
        return layers.BatchNormalization()(layers.Conv2D(filters, size, by, padding="same")(inputs))

    relu = tf.keras.activations.relu
    y = convolved(relu(convolved(relu(convolved(x, width, 1, stride)), width, 3)), 4 * width, 1)
    if stride > 1 or x.shape[-1] != 4 * width:
        x = convolved(x, 4 * width, 1, stride)
    return relu(x + y)


def _resnet(quick: bool) -> Program:
    """Keras' ResNet50, forward; of its kind with four blocks for the quick test."""
    if quick:
        image = tf.keras.Input((16, 16, 3))
        y = tf.keras.layers.Conv2D(8, 7, 2, padding="same")(image)
        y = tf.keras.layers.MaxPooling2D(3, 2, padding="same")(tf.keras.activations.relu(y))
        for width, stride in ((4, 1), (4, 1), (8, 2), (8, 1)):
            y = _bottleneck(y, width, stride)
        model = tf.keras.Model(image, tf.keras.layers.Dense(10)(tf.keras.layers.GlobalAveragePooling2D()(y)))
    else:
        model = tf.keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    for k, variable in enumerate(model.trainable_variables):
        if len(variable.shape) > 1:
            variable.assign(normal(*variable.shape, seed=k) / math.sqrt(np.prod(variable.shape[:-1])))
    return Program(lambda x: model(x[:, : 16 if quick else 64, : 16 if quick else 64], training=False))


def _images(batch: int) -> tuple[Any, ...]:
    return (normal(batch, 64, 64, 3),)


def _conv_net(quick: bool) -> Program:
    """Images of any size: convolutions that keep it, a mean over it. Forward."""
    width = 4 if quick else 32
    first, second, last = weights(3, 3, 3, width), weights(3, 3, width, width), weights(width, 10)

    def function(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME"))
        y = tf.nn.relu(tf.nn.conv2d(y, second, 1, "VALID"))
        return tf.nn.softmax(tf.reduce_mean(y, [1, 2]) @ last)

    return Program(function)


def _strided_net(quick: bool) -> Program:
    """The same with a strided convolution and pooling: sizes of each residue class have one."""
    width = 4 if quick else 32
    first, second, last = weights(3, 3, 3, width), weights(3, 3, width, width), weights(width, 10)

    def function(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(x, first, 2, "SAME"))
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(y, second, 1, "SAME")), 2, 2, "VALID")
        return tf.nn.softmax(tf.reduce_mean(y, [1, 2]) @ last)

    return Program(function)


def _conv_training(quick: bool, stride: int = 1) -> Program:
    """A training step of such a net, which keeps the size or has a stride and pooling."""
    width = 4 if quick else 32
    variables = [weights(3, 3, 3, width), weights(3, 3, width, width), weights(width, 10)]

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.nn.relu(tf.nn.conv2d(x, variables[0], stride, "SAME"))
            y = tf.nn.relu(tf.nn.conv2d(y, variables[1], 1, "SAME"))
            if stride > 1:
                y = tf.nn.avg_pool2d(tf.nn.max_pool2d(y, 3, 1, "SAME"), 2, 1, "SAME")
            logits = tf.reduce_mean(y, [1, 2]) @ variables[2]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits([1, 7], logits))
        return loss, _descend(tape, loss, variables)

    return Program(step, variables)


def _image(size: int) -> tuple[Any, ...]:
    return (normal(2, size, size + 3, 3),)


# --- parts of programs ---


def _batch_norm(_: bool) -> Program:
    """Training: the moving statistics follow."""
    mean, variance = tf.Variable(tf.zeros([5])), tf.Variable(tf.ones([5]))
    scale, offset = tf.Variable(tf.linspace(0.5, 1.5, 5)), tf.Variable(tf.zeros([5]))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y, m, v = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=[], variance=[])[:3]
            loss = tf.reduce_mean((y - 0.5) ** 2)
        mean.assign(mean * 0.9 + m * 0.1)
        variance.assign(variance * 0.9 + v * 0.1)
        return y, _descend(tape, loss, [scale, offset])

    return Program(step, [mean, variance, scale, offset])


def _embedding(_: bool) -> Program:
    """Lookups, repeated ones too, and the step down their gradient."""
    table = weights(WORDS, 6)

    def step(tokens: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tokens) ** 2)
        return loss, _descend(tape, loss, [table])

    return Program(step, [table])


def _dropout(_: bool) -> Program:
    """Of a seed that is an argument."""
    return Program(lambda x, seed: tf.nn.experimental.stateless_dropout(x, 0.3, seed))


def _map_fn(_: bool) -> Program:
    """A function of each row, by a loop."""
    kernel = weights(6, 6)

    def each(row: Any) -> Any:
        return tf.nn.softmax(tf.linalg.matvec(kernel, row)) * tf.reduce_max(row)

    return Program(tf.function(lambda x: tf.map_fn(each, x)))


def _ragged(_: bool) -> Program:
    """Means over rows of different lengths, and their gradient."""

    def function(x: Any, lengths: Any) -> Any:
        mask = tf.sequence_mask(lengths, x.shape[1], x.dtype)[..., None]
        with tf.GradientTape() as tape:
            tape.watch(x)
            means = tf.math.divide_no_nan(tf.reduce_sum(x * mask, 1), tf.reduce_sum(mask, 1))
            loss = tf.reduce_sum(means**2)
        return means, tape.gradient(loss, x)

    return Program(function)


LOOPS = (1,)  # a loop over none is refused by TensorFlow's bridge: it reads a row of none in its body
SHOWS: dict[str, Show] = {
    "bert step": Show(_bert, _bert_arguments, BATCHES, quick=4),
    "attention": Show(_attention, _sequences, LENGTHS),
    "lstm loop": Show(_lstm_loop, _sequences, LENGTHS, quick=4, small=LOOPS),
    "lstm keras": Show(_lstm_keras, _sequences, LENGTHS, quick=4, small=(1,)),  # which slices off the first row
    "dynamic rnn": Show(_dynamic_rnn, lambda n: (normal(3, n, 64), tf.constant([n, 0, n // 2])), LENGTHS, small=LOOPS),
    "resnet": Show(_resnet, _images, BATCHES, quick=4, small=(1,)),  # eager convolutions of none are wrong
    "conv net": Show(_conv_net, _image, IMAGES, small=()),
    "strided net": Show(_strided_net, _image, IMAGES, most=4, small=()),  # even and odd ones
    "conv training": Show(_conv_training, _image, IMAGES, quick=4, small=(1,)),
    "strided training": Show(partial(_conv_training, stride=2), _image, IMAGES, most=4, quick=4, small=(1,)),
    "batch norm": Show(_batch_norm, lambda n: (normal(n, 3, n + 2, 5),), BATCHES),
    "embedding": Show(_embedding, lambda n: (integers(WORDS, n, 4),), BATCHES),
    "dropout": Show(_dropout, lambda n: (normal(n, 7), tf.constant([n, 5])), BATCHES),
    "map_fn": Show(_map_fn, lambda n: (normal(n, 6),), BATCHES, small=LOOPS),
    "ragged": Show(_ragged, lambda n: (normal(3, n, 4), tf.constant([0, n // 2, n])), LENGTHS),
}
