"""Rows of matrix products, convolutions with their gradients, attention in plain ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .row import Row, normal


def rows(tf: Any, jax: Any) -> list[Row]:
    import ml_dtypes

    def product(n: int, dtype: Any = np.float32) -> Callable[[], list[Any]]:
        return lambda: [normal(n, n, dtype=dtype), normal(n, n, seed=1, dtype=dtype)]

    def mm(a: Any, b: Any) -> Any:
        return a @ b

    def torch_mm(torch: Any, a: Any, b: Any) -> Any:
        return a @ b

    products = [
        Row(f"matmul {n}", "contraction", product(n), tf.matmul, mm, torch_mm, 2.0 * n**3, mm)
        for n in (256, 512, 1024, 2048)
    ]
    products += [
        Row(
            "batched 32x256x256",
            "contraction",
            lambda: [normal(32, 256, 256), normal(32, 256, 256, seed=1)],
            tf.matmul,
            mm,
            torch_mm,
            2.0 * 32 * 256**3,
            mm,
        ),
        Row(
            "matmul bf16 1024", "contraction", product(1024, ml_dtypes.bfloat16), tf.matmul, mm, torch_mm, 2.0 * 1024**3
        ),
        Row("matmul f64 1024", "contraction", product(1024, np.float64), tf.matmul, mm, torch_mm, 2.0 * 1024**3, mm),
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
            lambda torch, x, w, b, v: torch.nn.functional.gelu(x @ w + b, approximate="tanh") @ v,
            4.0 * 512 * 768 * 3072,
        ),
    ]
    return products + _convolutions(tf, jax) + [_attention(tf, jax)]


def _convolutions(tf: Any, jax: Any) -> list[Row]:
    def conv(x: Any, k: Any, stride: int = 1, groups: int = 1) -> Any:
        return jax.lax.conv_general_dilated(
            x, k, (stride, stride), "SAME", feature_group_count=groups, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def inputs(x: tuple[int, ...], k: tuple[int, ...]) -> Callable[[], list[Any]]:
        return lambda: [normal(*x), normal(*k, seed=1)]

    big, kernel = (8, 56, 56, 64), (3, 3, 64, 64)
    full = 2.0 * 8 * 56 * 56 * 9 * 64 * 64

    def torch_conv(torch: Any, x: Any, k: Any, stride: int = 1, padding: int | None = None, groups: int = 1) -> Any:
        """Of NHWC and HWIO, as views; the result is NHWC in memory, as oneDNN likes it."""
        at = (k.shape[0] - 1) // 2 if padding is None else padding
        found = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), None, stride, at, 1, groups)
        return found.permute(0, 2, 3, 1)

    def torch_filter_gradient(torch: Any, x: Any, g: Any) -> Any:
        wide = torch.nn.grad.conv2d_weight(x.permute(0, 3, 1, 2), (64, 64, 3, 3), g.permute(0, 3, 1, 2), 1, 1)
        return wide.permute(2, 3, 1, 0)

    def torch_input_gradient(torch: Any, g: Any, k: Any) -> Any:
        found = torch.nn.grad.conv2d_input((8, 64, 56, 56), k.permute(3, 2, 0, 1), g.permute(0, 3, 1, 2), 1, 1)
        return found.permute(0, 2, 3, 1)

    def filter_gradient(x: Any, g: Any) -> Any:
        zero = jax.numpy.zeros(kernel, jax.numpy.float32)
        return jax.vjp(lambda k: conv(x, k), zero)[1](g)[0]

    def input_gradient(g: Any, k: Any) -> Any:
        zero = jax.numpy.zeros(big, jax.numpy.float32)
        return jax.vjp(lambda x: conv(x, k), zero)[1](g)[0]

    return [
        Row(
            "conv 3x3",
            "contraction",
            inputs(big, kernel),
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
            conv,
            torch_conv,
            full,
        ),
        Row(
            "conv 1x1",
            "contraction",
            inputs((8, 28, 28, 256), (1, 1, 256, 512)),
            lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
            conv,
            torch_conv,
            2.0 * 8 * 28 * 28 * 256 * 512,
        ),
        Row(
            "conv 3x3 stride 2",
            "contraction",
            inputs(big, (3, 3, 64, 128)),
            lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"),
            lambda x, k: conv(x, k, 2),
            lambda torch, x, k: torch_conv(torch, torch.nn.functional.pad(x, (0, 0, 0, 1, 0, 1)), k, 2, 0),
            full / 2,
        ),
        Row(
            "depthwise 3x3",
            "contraction",
            inputs((8, 56, 56, 128), (3, 3, 128, 1)),
            lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"),
            lambda x, k: conv(x, k.reshape(3, 3, 1, 128), 1, 128),
            lambda torch, x, k: torch_conv(torch, x, k.reshape(3, 3, 1, 128), 1, 1, 128),
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
            torch_filter_gradient,
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
            torch_input_gradient,
            full,
        ),
    ]


def _attention(tf: Any, jax: Any) -> Row:
    jnp = jax.numpy

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
        lambda torch, q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v,
        4.0 * 8 * 512 * 512 * 64,
    )
