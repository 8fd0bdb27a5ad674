"""Reductions, scans, sorts and searches."""

# ruff: noqa: B008  (rows bind what they call)
from __future__ import annotations

import numpy as np
import tensorflow as tf

from .row import F32, FLOATS, INTS, NUMBERS, SUMS, Add, hostile, no_nan, normal, one


def reductions(add: Add) -> None:
    m = tf.math
    for name in ("reduce_max", "reduce_min"):
        add(name, lambda x, f=getattr(m, name): (f(x), f(x, 0), f(x, 1)), one, FLOATS + INTS)
    for name in ("reduce_sum", "reduce_mean", "reduce_prod"):
        add(
            name,
            lambda x, f=getattr(m, name): (f(x), f(x, 0), f(x, 1)),
            lambda d: [normal(d, 5, 7)],
            ("float32", "float64", "int32"),
            **SUMS,
        )
    add(
        "reduce_mean_int",
        lambda x: (m.reduce_mean(x), m.reduce_mean(x, 0), m.reduce_mean(x, 1, True)),
        one,
        (*INTS, "int8", "int16", "uint16", "uint32"),
    )
    add("reduce_sum_hostile", lambda x: tf.reduce_sum(x, 1), one, F32, **SUMS)
    for name in ("reduce_logsumexp", "reduce_euclidean_norm", "reduce_variance", "reduce_std"):
        add(name, lambda x, f=getattr(m, name): f(x, 1), lambda d: [normal(d, 5, 7)], F32, **SUMS)
    for name in ("reduce_all", "reduce_any"):
        add(name, lambda x, f=getattr(m, name): f(x, 0), lambda d: [hostile(d) > 0])
    for name in ("argmax", "argmin"):
        add(name, lambda x, f=getattr(m, name): (f(x, 0), f(x, 1, output_type=tf.int32)), one, NUMBERS)
    for name in ("cumsum", "cumprod", "cumulative_logsumexp"):
        f = getattr(m, name)
        add(
            name,
            lambda x, f=f: (f(x), f(x, 1, exclusive=True), f(x, 0, reverse=True)),
            lambda d: [normal(d, 5, 7)],
            F32,
            **SUMS,
        )
    add("cumsum_int", m.cumsum, one, ("int32",))
    add("bincount", lambda x: m.bincount(x, minlength=9, maxlength=9), lambda d: [normal(d, 20)], ("int32",))
    add("segment_sum_sorted", lambda x: m.segment_sum(x, [0, 0, 1, 1, 3]), lambda d: [normal(d, 5, 7)], F32, **SUMS)
    for name in ("sum", "max", "min", "prod", "mean"):
        add(
            f"unsorted_segment_{name}",
            lambda x, f=getattr(m, f"unsorted_segment_{name}"): f(x, [2, 0, 2, -1, 1], 4),
            lambda d: [normal(d, 5, 7)],
            NUMBERS if name != "mean" else F32,
            0 if name in ("max", "min") else 2,  # at most two rows meet
        )
    # A row with NaN or inf: eager's oneDNN kernel, which it takes on CPUs with AVX-512, gives 0 beside it.
    add("softmax", tf.nn.softmax, lambda d: [tf.minimum(no_nan(hostile(d)), 1e4)], ("float32", "bfloat16"), 8)
    add("log_softmax", tf.nn.log_softmax, lambda d: [normal(d, 5, 7)], ("float32", "float64"), **SUMS)
    add("top_k", lambda x: tf.nn.top_k(x, 3), lambda d: [normal(d, 5, 7)], ("float32", "int32"))
    add("sort", lambda x: (tf.sort(x), tf.sort(x, 0, "DESCENDING")), lambda d: [normal(d, 5, 7)], NUMBERS)
    add("argsort", lambda x: tf.argsort(x, stable=True), lambda d: [normal(d, 5, 7)], NUMBERS)
    add("in_top_k", lambda x: m.in_top_k([1, 2, 3, 0, 6], x, 2), lambda d: [normal(d, 5, 7)])
    add("searchsorted", lambda x, y: tf.searchsorted(tf.sort(x), y), lambda d: [normal(d, 9), normal(d, 5, seed=2)])
    add(
        "searchsorted_hostile",
        lambda x, y: (tf.searchsorted(tf.sort(x, 1), y, "right"), tf.searchsorted(tf.sort(x, 1), y)),
        lambda d: [normal(d, 5, 7), hostile(d)],
        ("float32", "float64", "int32"),
    )
    add(
        "norm",
        lambda x: (tf.norm(x), tf.norm(x, 1, 0), tf.norm(x, np.inf, 1)),
        lambda d: [normal(d, 5, 7)],
        F32,
        **SUMS,
    )
    add("moments", lambda x: tf.nn.moments(x, [0]), lambda d: [normal(d, 5, 7)], F32, **SUMS)
