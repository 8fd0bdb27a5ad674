"""Ops whose compiled form gives other values than TensorFlow's kernels, in forms that give the same.

    Mean of small integers    compiled, it sums in the type itself and wraps; the kernel sums in 64 bits
    LeftShift, RightShift     compiled, a distance beyond the width gives 0; the kernel clamps the distance
    UpperBound of floats      compiled, NaN goes before all; the kernel puts it after all
    Bucketize of floats       the same
    OnesLike                  compiled, it has the largest size its input may have, where a run produces that
    StridedSliceGrad          compiled, it is larger than what was sliced, where a stride of more than 1 takes nothing

In FunctionDefs only; outputs keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, tensor_util

from ..graph.view import NodeDef, attr
from .random_ops import Builder

_I32, _I64 = types_pb2.DT_INT32, types_pb2.DT_INT64
_FLOATS = frozenset({types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16})
_NARROW = frozenset(
    {types_pb2.DT_INT8, types_pb2.DT_INT16, _I32, types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32}
)

Constants = Mapping[str, NodeDef]
"""Name of an output -> the Const node that gives it."""


def expand(nodes: Iterable[NodeDef]) -> list[NodeDef] | None:
    """The nodes with those ops rewritten; None where there is none to rewrite."""
    found = list(nodes)
    if not any(node.op in _FORMS for node in found):
        return None
    constants = {f"{node.name}:output:0": node for node in found if node.op == "Const"}
    result: list[NodeDef] = []
    for node in found:
        form = _FORMS.get(node.op)
        builder = Builder(node, True, [])
        result.extend(builder.nodes if form is not None and form(builder, constants) else [node])
    return result if len(result) > len(found) else None


def _mean(b: Builder, constants: Constants) -> bool:
    kind = attr(b.original, "T")
    if kind not in _NARROW:
        return False
    wide = b.add("wide", "Cast", [b.original.input[0]], "y", SrcT=kind, DstT=_I64, Truncate=False)
    mean = b.add(
        "mean",
        "Mean",
        [wide, b.original.input[1]],
        "output",
        T=_I64,
        Tidx=attr(b.original, "Tidx", _I32),
        keep_dims=attr(b.original, "keep_dims", False),
    )
    narrow = b.add("narrow", "Cast", [mean], "y", SrcT=_I64, DstT=kind, Truncate=False)
    b.add("", "Identity", [narrow], "output", T=kind)
    return True


def _shift(b: Builder, constants: Constants) -> bool:
    kind = dtypes.as_dtype(attr(b.original, "T"))
    value, distance = b.original.input[:2]
    last = 8 * kind.size - 1
    known = constants.get(distance)
    if known is not None and np.isin(tensor_util.MakeNdarray(known.attr["value"].tensor), range(last + 1)).all():
        return False
    ends = [b.constant(name, np.array(end, kind.as_numpy_dtype)) for name, end in (("least", 0), ("most", last))]
    clamped = b.add("distance", "ClipByValue", [distance, *ends], "output", T=kind.as_datatype_enum)
    b.add("", b.original.op, [value, clamped], T=kind.as_datatype_enum)
    return True


def _upper_bound(b: Builder, constants: Constants) -> bool:
    """How many are less or equal, all for NaN: each compared with each, as the compiled op does.

    Not a LowerBound of negatives: those descend, and where they are constant TensorFlow folds with a binary search.
    """
    kind, out = attr(b.original, "T"), attr(b.original, "out_type", _I32)
    if kind not in _FLOATS:
        return False
    ordered, values = (
        b.add(name, "ExpandDims", [text, b.constant(f"{name}_axis", np.int32(axis))], "output", T=kind, Tdim=_I32)
        for name, text, axis in zip(("ordered", "values"), b.original.input[:2], (1, 2))
    )
    at_most = b.add("at_most", "LessEqual", [ordered, values], T=kind)
    nan = b.add("nan", "IsNan", [values], "y", T=kind)
    counted = b.add("counted", "LogicalOr", [at_most, nan])
    ones = b.add("ones", "Cast", [counted], "y", SrcT=types_pb2.DT_BOOL, DstT=out, Truncate=False)
    axis = b.constant("axis", np.int32(2))
    b.add("", "Sum", [ones, axis], "output", T=out, Tidx=_I32, keep_dims=False)
    return True


def _bucketize(b: Builder, constants: Constants) -> bool:
    """How many boundaries the value is not below: all for NaN."""
    kind = attr(b.original, "T")
    if kind not in _FLOATS:
        return False
    limits = np.array(b.original.attr["boundaries"].list.f, dtypes.as_dtype(kind).as_numpy_dtype)
    last = b.constant("last", np.int32(-1))
    values = b.add("values", "ExpandDims", [b.original.input[0], last], "output", T=kind, Tdim=_I32)
    below = b.add("below", "Less", [values, b.constant("boundaries", limits)], T=kind)
    counted = b.add("counted", "LogicalNot", [below], "y")
    ones = b.add("ones", "Cast", [counted], "y", SrcT=types_pb2.DT_BOOL, DstT=_I32, Truncate=False)
    b.add("", "Sum", [ones, last], "output", T=_I32, Tidx=_I32, keep_dims=False)
    return True


def _ones_like(b: Builder, constants: Constants) -> bool:
    kind = attr(b.original, "T")
    shape = b.add("shape", "Shape", [b.original.input[0]], "output", T=kind, out_type=_I32)
    one = b.constant("one", np.array(1, dtypes.as_dtype(kind).as_numpy_dtype))
    ones = b.add("ones", "Fill", [shape, one], "output", T=kind, index_type=_I32)
    b.add("", "Cast", [ones], "y", SrcT=kind, DstT=kind, Truncate=False)
    return True


def _strided_slice_grad(b: Builder, constants: Constants) -> bool:
    """Cut to the shape of what was sliced: a dilation of nothing counts as one of one element."""
    strides = constants.get(b.original.input[3])
    if strides is not None and (abs(tensor_util.MakeNdarray(strides.attr["value"].tensor)) == 1).all():
        return False
    shape, kind, index = b.original.input[0], attr(b.original, "T"), attr(b.original, "Index", _I32)
    grad = b.add("grad", b.original.op, b.original.input[:5], "output")
    for name in b.original.attr:
        b.nodes[-1].attr[name].CopyFrom(b.original.attr[name])
    start = b.add("start", "ZerosLike", [shape], "y", T=index)
    b.add("", "Slice", [grad, start, shape], "output", T=kind, Index=index)
    return True


_FORMS: dict[str, Callable[[Builder, Constants], bool]] = {
    "Mean": _mean,
    "LeftShift": _shift,
    "RightShift": _shift,
    "UpperBound": _upper_bound,
    "Bucketize": _bucketize,
    "OnesLike": _ones_like,
    "StridedSliceGrad": _strided_slice_grad,
}
