"""Shapes and literals between protos and the IR."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ParseError
from .. import dim as dims_
from ..dtype import BY_NUMBER, DTYPES, DType
from ..literal import Literal, freeze
from ..shape import TOKEN, Shape, array, tuple_of

_TUPLE, _OPAQUE, _TOKEN = 13, 14, 17
# Fields that hold numbers; every other dtype lies in a field of bytes, `<name>s`.
_NUMBERS = {
    "pred": "preds",
    "s32": "s32s",
    "s64": "s64s",
    "u32": "u32s",
    "u64": "u64s",
    "f32": "f32s",
    "f64": "f64s",
    "c64": "c64s",
    "c128": "c128s",
}
_PARTS = {"c64": np.float32, "c128": np.float64}


def read_shape(proto: Any) -> Shape:
    """A ShapeProto as a Shape; ParseError for an element type that the IR does not have."""
    number = proto.element_type
    if number == _TUPLE:
        return tuple_of(*map(read_shape, proto.tuple_shapes))
    if number == _TOKEN:
        return TOKEN
    if number == _OPAQUE:
        return Shape("opaque")
    if number not in BY_NUMBER:
        raise ParseError(f"the proto has element type number {number}, which is not supported")
    dims = tuple(proto.dimensions)
    if any(proto.is_dynamic_dimension):
        dims = tuple(dims_.bounded_only(d) if dynamic else d for d, dynamic in zip(dims, proto.is_dynamic_dimension))
    order = tuple(proto.layout.minor_to_major)
    if not order or order == tuple(range(len(dims) - 1, -1, -1)):
        return array(BY_NUMBER[number], dims)
    return array(BY_NUMBER[number], dims, order)


def write_shape(shape: Shape, proto: Any) -> None:
    """Fill a ShapeProto; an expression is written as its sample."""
    if shape.is_tuple:
        proto.element_type = _TUPLE
        for element in shape.elements:
            write_shape(element, proto.tuple_shapes.add())
        return
    if not shape.is_array or shape.dtype is None:
        proto.element_type = _TOKEN if shape.kind == "token" else _OPAQUE
        return
    proto.element_type = shape.dtype.number
    proto.dimensions.extend(shape.sample_dims)
    proto.is_dynamic_dimension.extend(dims_.has_produced(d) for d in shape.dims)
    proto.layout.minor_to_major.extend(shape.layout or range(shape.rank - 1, -1, -1))
    proto.layout.tail_padding_alignment_in_elements = 1


def read_literal(proto: Any) -> Literal:
    """A LiteralProto as an array (a tuple of them for a tuple), row-major."""
    shape = read_shape(proto.shape)
    if shape.is_tuple:
        return tuple(map(read_literal, proto.tuple_literals))
    if shape.dtype is None:
        raise ParseError(f"the proto has a literal of shape {shape}")
    flat, dims = _flat(proto, shape.dtype), shape.sample_dims
    if flat.size != int(np.prod(dims)):
        raise ParseError(f"a literal of shape {shape} has {flat.size} elements: literals were left out of the proto")
    if shape.layout is None:
        return freeze(flat.reshape(dims))
    major_to_minor = shape.layout[::-1]
    physical = flat.reshape([dims[d] for d in major_to_minor])
    return freeze(physical.transpose(np.argsort(major_to_minor)))


def _flat(proto: Any, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype.name in _NUMBERS:
        part = _PARTS.get(dtype.name, dtype.numpy)
        return np.array(getattr(proto, _NUMBERS[dtype.name]), part).view(dtype.numpy)
    raw = getattr(proto, f"{dtype.name}s")
    if dtype.bits == 4:
        nibbles = np.frombuffer(raw, np.uint8) & 15
        wide = nibbles.astype(np.int8) if dtype.kind == "uint" else (nibbles.astype(np.int8) ^ 8) - 8
        return wide.astype(dtype.numpy)
    return np.frombuffer(raw, dtype.numpy)


def write_literal(value: Literal, shape: Shape, proto: Any) -> None:
    """Fill a LiteralProto with a row-major literal."""
    write_shape(shape if shape.is_tuple else array(DTYPES[str(shape.dtype)], shape.dims), proto.shape)
    if isinstance(value, tuple):
        for part, element in zip(value, shape.elements):
            write_literal(part, element, proto.tuple_literals.add())
        return
    flat, dtype = np.ascontiguousarray(value).reshape(-1), shape.element_type
    name = dtype.name
    if name in _NUMBERS:
        getattr(proto, _NUMBERS[name]).extend(flat.view(_PARTS.get(name, flat.dtype)).tolist())
    elif dtype.bits == 4:
        setattr(proto, f"{name}s", (flat.astype(np.int8).view(np.uint8) & 15).tobytes())
    else:
        setattr(proto, f"{name}s", flat.tobytes())
