"""Snapshots: a module with the arguments of one execution, as XLA dumps them (--xla_dump_hlo_snapshots, and
--xla_dump_hlo_unoptimized_snapshots)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ...errors import ParseError
from ..literal import Literal, freeze
from ..node import Module
from ..shape import Shape
from .reader import read
from .schema import MESSAGES
from .shapes import read_literal, read_shape

_LENGTH = 8  # bytes of the length of a shape


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`arguments`: one a parameter. `results`: the outputs, a root tuple flattened one level; () where unknown."""

    module: Module
    arguments: tuple[Literal, ...]
    results: tuple[Literal, ...] = ()


def read_snapshot(data: bytes) -> Snapshot | None:
    """The HloSnapshot or HloUnoptimizedSnapshot in `data`; None where it is a module without arguments, or no proto.

    ParseError where it is a snapshot and not whole."""
    message = _message("HloSnapshot", data)
    if message is not None and len(message.hlo.hlo_module.computations):
        return _of_message(message)
    message = _message("HloUnoptimizedSnapshot", data)
    if message is not None and len(message.hlo_module.computations) and len(message.partitions):
        return Snapshot(_module(message), tuple(map(read_literal, message.partitions[0].arguments)))
    return _in_parts(data)


def _message(name: str, data: bytes) -> Any:
    """None where `data` is no such message."""
    try:
        return MESSAGES[name].FromString(bytes(data))
    except DecodeError:
        return None


def _of_message(message: Any) -> Snapshot:
    result: tuple[Literal, ...] = ()
    if message.HasField("result"):
        value = read_literal(message.result)
        result = value if isinstance(value, tuple) else (value,)
    return Snapshot(_module(message.hlo), tuple(map(read_literal, message.arguments)), result)


def _module(message: Any) -> Module:
    return read(message.hlo_module.SerializeToString())


def _in_parts(data: bytes) -> Snapshot | None:
    """The form that holds more than 2 GiB: a varint length, an HloUnoptimizedSnapshot without literals, then of each
    argument the length of its shape (8 bytes, little-endian), the shape, and its elements as they lie in memory."""
    found = _varint(data)
    if found is None:
        return None
    length, at = found
    message = _message("HloUnoptimizedSnapshot", data[at : at + length]) if at + length <= len(data) else None
    if message is None or not len(message.hlo_module.computations):
        return None
    module = _module(message)
    at += length
    arguments = []
    for _ in module.entry.params:
        value, at = _argument(data, at)
        arguments.append(value)
    return Snapshot(module, tuple(arguments))


def _varint(data: bytes) -> tuple[int, int] | None:
    """The number that `data` begins with, and where it ends."""
    value = 0
    for at, byte in enumerate(data[:10]):
        value |= (byte & 127) << (7 * at)
        if byte < 128:
            return value, at + 1
    return None


def _argument(data: bytes, at: int) -> tuple[Literal, int]:
    """The argument that begins at `at`, and where it ends."""
    size = int.from_bytes(data[at : at + _LENGTH], "little")
    at += _LENGTH
    proto = _message("ShapeProto", data[at : at + size]) if 0 < size <= len(data) - at else None
    if proto is None:
        raise ParseError("the snapshot is cut off: an argument has no shape")
    shape = read_shape(proto)
    at += size
    count = _bytes(shape)
    if count > len(data) - at:
        raise ParseError(f"the snapshot is cut off: an argument is {shape}, and {len(data) - at} bytes are left")
    values = np.frombuffer(data[at : at + count], shape.element_type.numpy)
    order = (shape.layout or tuple(range(shape.rank - 1, -1, -1)))[::-1]
    laid_out = values.reshape([shape.sample_dims[d] for d in order]).transpose(np.argsort(order))
    return freeze(laid_out), at + count


def _bytes(shape: Shape) -> int:
    if not shape.is_array:
        raise ParseError(f"an argument of the snapshot is {shape}: only arrays are read")
    return int(np.prod(shape.sample_dims, dtype=np.int64)) * shape.element_type.numpy.itemsize
