"""Ops that, compiled, treat NaN otherwise than TensorFlow's kernels, in forms that treat it the same.

    gradients of MaxPool        compiled, a NaN may be taken for the maximum of a window, which pools pass over
    InTopKV2                    compiled, NaN counts as the largest; the kernel says no of a row that is not all finite
    ResizeBilinear              compiled, it is a product with weights, most of them 0, by which one NaN or infinity
                                spreads over the image; the kernel reads four neighbours

In FunctionDefs only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

from ..graph.view import attr
from .random_ops import Builder

_I32, _F32 = types_pb2.DT_INT32, types_pb2.DT_FLOAT
_FLOATS = frozenset({_F32, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16})


def _max_pool_grad(b: Builder) -> bool:
    """That of an image with the least number for NaN (pools themselves: tf2xla/pool_maxima.py)."""
    kind = attr(b.original, "TInput", attr(b.original, "T", _F32))
    if kind not in _FLOATS:
        return False
    nan = b.add("nan", "IsNan", [b.original.input[0]], "y", T=kind)
    least = b.constant("least", np.array(dtypes.as_dtype(kind).min, dtypes.as_dtype(kind).as_numpy_dtype))
    numbers = b.add("numbers", "SelectV2", [nan, least, b.original.input[0]], "output", T=kind)
    _same(b, numbers, *b.original.input[1:])
    return True


def _same(b: Builder, *inputs: str) -> None:
    """The original op, with its attributes, on other inputs."""
    b.add("", b.original.op, [text for text in inputs if not text.startswith("^")])
    for name in b.original.attr:
        b.nodes[-1].attr[name].CopyFrom(b.original.attr[name])


def _in_top_k(b: Builder) -> bool:
    finite = b.add("finite", "IsFinite", [b.original.input[0]], "y", T=_F32)
    classes = b.constant("classes", np.int32(1))
    all_finite = b.add("all_finite", "All", [finite, classes], "output", Tidx=_I32, keep_dims=False)
    inside = b.add("inside", b.original.op, b.original.input[:3], "precision", T=attr(b.original, "T", _I32))
    b.add("", "LogicalAnd", [inside, all_finite])
    return True


def _resize_bilinear(b: Builder) -> bool:
    """Between neighbours along the rows, then between rows: in the order in which the kernel does it."""
    kind = attr(b.original, "T")
    images = b.original.input[0]
    if kind != _F32:
        images = b.add("images", "Cast", [images], "y", SrcT=kind, DstT=_F32, Truncate=False)
    shape = b.add("shape", "Shape", [images], "output", T=_F32, out_type=_I32)
    along_rows = _between(b, "x", images, shape, 2)
    rows = _between(b, "y", along_rows, shape, 1)
    b.add("", "Identity", [rows], "output", T=_F32)
    return True


def _between(b: Builder, name: str, images: str, shape: str, axis: int) -> str:
    """Images with the new size along an axis: low + (high - low) * part, of the neighbours of each place."""
    low, high, part = _neighbours(b, name, shape, axis)
    one = b.constant(f"{name}_axis", np.int32(axis))
    taken = [
        b.add(f"{name}_{end}", "GatherV2", [images, places, one], "output", Tparams=_F32, Tindices=_I32, Taxis=_I32)
        for end, places in (("low", low), ("high", high))
    ]
    after = b.constant(f"{name}_after", np.array([-1] + [1] * (3 - axis), np.int32))
    part = b.add(f"{name}_column", "Reshape", [part, after], "output", T=_F32, Tshape=_I32)
    step = b.add(f"{name}_step", "Sub", taken[::-1], T=_F32)
    return b.add(f"{name}_sum", "AddV2", [taken[0], b.add(f"{name}_part", "Mul", [step, part], T=_F32)], T=_F32)


def _neighbours(b: Builder, name: str, shape: str, axis: int) -> tuple[str, str, str]:
    """For each place of the result along an axis, the two places of the image it lies between, and where between."""

    def op(suffix: str, kind: str, *inputs: str | float, dtype: int = _F32) -> str:
        texts = [
            text if isinstance(text, str) else b.constant(f"{name}_{suffix}_{n}", np.float32(text))
            for n, text in enumerate(inputs)
        ]
        return b.add(f"{name}_{suffix}", kind, texts, "y" if kind == "Floor" or kind == "Ceil" else "z", T=dtype)

    def integer(suffix: str, value: str) -> str:
        return b.add(f"{name}_{suffix}", "Cast", [value], "y", SrcT=_F32, DstT=_I32, Truncate=False)

    was, size = _element(b, f"{name}_was", shape, axis), _element(b, f"{name}_size", b.original.input[1], axis - 1)
    zero, one = b.constant(f"{name}_zero", np.int32(0)), b.constant(f"{name}_one", np.int32(1))
    places = b.add(f"{name}_places", "Range", [zero, size, one], "output", Tidx=_I32)
    place = b.add(f"{name}_place", "Cast", [places], "y", SrcT=_I32, DstT=_F32, Truncate=False)
    last = b.add(f"{name}_last", "Sub", [was, one], T=_I32)
    corners = attr(b.original, "align_corners", False)
    between = [was, size]
    if corners:  # of one place alone the kernel takes the first, however long the step
        steps = b.add(f"{name}_steps", "Sub", [size, one], T=_I32)
        between = [last, b.add(f"{name}_no_less", "Maximum", [steps, one], T=_I32)]
    lengths = [
        b.add(f"{name}_length_{n}", "Cast", [text], "y", SrcT=_I32, DstT=_F32, Truncate=False)
        for n, text in enumerate(between)
    ]
    scale = op("scale", "RealDiv", *lengths)
    if attr(b.original, "half_pixel_centers", False):
        at = op("at", "Sub", op("scaled", "Mul", op("centre", "AddV2", place, 0.5), scale), 0.5)
    else:
        at = op("at", "Mul", place, scale)
    floor = op("floor", "Floor", at)
    low = b.add(f"{name}_first", "Maximum", [integer("below", floor), zero], T=_I32)
    low = b.add(f"{name}_lower", "Minimum", [low, last], T=_I32)
    high = b.add(f"{name}_upper", "Minimum", [integer("above", op("ceil", "Ceil", at)), last], T=_I32)
    return low, high, op("fraction", "Sub", at, floor)


def _element(b: Builder, name: str, vector: str, index: int) -> str:
    """An element of a vector of sizes, as a scalar."""
    start, count = (
        b.constant(f"{name}_at", np.array([index], np.int32)),
        b.constant(f"{name}_count", np.array([1], np.int32)),
    )
    part = b.add(f"{name}_slice", "Slice", [vector, start, count], "output", T=_I32, Index=_I32)
    scalar = b.constant(f"{name}_scalar", np.zeros([0], np.int32))
    return b.add(name, "Reshape", [part, scalar], "output", T=_I32, Tshape=_I32)


FORMS: dict[str, Callable[[Builder], bool]] = {
    **dict.fromkeys(("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"), _max_pool_grad),
    "InTopKV2": _in_top_k,
    "ResizeBilinear": _resize_bilinear,
}
