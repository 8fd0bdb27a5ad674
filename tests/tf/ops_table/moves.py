"""Ops that move elements, and casts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .row import F32, NUMBERS, SUMS, Add, hostile, normal, one


def moves(add: Add) -> None:
    every = ("float32", "bfloat16", "int32", "bool")

    def x(d: str) -> list[Any]:
        return [hostile("int32") > 3] if d == "bool" else [hostile(d)]

    add("transpose", tf.transpose, x, every)
    add("reshape", lambda v: tf.reshape(v, [7, -1]), x, every)
    add("reverse", lambda v: tf.reverse(v, [0, 1]), x, every)
    add("roll", lambda v: tf.roll(v, [2, -3], [0, 1]), x, every)
    add("tile", lambda v: tf.tile(v, [2, 3]), x, every)
    add("pad", lambda v: tf.pad(v, [[1, 2], [0, 3]]), x, every)
    add("mirror_pad", lambda v: tf.pad(v, [[1, 2], [0, 3]], "REFLECT"), x, every[:3])
    add("concat", lambda v: tf.concat([v, v[:, :0], v[:, 1:3]], 1), x, every)
    add("stack_unstack", lambda v: tf.stack(tf.unstack(v)[::-1], 1), x, every)
    add("split", lambda v: tf.split(v, [3, 0, 4], 1), x, every)
    add("strided_slice", lambda v: (v[::-2, 1:6:2], v[..., tf.newaxis, -1], v[3]), x, every)
    add("broadcast_to", lambda v: tf.broadcast_to(v[:, :1], [2, 5, 4]), x, every)
    add("where_select", lambda v: tf.where(tf.range(7) > 3, v, v[:1]), x, every)
    add("gather", lambda v: (tf.gather(v, [4, 0, 2]), tf.gather(v, [[1, 1], [6, 0]], axis=1)), x, every)
    add("gather_nd", lambda v: tf.gather_nd(v, [[4, 6], [0, 0]]), x, every)
    add("batch_gather", lambda v: tf.gather(v, [[1], [0], [2], [6], [3]], batch_dims=1), x, every)
    add(
        "scatter_nd",
        lambda v: tf.scatter_nd([[3], [1], [3], [0], [7]], v, [9, 7]),
        lambda d: [normal(d, 5, 7)],
        NUMBERS,
    )
    for name in ("update", "add", "max", "min"):
        op = getattr(tf, f"tensor_scatter_nd_{name}")
        add(f"tensor_scatter_nd_{name}", lambda v, f=op: f(v, [[3], [1]], v[:2]), lambda d: [normal(d, 5, 7)], NUMBERS)
    add(
        "one_hot",
        lambda v: (tf.one_hot(v, 6), tf.one_hot(v, 4, 2.5, -1.0, 0)),
        lambda d: [normal(d, 5) - 2],
        ("int32",),
    )
    add(
        "diag",
        lambda v: (tf.linalg.diag(v), tf.linalg.diag_part(v), tf.linalg.diag(v, k=1)),
        lambda d: [normal(d, 4, 4)],
        ("float32", "int32"),
    )
    add("band_part", lambda v: tf.linalg.band_part(v, 1, 2), x, every[:3])
    add("trace_eye", lambda v: tf.linalg.trace(v) + tf.eye(3, 4), lambda d: [normal(d, 5, 5)], F32, **SUMS)
    add(
        "space_to_depth",
        lambda v: (tf.nn.space_to_depth(v, 2), tf.nn.depth_to_space(v, 2)),
        lambda d: [normal(d, 2, 4, 4, 8)],
        ("float32", "int32"),
    )
    add("space_to_batch", lambda v: tf.space_to_batch(v, [2, 2], [[0, 0], [2, 0]]), lambda d: [normal(d, 1, 4, 6, 3)])
    add("meshgrid_range", lambda v: tf.meshgrid(v, tf.range(3, dtype=v.dtype)), lambda d: [normal(d, 4)])
    add("linspace", lambda v: tf.linspace(v[0], v[1], 7), lambda d: [normal(d, 4)], F32, 4, "largest")
    add("sequence_mask", lambda v: tf.sequence_mask(v, 9), lambda d: [normal(d, 5)], ("int32",))
    add(
        "clip", lambda v: (tf.clip_by_value(v, -1.0, 2.0), tf.clip_by_norm(v, 2.0)), lambda d: [normal(d, 5, 7)], F32, 4
    )
    add("fill_zeros_ones", lambda v: (tf.zeros_like(v), tf.ones_like(v), tf.fill([2, 3], v[0, 0])), one, NUMBERS)
    for source, target in (
        ("float32", "int32"),
        ("float32", "bfloat16"),
        ("float32", "float16"),
        ("bfloat16", "float32"),
        ("int32", "float32"),
        ("int64", "int32"),
        ("int32", "uint8"),
        ("float64", "float32"),
        ("float32", "bool"),
        ("bool", "float32"),
        ("float32", "complex64"),
    ):
        add(
            f"cast_to_{target}",
            lambda v, t=target: tf.cast(v, t),
            (lambda d: [normal(d, 40) * 9]) if target == "int32" else x,
            (source,),
        )
    add("bitcast", lambda v: tf.bitcast(v, tf.int32), one)
    add("float_to_int_out_of_range", lambda v: tf.cast(v, tf.int32), one)
    add("gather_out_of_range", lambda v: tf.gather(v, [9]), one)
    add("fake_quant", tf.quantization.fake_quant_with_min_max_args, lambda d: [normal(d, 5, 7)], F32, 4, "largest")
