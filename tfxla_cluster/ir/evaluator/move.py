"""Opcodes that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dim import is_produced
from ..node import Instr
from .convert import convert
from .core import Array, Evaluator, Meaning


def _constant(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    return instr.attrs["literal"]


def _iota(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    dims, axis = ev.dims(instr.shape), instr.attrs["iota_dimension"]
    line = np.arange(dims[axis]).reshape([-1 if i == axis else 1 for i in range(len(dims))])
    dtype = instr.shape.element_type
    values = line.astype(dtype.numpy) if dtype.kind == "complex" else convert(line, dtype)
    return np.broadcast_to(values, dims)


def _broadcast(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    dims, where = ev.dims(instr.shape), instr.attrs["dimensions"]
    spread = [1] * len(dims)
    for size, axis in zip(args[0].shape, where):
        spread[axis] = size
    return np.broadcast_to(args[0].reshape(spread), dims)


def _reshape(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.asarray(args[0].reshape(ev.dims(instr.shape)))


def _bitcast(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """The operand's bytes in its layout, read in the layout of the result."""
    operand, out = instr.operands[0].shape, instr.shape
    order = (operand.layout or tuple(range(operand.rank - 1, -1, -1)))[::-1]
    raw = np.ascontiguousarray(args[0].transpose(order)).reshape(-1).view(out.element_type.numpy)
    dims, physical = ev.dims(out), (out.layout or tuple(range(out.rank - 1, -1, -1)))[::-1]
    return np.asarray(raw.reshape([dims[d] for d in physical]).transpose(np.argsort(physical)))


def _transpose(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.asarray(args[0].transpose(instr.attrs["dimensions"]))


def _reverse(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.flip(args[0], instr.attrs["dimensions"])


def _slice(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    rows = [slice(ev.number(a), ev.number(b), c) for a, b, c in instr.attrs["slice"]]
    return np.asarray(args[0][tuple(rows)])


def pad_array(x: Array, value: Any, rows: Sequence[tuple[int, int, int]]) -> Array:
    """`x` with `value` around and (interior) between its elements; negative edges cut."""
    spread = [n + max(n - 1, 0) * interior for n, (_, _, interior) in zip(x.shape, rows)]
    wide = np.full([s + max(lo, 0) + max(hi, 0) for s, (lo, hi, _) in zip(spread, rows)], value, x.dtype)
    inner = tuple(slice(max(lo, 0), max(lo, 0) + s, interior + 1) for s, (lo, _, interior) in zip(spread, rows))
    wide[inner] = x
    cut = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi, _) in zip(wide.shape, rows))
    return wide[cut]


def _pad(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    rows = [(ev.number(a), ev.number(b), c) for a, b, c in instr.attrs["padding"]]
    return pad_array(args[0], args[1], rows)


def _concatenate(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.concatenate(args, axis=instr.attrs["dimensions"][0])


def _starts(indices: Sequence[Array | int], sizes: Sequence[int], whole: Sequence[int]) -> list[int]:
    """The start of a window in each dimension, clamped so that the window lies inside."""
    return [min(max(int(i), 0), n - s) for i, s, n in zip(indices, sizes, whole)]


def _dynamic_slice(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x, sizes = args[0], [ev.number(s) for s in instr.attrs["dynamic_slice_sizes"]]
    starts = _starts(args[1:], sizes, x.shape)
    return np.asarray(x[tuple(slice(i, i + s) for i, s in zip(starts, sizes))])


def _dynamic_update_slice(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    x, update = np.array(args[0]), args[1]
    starts = _starts(args[2:], update.shape, x.shape)
    x[tuple(slice(i, i + s) for i, s in zip(starts, update.shape))] = update
    return np.asarray(x)


def index_vectors(indices: Array, axis: int) -> Array:
    """`indices` with its vectors last: [batch..., vector]."""
    return np.moveaxis(indices, axis, -1) if axis < indices.ndim else indices[..., None]


def _gather(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """Each index vector names where a window starts (clamped); windows lie along offset_dims."""
    x, a, sizes = args[0], instr.attrs, [ev.number(s) for s in instr.attrs["slice_sizes"]]
    vectors = index_vectors(args[1], a["index_vector_dim"])
    dropped = (*a["collapsed_slice_dims"], *a["operand_batching_dims"])
    window = [s for i, s in enumerate(sizes) if i not in dropped]
    batch = vectors.shape[:-1]
    out = np.empty([*batch, *window], x.dtype)
    batch_axes = batch_positions(a["start_indices_batching_dims"], a["index_vector_dim"])
    for where in np.ndindex(batch):
        full = [0] * x.ndim
        for axis, index in zip(a["start_index_map"], vectors[where]):
            full[axis] = int(index)
        for axis, source in zip(a["operand_batching_dims"], batch_axes):
            full[axis] = where[source]
        starts = _starts(full, sizes, x.shape)
        out[where] = x[tuple(slice(i, i + s) for i, s in zip(starts, sizes))].reshape(window)
    offsets = list(a["offset_dims"])
    rest = [i for i in range(out.ndim) if i not in offsets]
    return np.asarray(out.transpose(np.argsort([*rest, *offsets])))


def batch_positions(dims: Sequence[int], vector_dim: int) -> list[int]:
    """Dimensions of the indices as positions among their batch dimensions."""
    return [d - (d > vector_dim) for d in dims]


def _get_dimension_size(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    return np.array(args[0].shape[instr.attrs["dimensions"][0]], np.int32)


def _set_dimension_size(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """The first `size` elements; all of them when the result's dimension is static. From here on a size that has a
    name of its own is known."""
    axis = instr.attrs["dimensions"][0]
    dim = instr.shape.dims[axis]
    if isinstance(dim, int):
        return np.asarray(args[0])
    kept = np.asarray(args[0][(slice(None),) * axis + (slice(max(int(args[1]), 0)),)])
    if is_produced(dim):
        ev.env[dim.name] = kept.shape[axis]
    return kept


MEANINGS: dict[str, Meaning] = {
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "dynamic-reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
    "opt-barrier": lambda ev, instr, args: args[0],
}
