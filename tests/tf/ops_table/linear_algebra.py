"""Factorisations, transforms, images and losses."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .row import F32, SUMS, WIDE, Add, normal, one, with_gradient

SOLVED: dict[str, Any] = {"tolerance": 64, "at": "largest"}


def linear_algebra(add: Add) -> None:
    la = tf.linalg

    def positive(d: str) -> list[Any]:
        x = normal(d, 2, 5, 5)
        return [la.matmul(x, x, adjoint_b=True) + 5 * tf.eye(5, dtype=d), normal(d, 2, 5, 3, seed=2)]

    kinds = ("float32", "float64", "complex64")
    add(
        "cholesky",
        lambda a, b: with_gradient(la.cholesky)(a) if a.dtype.is_floating else la.cholesky(a),
        positive,
        kinds,
        **SOLVED,
    )
    add(
        "triangular_solve",
        lambda a, b: (la.triangular_solve(a, b), la.triangular_solve(a, b, False, True)),
        positive,
        kinds,
        **SOLVED,
    )
    add("cholesky_solve", lambda a, b: la.cholesky_solve(la.cholesky(a), b), positive, F32, **SOLVED)
    add("solve", lambda a, b: (la.solve(a, b), la.solve(a, b, adjoint=True)), positive, WIDE, **SOLVED)
    add("solve_gradient", with_gradient(la.solve), positive, WIDE, **SOLVED)
    add("inv", lambda a, b: (la.inv(a), la.inv(a, adjoint=True)), positive, WIDE, **SOLVED)
    add("det", lambda a, b: (la.det(a), la.slogdet(a)), positive, F32, **SOLVED)
    for name, dims in (("", (2, 5, 5)), ("_tall", (2, 7, 3)), ("_wide", (2, 3, 7)), ("_of_none", (2, 0, 3))):
        add(
            f"qr{name}",
            lambda a: (la.qr(a), la.qr(a, full_matrices=True)),
            lambda d, dims=dims: [normal(d, *dims)],
            (*kinds, "float16"),
            **SOLVED,
        )
    add("eigh", lambda a, b: la.eigh(a)[0], positive, WIDE, **SOLVED)
    add("eigh_gradient", lambda a, b: with_gradient(la.eigvalsh)(a), positive, WIDE, **SOLVED)
    add("svd", lambda a, b: la.svd(a, compute_uv=False), positive, F32, **SOLVED)
    add("lu", lambda a, b: la.lu(a)[0], positive, F32, **SOLVED)
    add("expm", lambda a, b: la.expm(a / 20), positive, F32, **SOLVED)
    add("cross", la.cross, lambda d: [normal(d, 4, 3), normal(d, 4, 3, seed=2)], F32, **SUMS)
    for name in ("fft", "ifft", "fft2d", "ifft2d", "fft3d", "ifft3d"):
        add(name, getattr(tf.signal, name), lambda d: [normal(d, 3, 4, 6)], ("complex64", "complex128"), **SUMS)
    add(
        "rfft",
        lambda x: (tf.signal.rfft(x), tf.signal.irfft(tf.signal.rfft(x))),
        lambda d: [normal(d, 3, 8)],
        WIDE,
        **SUMS,
    )
    add("rfft_gradient", with_gradient(lambda x: tf.abs(tf.signal.rfft2d(x))), lambda d: [normal(d, 2, 6, 6)], **SUMS)
    add("stft", lambda x: tf.signal.stft(x, 8, 3), lambda d: [normal(d, 2, 30)], **SUMS)
    add("dct", tf.signal.dct, lambda d: [normal(d, 3, 9)], **SUMS)
    image = tf.image
    for method in ("bilinear", "nearest", "bicubic", "area"):
        add(
            f"resize_{method}",
            lambda x, m=method: image.resize(x, [7, 5], m),
            lambda d: [normal(d, 2, 4, 6, 3)],
            F32,
            **SUMS,
        )
    add(
        "resize_gradient",
        with_gradient(lambda x: image.resize(x, [7, 5])),
        lambda d: [normal(d, 2, 4, 6, 3)],
        F32,
        **SUMS,
    )
    add("resize_down", lambda x: image.resize(x, [3, 2]), lambda d: [normal(d, 2, 6, 6, 3)], F32, **SUMS)
    add("rgb_to_hsv", lambda x: image.rgb_to_hsv(tf.sigmoid(x)), lambda d: [normal(d, 4, 4, 3)], F32, **SUMS)
    add("adjust_contrast", lambda x: image.adjust_contrast(x, 1.5), lambda d: [normal(d, 4, 4, 3)], F32, **SUMS)
    add(
        "non_max_suppression",
        lambda x: image.non_max_suppression_padded(
            tf.sort(tf.sigmoid(x), -1), x[:, 0], 4, 0.5, pad_to_max_output_size=True
        )[0],
        lambda d: [normal(d, 9, 4)],
    )
    nn = tf.nn
    add(
        "sparse_cross_entropy",
        with_gradient(lambda x: nn.sparse_softmax_cross_entropy_with_logits([1, 0, 6, 2, 3], x)),
        lambda d: [normal(d, 5, 7)],
        F32,
        **SUMS,
    )
    add(
        "cross_entropy",
        lambda x: nn.softmax_cross_entropy_with_logits(tf.one_hot([1, 0, 6, 2, 3], 7), x),
        lambda d: [normal(d, 5, 7)],
        F32,
        **SUMS,
    )
    add("sigmoid_cross_entropy", lambda x: nn.sigmoid_cross_entropy_with_logits(tf.ones_like(x), x), one, F32, **SUMS)
    add("l2_normalize", lambda x: nn.l2_normalize(x, 1), lambda d: [normal(d, 5, 7)], F32, 16)
    add(
        "embedding_gradient",
        lambda x: with_gradient(lambda t: nn.embedding_lookup(t, [1, 1, 4]))(x)[0],
        lambda d: [normal(d, 5, 7)],
    )
