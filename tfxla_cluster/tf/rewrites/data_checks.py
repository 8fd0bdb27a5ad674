"""Checks of data that TensorFlow's kernels make and its bridge drops, as nodes of functions that are compiled.

A check stands beside the op that it is of; data_checks.KINDS says what can be checked. In FunctionDefs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes, tensor_util

from ... import data_checks
from ...data_checks import TARGET, Check
from ..graph.view import NodeDef, attr
from .random_ops import Builder

_I32 = types_pb2.DT_INT32
CALL = "XlaCustomCallV2"
Constants = Mapping[str, NodeDef]
"""Name of an output -> the Const node that gives it."""


def expand(nodes: Iterable[NodeDef]) -> list[NodeDef] | None:
    """The nodes with the checks of those that have some; None where there are none."""
    found = list(nodes)
    if not any(node.op in _CHECKS for node in found):
        return None
    constants = {f"{node.name}:output:0": node for node in found if node.op == "Const"}
    result: list[NodeDef] = []
    for node in found:
        result.append(node)
        check = _CHECKS.get(node.op)
        if check is not None:
            builder = Builder(node, True, [])
            check(builder, constants)
            result.extend(builder.nodes)
    return result if len(result) > len(found) else None


def _check(b: Builder, kind: str, values: str, dtype: int, limits: str = "", message: str = "") -> None:
    """`limits`: int32, one for each column."""
    b.add("check", CALL, [values, limits] if limits else [values], operand_dtypes=[dtype, _I32] if limits else [dtype])
    node = b.nodes[-1]
    node.attr["call_target_name"].s = TARGET.encode()
    node.attr["backend_config"].s = Check(kind, b.original.op, b.original.name, message).to_json().encode()
    node.attr["has_side_effect"].b = True
    node.attr["result_dtypes"].list.SetInParent()
    node.attr["result_shapes"].list.SetInParent()


def _shape(b: Builder, text: str, dtype: int) -> str:
    return b.add("sizes", "Shape", [text], "output", T=dtype, out_type=_I32)


def _size(b: Builder, shape: str, axis: int) -> str:
    """A dimension, counted from 0, as one limit."""
    begin = b.constant("axis", np.array([axis], np.int32))
    one = b.constant("one", np.array([1], np.int32))
    return b.add("limit", "Slice", [shape, begin, one], "output", T=_I32, Index=_I32)


def _known(constants: Constants, text: str) -> np.ndarray | None:
    node = constants.get(text)
    return None if node is None else np.asarray(tensor_util.MakeNdarray(node.attr["value"].tensor))


def _gather(b: Builder, constants: Constants) -> None:
    """GatherV2: the axis has to be a constant, as the bridge demands too."""
    params, indices, axis = b.original.input[:3]
    known = _known(constants, axis)
    if known is not None and int(known) >= 0:
        limit = _size(b, _shape(b, params, attr(b.original, "Tparams")), int(known))
        _check(b, "in range", indices, attr(b.original, "Tindices"), limit)


def _gather_nd(b: Builder, constants: Constants) -> None:
    params, indices = b.original.input[:2]
    _check(b, "in range", indices, attr(b.original, "Tindices"), _shape(b, params, attr(b.original, "Tparams")))


def _scatter_nd(b: Builder, constants: Constants) -> None:
    indices, _, shape = b.original.input[:3]
    kind = attr(b.original, "Tindices")
    limits = b.add("sizes", "Cast", [shape], "y", SrcT=kind, DstT=_I32, Truncate=False)
    _check(b, "in range", indices, kind, limits)


def _tensor_scatter(b: Builder, constants: Constants) -> None:
    tensor, indices = b.original.input[:2]
    _check(b, "in range", indices, attr(b.original, "Tindices"), _shape(b, tensor, attr(b.original, "T")))


def _resource(b: Builder, constants: Constants) -> None:
    handle, indices = b.original.input[:2]
    shape = b.add("sizes", "VariableShape", [handle], "output", out_type=_I32)
    _check(
        b, "in range", indices, attr(b.original, "Tindices"), _size(b, shape, int(attr(b.original, "batch_dims", 0)))
    )


def _segments(b: Builder, constants: Constants) -> None:
    """Elements of negative segments are dropped."""
    _, ids, count = b.original.input[:3]
    limit = b.add("limit", "Cast", [count], "y", SrcT=attr(b.original, "Tnumsegments", _I32), DstT=_I32, Truncate=False)
    _check(b, "below", ids, attr(b.original, "Tindices"), limit)


def _partitions(b: Builder, constants: Constants) -> None:
    limit = b.constant("limit", np.array([b.original.attr["num_partitions"].i], np.int32))
    _check(b, "in range", b.original.input[1], _I32, limit)


def _labels(b: Builder, constants: Constants) -> None:
    logits, labels = b.original.input[:2]
    limit = _size(b, _shape(b, logits, attr(b.original, "T")), 1)
    _check(b, "in range", labels, attr(b.original, "Tlabels"), limit)


def _division(b: Builder, constants: Constants) -> None:
    kind, divisor = attr(b.original, "T"), b.original.input[1]
    known = _known(constants, divisor)
    if dtypes.as_dtype(kind).is_integer and (known is None or (known == 0).any()):
        _check(b, "not zero", divisor, kind)


def _power(b: Builder, constants: Constants) -> None:
    kind = dtypes.as_dtype(attr(b.original, "T"))
    known = _known(constants, b.original.input[1])
    if kind.is_integer and not kind.is_unsigned and (known is None or (known < 0).any()):
        _check(b, "not negative", b.original.input[1], kind.as_datatype_enum)


def _bincount(b: Builder, constants: Constants) -> None:
    _check(b, "not negative", b.original.input[0], attr(b.original, "Tidx", _I32))


def _numerics(b: Builder, constants: Constants) -> None:
    message = b.original.attr["message"].s.decode(errors="replace")
    _check(b, "finite", b.original.input[0], attr(b.original, "T"), message=message)


def _assert(b: Builder, constants: Constants) -> None:
    """The message has what is constant of the data."""
    known = (_known(constants, text) for text in b.original.input[1:] if not text.startswith("^"))
    parts = ["[...]" if value is None else _shown(value) for value in known]
    message = f"assertion failed: {' '.join(parts)}"
    _check(b, "true", b.original.input[0], types_pb2.DT_BOOL, message=message)


def _shown(value: np.ndarray) -> str:
    texts = (v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in value.reshape(-1)[:3])
    return f"[{' '.join(texts)}]"


_CHECKS: Mapping[str, Callable[[Builder, Constants], None]] = {
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "ScatterNd": _scatter_nd,
    **dict.fromkeys(data_checks.TENSOR_SCATTERS, _tensor_scatter),
    **dict.fromkeys(("ResourceGather", *data_checks.RESOURCE_SCATTERS), _resource),
    **dict.fromkeys(data_checks.SEGMENTS, _segments),
    "DynamicPartition": _partitions,
    "SparseSoftmaxCrossEntropyWithLogits": _labels,
    **dict.fromkeys(data_checks.DIVISIONS, _division),
    "Pow": _power,
    **dict.fromkeys(("Bincount", "DenseBincount"), _bincount),
    "CheckNumerics": _numerics,
    "Assert": _assert,
}
