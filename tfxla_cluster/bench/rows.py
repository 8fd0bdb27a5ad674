"""The benchmark rows: one table. Each row is written once for TensorFlow and once for JAX.

`make()` gives NumPy inputs (f32 standard normal unless the row says otherwise). `bytes`: each input
read once, each output written once. `flops`: multiply-adds count two; 0 for memory-bound rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One case: `tf_fn` and `jax_fn` take the inputs that `make` gives, in order; so does `np_fn`, a peer too."""

    case: str
    family: str
    make: Callable[[], list[Any]]
    tf_fn: Callable[..., Any]
    jax_fn: Callable[..., Any]
    flops: float = 0.0
    np_fn: Callable[..., Any] | None = None


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


N, M = 4096, 1024


def one() -> list[Any]:
    return [normal(N, M)]


def two() -> list[Any]:
    return [normal(N, M), normal(N, M, seed=1)]


def three() -> list[Any]:
    return [normal(N, M, seed=i) for i in range(3)]


def table() -> list[Any]:
    """Rows of 256 numbers, and which of them to take."""
    return [normal(30000, 256), np.random.default_rng(2).integers(0, 30000, 16384).astype(np.int32)]


def table_gradient() -> list[Any]:
    """The gradient of each row taken from the table, and which row that was."""
    return [normal(16384, 256), table()[1]]


def segments() -> list[Any]:
    """Rows of 64 numbers, and which of 4000 segments each is of."""
    return [normal(60000, 64), np.random.default_rng(4).integers(0, 4000, 60000).astype(np.int32)]


def memory_rows() -> list[Row]:
    """Memory-bound rows, 4096x1024 unless named otherwise."""
    import jax
    import jax.numpy as jnp
    import tensorflow as tf

    def layer_norm(lib_mean: Any, rsqrt: Any) -> Callable[..., Any]:
        def fn(x: Any, scale: Any, offset: Any) -> Any:
            mean = lib_mean(x)
            centred = x - mean
            return centred * rsqrt(lib_mean(centred * centred) + 1e-5) * scale + offset

        return fn

    def cross_entropy_jax(z: Any, y: Any) -> Any:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1))

    rows: list[tuple[str, Callable[[], list[Any]], Callable[..., Any], Callable[..., Any]]] = [
        ("softmax", one, tf.nn.softmax, jax.nn.softmax),
        (
            "layer norm",
            lambda: [normal(N, M), normal(M, seed=1), normal(M, seed=2)],
            layer_norm(lambda v: tf.reduce_mean(v, -1, keepdims=True), tf.math.rsqrt),
            layer_norm(lambda v: jnp.mean(v, -1, keepdims=True), jax.lax.rsqrt),
        ),
        ("sum(x+y*z)", three, lambda x, y, z: tf.reduce_sum(x + y * z), lambda x, y, z: jnp.sum(x + y * z)),
        ("x+y*z", three, lambda x, y, z: x + y * z, lambda x, y, z: x + y * z),
        ("gelu", one, lambda x: tf.nn.gelu(x, approximate=True), lambda x: jax.nn.gelu(x, approximate=True)),
        (
            "sigmoid(x)*tanh(y)+exp(-x*x)",
            two,
            lambda x, y: tf.sigmoid(x) * tf.tanh(y) + tf.exp(-x * x),
            lambda x, y: jax.nn.sigmoid(x) * jnp.tanh(y) + jnp.exp(-x * x),
        ),
        ("sum axis 0", one, lambda x: tf.reduce_sum(x, 0), lambda x: jnp.sum(x, 0)),
        ("argmax axis 1", one, lambda x: tf.argmax(x, 1, tf.int32), lambda x: jnp.argmax(x, 1)),
        (
            "transpose(x+b)",
            lambda: [normal(N, M), normal(M, seed=1)],
            lambda x, b: tf.transpose(x + b),
            lambda x, b: (x + b).T,
        ),
        (
            "sparse cross entropy",
            lambda: [normal(N, M), np.random.default_rng(3).integers(0, M, N).astype(np.int32)],
            lambda z, y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=z)),
            cross_entropy_jax,
        ),
        (
            "concat(x[:,1:],pad(y))*2",
            two,
            lambda x, y: tf.concat([x[:, 1:], tf.pad(y, [[0, 0], [1, 1]])], 1) * 2.0,
            lambda x, y: jnp.concatenate([x[:, 1:], jnp.pad(y, ((0, 0), (1, 1)))], 1) * 2.0,
        ),
        ("cumsum axis 1", one, lambda x: tf.cumsum(x, 1), lambda x: jnp.cumsum(x, 1)),
        ("gather rows", table, tf.gather, lambda t, i: t[i]),
        (
            "gather rows, gradient",
            table_gradient,
            lambda g, i: tf.math.unsorted_segment_sum(g, i, 30000),
            lambda g, i: jnp.zeros((30000, 256), jnp.float32).at[i].add(g),
        ),
        (
            "unsorted_segment_sum",
            segments,
            lambda x, i: tf.math.unsorted_segment_sum(x, i, 4000),
            lambda x, i: jax.ops.segment_sum(x, i, 4000),
        ),
        (
            "unsorted_segment_max",
            segments,
            lambda x, i: tf.math.unsorted_segment_max(x, i, 4000),
            lambda x, i: jax.ops.segment_max(x, i, 4000),
        ),
        ("sort 1e6", lambda: [normal(1_000_000)], tf.sort, jnp.sort),
        ("top-k 8", one, lambda x: tuple(tf.math.top_k(x, 8)), lambda x: jax.lax.top_k(x, 8)),
    ]
    numpy: dict[str, Callable[..., Any]] = {"sort 1e6": np.sort, "cumsum axis 1": lambda x: np.cumsum(x, 1)}
    return [Row(case, "memory", make, tf_fn, jax_fn, 0.0, numpy.get(case)) for case, make, tf_fn, jax_fn in rows]


