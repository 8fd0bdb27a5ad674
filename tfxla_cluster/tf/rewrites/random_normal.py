"""StatelessRandomNormalV2 as ops that are compiled: Box and Muller's method as TensorFlow's kernels apply it.

    u, v of each pair of words    -->  sqrt(-2 log u) * (sin 2 pi v, cos 2 pi v), two neighbouring elements

As ops they cost more than the kernel, so only whole compiled functions are rewritten.
"""

from __future__ import annotations

import math

import numpy as np
from tensorflow.core.framework import types_pb2

from ..graph.view import attr
from .random_ops import Builder, Rewriting, unit_f32, unit_f64

OP = "StatelessRandomNormalV2"
_F32, _F64, _F16, _BF16 = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16
_I32 = types_pb2.DT_INT32
_LEAST = 1e-7  # u below it counts as it: the logarithm of 0 is not wanted


def _normal(b: Builder, wide: int, dtype: int) -> None:
    """`wide` is what the kernel computes in."""
    bits_type = types_pb2.DT_UINT64 if wide == _F64 else types_pb2.DT_UINT32
    count, pairs = _sizes(b)
    key, counter = b.original.input[1:3]
    bits = b.bits("bits", pairs, key, counter, bits_type, _I32)
    units = unit_f64(b, bits) if wide == _F64 else unit_f32(b, bits)
    kind = np.float64 if wide == _F64 else np.float32
    u, v = (_column(b, f"column{k}", units, k, wide) for k in range(2))
    u = b.add("u", "Maximum", [u, b.constant("least", kind(_LEAST))], T=wide)
    log = b.add("log", "Log", [u], "y", T=wide)
    square = b.add("square", "Mul", [log, b.constant("minus_two", kind(-2))], T=wide)
    radius = b.add("radius", "Sqrt", [square], "y", T=wide)
    angle = _angle(b, v, wide)
    parts = [
        b.add(f"{op}_part", "Mul", [b.add(op.lower(), op, [angle], "y", T=wide), radius], T=wide)
        for op in ("Sin", "Cos")
    ]
    both = b.add("both", "ConcatV2", [*parts, b.constant("axis", np.int32(1))], "output", N=2, T=wide, Tidx=_I32)
    flat = _reshape(b, "flat", both, b.constant("all", np.array([-1], np.int32)), wide, _I32)
    first = b.add(
        "first", "Slice", [flat, b.constant("start", np.array([0], np.int32)), count], "output", T=wide, Index=_I32
    )
    shaped = _reshape(b, "shaped", first, b.original.input[0], wide, attr(b.original, "Tshape", _I32))
    if dtype == wide:
        b.add("", "Identity", [shaped], "output", T=wide)
    else:
        narrow = b.add("narrow", "Cast", [shaped], "y", SrcT=wide, DstT=dtype, Truncate=False)
        b.add("", "Identity", [narrow], "output", T=dtype)


def _sizes(b: Builder) -> tuple[str, str]:
    """s32[1], how many elements there are; s32[2], pairs of words: one pair an element, of the next even number."""
    shape = b.original.input[0]
    if attr(b.original, "Tshape", _I32) != _I32:
        shape = b.add("shape", "Cast", [shape], "y", SrcT=types_pb2.DT_INT64, DstT=_I32, Truncate=False)
    axes = b.constant("axes", np.array([0], np.int32))
    total = b.add("total", "Prod", [shape, axes], "output", T=_I32, Tidx=_I32, keep_dims=False)
    count = _reshape(b, "count", total, b.constant("vector", np.array([1], np.int32)), _I32, _I32)
    more = b.add("more", "AddV2", [count, b.constant("one_more", np.int32(1))], T=_I32)
    two = b.constant("two", np.array([2], np.int32))
    half = b.add("half", "FloorDiv", [more, two], T=_I32)
    return count, b.add(
        "pairs", "ConcatV2", [half, two, b.constant("zero", np.int32(0))], "output", N=2, T=_I32, Tidx=_I32
    )


def _reshape(b: Builder, suffix: str, x: str, shape: str, dtype: int, shape_type: int) -> str:
    return b.add(suffix, "Reshape", [x, shape], "output", T=dtype, Tshape=shape_type)


def _column(b: Builder, suffix: str, pairs: str, number: int, dtype: int) -> str:
    begin = b.constant(f"{suffix}_begin", np.array([0, number], np.int32))
    size = b.constant(f"{suffix}_size", np.array([-1, 1], np.int32))
    return b.add(suffix, "Slice", [pairs, begin, size], "output", T=dtype, Index=_I32)


def _angle(b: Builder, v: str, dtype: int) -> str:
    """2 pi v: the kernel multiplies in double and rounds once."""
    wide = v if dtype == _F64 else b.add("wide", "Cast", [v], "y", SrcT=dtype, DstT=_F64, Truncate=False)
    angle = b.add("angle", "Mul", [wide, b.constant("two_pi", np.float64(2 * math.pi))], T=_F64)
    return angle if dtype == _F64 else b.add("rounded", "Cast", [angle], "y", SrcT=_F64, DstT=dtype, Truncate=False)


NORMALS: dict[tuple[str, int], Rewriting] = {
    (OP, _F32): lambda b: _normal(b, _F32, _F32),
    (OP, _F64): lambda b: _normal(b, _F64, _F64),
    (OP, _F16): lambda b: _normal(b, _F32, _F16),
    (OP, _BF16): lambda b: _normal(b, _F32, _BF16),
}
