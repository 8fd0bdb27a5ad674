"""Ops whose compiled form gives other values than TensorFlow's kernels, in forms that give the same.

    Mean of small integers    compiled, it sums in the type itself and wraps; the kernel sums in 64 bits
    LeftShift, RightShift     compiled, a distance beyond the width gives 0; the kernel clamps the distance
    UpperBound of floats      compiled, NaN goes before all; the kernel puts it after all
    Bucketize of floats       the same
    OnesLike                  compiled, it has the largest size its input may have, where a run produces that
    StridedSliceGrad          compiled, it is larger than what was sliced, where a stride of more than 1 takes nothing
    SeluGrad                  compiled, it takes 0 for negative; the kernel for positive
    Sqrt-, RsqrtGrad and      compiled, of complex results they take the result; the kernel its conjugate
      Reciprocal-, InvGrad
    ConjugateTranspose        compiled, its result is complex where floats were given
    ResizeBilinearGrad        compiled, its result is f32 whatever the image is
    SelfAdjointEigV2          compiled, the eigenvalues of complex matrices are floats

and what `nan_forms` has. In FunctionDefs only. TensorFlow may fold any node of a form with its
kernels, so that each means the same to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, op_def_registry, tensor_util

from ..graph.view import NodeDef, attr
from . import nan_forms
from .random_ops import Builder, with_inputs

_I32, _I64, _F32 = types_pb2.DT_INT32, types_pb2.DT_INT64, types_pb2.DT_FLOAT
_FLOATS = frozenset({types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16})
_NARROW = frozenset(
    {types_pb2.DT_INT8, types_pb2.DT_INT16, _I32, types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32}
)

_COMPLEX = frozenset({types_pb2.DT_COMPLEX64, types_pb2.DT_COMPLEX128})
_SELU_SCALE, _SELU_SCALE_ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123
_GRADIENTS_OF_ROOTS = {"ReciprocalGrad": (-1, 2), "InvGrad": (-1, 2), "SqrtGrad": (0.5, -1), "RsqrtGrad": (-0.5, 3)}
"""A constant factor, and the power of the result."""

Constants = Mapping[str, NodeDef]
"""Name of an output -> the Const node that gives it."""


def expand(nodes: Iterable[NodeDef]) -> tuple[list[NodeDef], dict[str, str]] | None:
    """The nodes with those ops rewritten, and new names of outputs; None where there is none to rewrite."""
    found = list(nodes)
    if not any(node.op in _FORMS for node in found):
        return None
    constants = {f"{node.name}:output:0": node for node in found if node.op == "Const"}
    result: list[NodeDef] = []
    names: dict[str, str] = {}
    for node in found:
        form = _FORMS.get(node.op)
        builder = Builder(node, True, [])
        if form is None or not form(builder, constants):
            result.append(node)
            continue
        result.extend(builder.nodes)
        names |= {_output(node): _output(builder.nodes[-1])} | builder.moved
    return ([with_inputs(node, names) for node in result], names) if names else None


def _output(node: NodeDef) -> str:
    return f"{node.name}:{op_def_registry.get(node.op).output_arg[0].name}:0"


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


def _of_nodes_alone(form: Callable[[Builder], bool]) -> Callable[[Builder, Constants], bool]:
    return lambda builder, _: form(builder)


def _selu_grad(b: Builder, constants: Constants) -> bool:
    kind = attr(b.original, "T")
    gradients, outputs = b.original.input[:2]
    zero, scale, scale_alpha = (
        b.constant(name, np.array(value, dtypes.as_dtype(kind).as_numpy_dtype))
        for name, value in (("zero", 0), ("scale", _SELU_SCALE), ("scale_alpha", _SELU_SCALE_ALPHA))
    )
    negative = b.add("negative", "Less", [outputs, zero], T=kind)
    slope = b.add("slope", "AddV2", [outputs, scale_alpha], T=kind)
    below, above = (b.add(n, "Mul", [gradients, text], T=kind) for n, text in (("below", slope), ("above", scale)))
    b.add("", "SelectV2", [negative, below, above], T=kind)
    return True


def _of_conjugate(b: Builder, constants: Constants) -> bool:
    """-dy y'^2 of 1/x, dy/2 / y' of sqrt(x), -dy/2 y'^3 of 1/sqrt(x): y' is the conjugate of the result."""
    kind = attr(b.original, "T")
    if kind not in _COMPLEX:
        return False
    factor, power = _GRADIENTS_OF_ROOTS[b.original.op]
    result = b.add("conjugate", "Conj", [b.original.input[0]], "output", T=kind)
    number = b.constant("factor", np.array(factor, dtypes.as_dtype(kind).as_numpy_dtype))
    product = b.add("product_0", "Mul", [b.original.input[1], number], T=kind)
    for n in range(1, power + 1):
        product = b.add(f"product_{n}", "Mul", [product, result], T=kind)
    if power < 0:
        product = b.add("quotient", "RealDiv", [product, result], T=kind)
    b.add("", "Identity", [product], "output", T=kind)
    return True


def _resize_bilinear_grad(b: Builder, constants: Constants) -> bool:
    """In f32, which the gradients are of: of the image the shape alone is read."""
    kind = attr(b.original, "T", _F32)
    if kind == _F32:
        return False
    image = b.add("image", "Cast", [b.original.input[1]], "y", SrcT=kind, DstT=_F32, Truncate=False)
    grad = b.add("grad", b.original.op, [b.original.input[0], image], "output", T=_F32)
    for name in ("align_corners", "half_pixel_centers"):
        b.nodes[-1].attr[name].CopyFrom(b.original.attr[name])
    b.add("", "Cast", [grad], SrcT=_F32, DstT=kind, Truncate=False)
    return True


def _self_adjoint_eig(b: Builder, constants: Constants) -> bool:
    kind = attr(b.original, "T")
    if kind not in _COMPLEX:
        return False
    real = types_pb2.DT_FLOAT if kind == types_pb2.DT_COMPLEX64 else types_pb2.DT_DOUBLE
    compute = attr(b.original, "compute_v", True)
    values = b.add("eig", b.original.op, b.original.input[:1], "e", T=kind, compute_v=compute)
    b.moved = {f"{b.original.name}:v:0": values.replace(":e:0", ":v:0")}
    part = b.add("real", "Real", [values], "output", T=kind, Tout=real)
    zeros = b.add("zeros", "ZerosLike", [part], "y", T=real)
    b.add("", "Complex", [part, zeros], T=real, Tout=kind)
    return True


def _conjugate_transpose(b: Builder, constants: Constants) -> bool:
    kind = attr(b.original, "T")
    if kind in _COMPLEX:
        return False
    b.add("", "Transpose", b.original.input[:2], T=kind, Tperm=attr(b.original, "Tperm", _I32))
    return True


_FORMS: dict[str, Callable[[Builder, Constants], bool]] = {
    "Mean": _mean,
    "LeftShift": _shift,
    "RightShift": _shift,
    "UpperBound": _upper_bound,
    "Bucketize": _bucketize,
    "OnesLike": _ones_like,
    "StridedSliceGrad": _strided_slice_grad,
    "SeluGrad": _selu_grad,
    **dict.fromkeys(_GRADIENTS_OF_ROOTS, _of_conjugate),
    "ConjugateTranspose": _conjugate_transpose,
    "ResizeBilinearGrad": _resize_bilinear_grad,
    "SelfAdjointEigV2": _self_adjoint_eig,
    **{op: _of_nodes_alone(form) for op, form in nan_forms.FORMS.items()},
}
