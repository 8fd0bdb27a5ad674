"""Convolutions, pools, normalisation and products, most with gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .row import F32, NUMBERS, SUMS, WIDE, Add, hostile, normal, with_gradient


def contractions(add: Add) -> None:
    nn = tf.nn

    def image(d: str) -> list[Any]:
        return [normal(d, 2, 9, 8, 3), normal(d, 3, 2, 3, 4, seed=2)]

    for padding in ("SAME", "VALID"):
        add(f"conv2d_{padding}", with_gradient(lambda x, k, p=padding: nn.conv2d(x, k, 2, p)), image, F32, **SUMS)
        add(
            f"max_pool_{padding}",
            with_gradient(lambda x, p=padding: nn.max_pool2d(x, 3, 2, p)),
            lambda d: [normal(d, 2, 9, 8, 3)],
            F32,
            **SUMS,
        )
        add(
            f"avg_pool_{padding}",
            with_gradient(lambda x, p=padding: nn.avg_pool2d(x, 3, 2, p)),
            lambda d: [normal(d, 2, 9, 8, 3)],
            F32,
            **SUMS,
        )
    add("conv2d_dilated", lambda x, k: nn.conv2d(x, k, 1, "SAME", dilations=2), image, WIDE, **SUMS)
    add(
        "conv1d",
        with_gradient(lambda x, k: nn.conv1d(x, k, 1, "SAME")),
        lambda d: [normal(d, 2, 9, 3), normal(d, 3, 3, 4, seed=2)],
        F32,
        **SUMS,
    )
    add(
        "conv3d",
        lambda x, k: nn.conv3d(x, k, [1] * 5, "SAME"),
        lambda d: [normal(d, 1, 4, 5, 4, 2), normal(d, 2, 3, 2, 2, 3, seed=2)],
        F32,
        **SUMS,
    )
    add(
        "depthwise",
        with_gradient(lambda x, k: nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME")),
        lambda d: [normal(d, 2, 7, 6, 3), normal(d, 3, 3, 3, 2, seed=2)],
        F32,
        **SUMS,
    )
    add(
        "separable",
        lambda x, k, p: nn.separable_conv2d(x, k, p, [1] * 4, "SAME"),
        lambda d: [normal(d, 2, 7, 6, 3), normal(d, 3, 3, 3, 2, seed=2), normal(d, 1, 1, 6, 4, seed=3)],
        F32,
        **SUMS,
    )
    add(
        "conv2d_transpose",
        with_gradient(lambda x, k: nn.conv2d_transpose(x, k, [2, 8, 8, 5], 2)),
        lambda d: [normal(d, 2, 4, 4, 3), normal(d, 3, 3, 5, 3, seed=2)],
        F32,
        **SUMS,
    )
    add(
        "batch_norm",
        with_gradient(lambda x, s: nn.batch_normalization(x, *nn.moments(x, [0, 1, 2]), s, s, 1e-3)),
        lambda d: [normal(d, 2, 5, 4, 3), normal(d, 3, seed=2)],
        F32,
        64,
        "largest",
    )
    add(
        "fused_batch_norm",
        lambda x, s: tf.compat.v1.nn.fused_batch_norm(x, s, s)[:3],
        lambda d: [normal(d, 2, 5, 4, 3), normal(d, 3, seed=2)],
        F32,
        **SUMS,
    )
    add("lrn", nn.local_response_normalization, lambda d: [normal(d, 1, 3, 3, 9)], F32, **SUMS)
    add("bias_add", nn.bias_add, lambda d: [hostile(d), normal(d, 7)], NUMBERS[:2])
    for name, flags in (("plain", {}), ("transpose_a", {"transpose_a": True}), ("adjoint_b", {"adjoint_b": True})):
        add(
            f"matmul_{name}",
            lambda x, y, flags=flags: tf.linalg.matmul(x, y, **flags),
            lambda d: [normal(d, 3, 5, 5), normal(d, 3, 5, 5, seed=2)],
            ("float32", "float64", "int32", "complex64", "bfloat16"),
            64,
        )
    add("matmul_hostile", tf.linalg.matmul, lambda d: [hostile(d, (5, 7)), hostile(d, (7, 4), 2)], F32, **SUMS)
    add("matmul_broadcast", tf.linalg.matmul, lambda d: [normal(d, 2, 1, 4, 5), normal(d, 3, 5, 6)], F32, **SUMS)
    add("matmul_gradient", with_gradient(tf.linalg.matmul), lambda d: [normal(d, 9, 5), normal(d, 5, 6)], F32, **SUMS)
    add(
        "einsum",
        lambda x, y: (tf.einsum("bij,bjk->ikb", x, y), tf.einsum("bii->b", x)),
        lambda d: [normal(d, 3, 5, 5), normal(d, 3, 5, 4, seed=2)],
        F32,
        **SUMS,
    )
    add(
        "tensordot",
        lambda x, y: tf.tensordot(x, y, [[2, 1], [0, 1]]),
        lambda d: [normal(d, 3, 4, 5), normal(d, 5, 4, 2, seed=2)],
        F32,
        **SUMS,
    )
    add("matvec", tf.linalg.matvec, lambda d: [normal(d, 6, 5), normal(d, 5, seed=2)], F32, **SUMS)