def contraction_rows() -> list[Row]:
    """Matrix products, convolutions with their gradients, attention in plain ops."""
    import jax
    import jax.numpy as jnp
    import ml_dtypes
    import tensorflow as tf

    def product(n: int, dtype: Any = np.float32) -> Callable[[], list[Any]]:
        return lambda: [normal(n, n, dtype=dtype), normal(n, n, seed=1, dtype=dtype)]

    def mm(a: Any, b: Any) -> Any:
        return a @ b

    rows = [
        Row(f"matmul {n}", "contraction", product(n), tf.matmul, mm, 2.0 * n**3, mm) for n in (256, 512, 1024, 2048)
    ]
    rows += [
        Row(
            "batched 32x256x256",
            "contraction",
            lambda: [normal(32, 256, 256), normal(32, 256, 256, seed=1)],
            tf.matmul,
            mm,
            2.0 * 32 * 256**3,
            mm,
        ),
        Row("matmul bf16 1024", "contraction", product(1024, ml_dtypes.bfloat16), tf.matmul, mm, 2.0 * 1024**3),
        Row("matmul f64 1024", "contraction", product(1024, np.float64), tf.matmul, mm, 2.0 * 1024**3, mm),
        Row(
            "gelu(x@w+b)@w2",
            "contraction",
            lambda: [
                normal(512, 768),
                normal(768, 3072, seed=1) * 0.03,
                normal(3072, seed=2),
                normal(3072, 768, seed=3) * 0.03,
            ],
            lambda x, w, b, v: tf.nn.gelu(x @ w + b, approximate=True) @ v,
            lambda x, w, b, v: jax.nn.gelu(x @ w + b, approximate=True) @ v,
            4.0 * 512 * 768 * 3072,
        ),
    ]
    return rows + _convolutions(tf, jax) + [_attention(tf, jax, jnp)]


def _convolutions(tf: Any, jax: Any) -> list[Row]:
    def conv(x: Any, k: Any, stride: int = 1, groups: int = 1) -> Any:
        return jax.lax.conv_general_dilated(
            x, k, (stride, stride), "SAME", feature_group_count=groups, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def inputs(x: tuple[int, ...], k: tuple[int, ...]) -> Callable[[], list[Any]]:
        return lambda: [normal(*x), normal(*k, seed=1)]

    big, kernel = (8, 56, 56, 64), (3, 3, 64, 64)
    full = 2.0 * 8 * 56 * 56 * 9 * 64 * 64

    def filter_gradient(x: Any, g: Any) -> Any:
        zero = jax.numpy.zeros(kernel, jax.numpy.float32)
        return jax.vjp(lambda k: conv(x, k), zero)[1](g)[0]

    def input_gradient(g: Any, k: Any) -> Any:
        zero = jax.numpy.zeros(big, jax.numpy.float32)
        return jax.vjp(lambda x: conv(x, k), zero)[1](g)[0]

    return [
        Row("conv 3x3", "contraction", inputs(big, kernel), lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), conv, full),
        Row(
            "conv 1x1",
            "contraction",
            inputs((8, 28, 28, 256), (1, 1, 256, 512)),
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
            conv,
            2.0 * 8 * 28 * 28 * 256 * 512,
        ),
        Row(
            "conv 3x3 stride 2",
            "contraction",
            inputs(big, (3, 3, 64, 128)),
            lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"),
            lambda x, k: conv(x, k, 2),
            full / 2,
        ),
        Row(
            "depthwise 3x3",
            "contraction",
            inputs((8, 56, 56, 128), (3, 3, 128, 1)),
            lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"),
            lambda x, k: conv(x, k.reshape(3, 3, 1, 128), 1, 128),
            2.0 * 8 * 56 * 56 * 9 * 128,
        ),
        Row(
            "conv 3x3, filter gradient",
            "contraction",
            inputs(big, big),
            lambda x, g: tf.raw_ops.Conv2DBackpropFilter(
                input=x, filter_sizes=kernel, out_backprop=g, strides=[1, 1, 1, 1], padding="SAME"
            ),
            filter_gradient,
            full,
        ),
        Row(
            "conv 3x3, input gradient",
            "contraction",
            inputs(big, kernel),
            lambda g, k: tf.raw_ops.Conv2DBackpropInput(
                input_sizes=big, filter=k, out_backprop=g, strides=[1, 1, 1, 1], padding="SAME"
            ),
            input_gradient,
            full,
        ),
    ]


def _attention(tf: Any, jax: Any, jnp: Any) -> Row:
    def tf_attention(q: Any, k: Any, v: Any) -> Any:
        return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.125) @ v

    def jax_attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125) @ v

    return Row(
        "attention 1x8x512x64",
        "contraction",
        lambda: [normal(1, 8, 512, 64, seed=i) for i in range(3)],
        tf_attention,
        jax_attention,
        4.0 * 8 * 512 * 512 * 64,
    )


def all_rows() -> list[Row]:
    return [*memory_rows(), *contraction_rows()]
