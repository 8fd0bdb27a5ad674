"""Opcodes that move elements: identities, chains, and moves of a repeated scalar."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from ...ir.node import Instr
from ...ir.shape import array
from ..base import Rule
from ..match import broadcast, dtype_of, make, reshape, scalar_of, splat

_FEW = 8  # operands of a concatenate that are moved one by one: more would be many kernels where they are not fused


def nothing_moves(i: Instr) -> Instr | None:
    """reshape, broadcast, transpose, slice, pad, reverse, concatenate that change nothing --> the operand"""
    x = i.operands[0]
    if x.shape.dims != i.shape.dims or dtype_of(x) != dtype_of(i):
        return None
    same: dict[str, Callable[[], bool]] = {
        "reshape": lambda: True,
        "broadcast": lambda: i.attrs["dimensions"] == tuple(range(x.shape.rank)),
        "transpose": lambda: i.attrs["dimensions"] == tuple(range(x.shape.rank)),
        "slice": lambda: all(a == 0 and c == 1 for a, _, c in i.attrs["slice"]),
        "pad": lambda: all(not a and not b and not c for a, b, c in i.attrs["padding"]),
        "reverse": lambda: all(x.shape.dims[d] in (0, 1) for d in i.attrs["dimensions"]),
        "concatenate": lambda: len(i.operands) == 1,
    }
    return x if same[i.opcode]() else None


def reshape_chain(i: Instr) -> Instr | None:
    """reshape(reshape(x)) --> reshape(x)"""
    (x,) = i.operands
    return reshape(i, x.operands[0], i.shape.dims) if x.opcode == "reshape" else None


def transpose_chain(i: Instr) -> Instr | None:
    """transpose(transpose(x)) --> transpose(x)"""
    (x,) = i.operands
    if x.opcode != "transpose":
        return None
    order = tuple(x.attrs["dimensions"][d] for d in i.attrs["dimensions"])
    return make(i, "transpose", i.shape, x.operands, dimensions=order)


def transpose_of_concatenate(i: Instr) -> Instr | None:
    """transpose(concatenate(x, y)) --> concatenate(transpose(x), transpose(y)): what makes x may write it so"""
    (joined,) = i.operands
    if joined.opcode != "concatenate" or len(joined.operands) > _FEW:
        return None
    order = i.attrs["dimensions"]
    moved = [
        make(x, "transpose", array(dtype_of(x), tuple(x.shape.dims[d] for d in order)), (x,), dimensions=order)
        for x in joined.operands
    ]
    axis = order.index(joined.attrs["dimensions"][0])
    return make(i, "concatenate", i.shape, moved, dimensions=(axis,))


def transpose_of_ones(i: Instr) -> Instr | None:
    """transpose that moves only dimensions of size 1 --> reshape"""
    (x,) = i.operands
    wide = [d for d in i.attrs["dimensions"] if x.shape.dims[d] != 1]
    return reshape(i, x, i.shape.dims) if wide == sorted(wide) else None


def broadcast_chain(i: Instr) -> Instr | None:
    """broadcast(broadcast(x)) --> broadcast(x)"""
    (x,) = i.operands
    if x.opcode != "broadcast":
        return None
    where = tuple(i.attrs["dimensions"][d] for d in x.attrs["dimensions"])
    return broadcast(i, x.operands[0], i.shape.dims, where)


def broadcast_adds_ones(i: Instr) -> Instr | None:
    """broadcast that only adds dimensions of size 1 --> reshape"""
    (x,) = i.operands
    added = [d for n, d in enumerate(i.shape.dims) if n not in i.attrs["dimensions"]]
    return reshape(i, x, i.shape.dims) if x.shape.rank and all(d == 1 for d in added) else None


def scalar_moves(i: Instr) -> Instr | None:
    """a move of a repeated scalar --> the scalar, repeated"""
    scalar = scalar_of(i.operands[0])
    if scalar is None or i.operands[0].opcode != "broadcast":
        return None
    return broadcast(i, scalar, i.shape.dims)


def reverse_chain(i: Instr) -> Instr | None:
    """reverse(reverse(x)) --> reverse(x) of the dimensions that are in one of them"""
    (x,) = i.operands
    if x.opcode != "reverse":
        return None
    once = set(i.attrs["dimensions"]) ^ set(x.attrs["dimensions"])
    return make(i, "reverse", i.shape, x.operands, dimensions=tuple(sorted(once))) if once else x.operands[0]


def slice_chain(i: Instr) -> Instr | None:
    """slice(slice(x)) --> slice(x)"""
    (x,) = i.operands
    if x.opcode != "slice" or not _numbers(i.attrs["slice"]) or not _numbers(x.attrs["slice"]):
        return None
    rows = tuple(
        (a0 + a * c0, a0 + a * c0 + (max(b - a, 1) - 1) // c * c * c0 + 1 if b > a else a0 + a * c0, c * c0)
        for (a0, _, c0), (a, b, c) in zip(x.attrs["slice"], i.attrs["slice"])
    )
    return make(i, "slice", i.shape, x.operands, slice=rows)


def _numbers(rows: Sequence[tuple[object, ...]]) -> bool:
    return all(isinstance(v, int) for row in rows for v in row)


def slice_of_concatenate(i: Instr) -> Instr | None:
    """slice(concatenate(..., x, ...)) that lies within x --> slice(x)"""
    (whole,) = i.operands
    if whole.opcode != "concatenate" or not _numbers(i.attrs["slice"]):
        return None
    (axis,) = whole.attrs["dimensions"]
    start, limit, stride = i.attrs["slice"][axis]
    offset = 0
    for part in whole.operands:
        size = part.shape.dims[axis]
        if not isinstance(size, int):
            return None
        if offset <= start and limit <= offset + size and start < limit:
            rows = list(i.attrs["slice"])
            rows[axis] = (start - offset, limit - offset, stride)
            return make(i, "slice", i.shape, (part,), slice=tuple(rows))
        offset += size
    return None


def concatenate_parts(i: Instr) -> Instr | None:
    """concatenate drops empty operands and takes the operands of a concatenate along the same dimension"""
    axis = i.attrs["dimensions"][0]
    parts: list[Instr] = []
    for x in i.operands:
        if x.shape.dims[axis] == 0 and len(i.operands) > 1:
            continue
        inner = x.opcode == "concatenate" and x.attrs["dimensions"] == (axis,)
        parts.extend(x.operands if inner else (x,))
    if tuple(parts) == i.operands or not parts:
        return None
    return make(i, "concatenate", i.shape, parts, dimensions=(axis,)) if len(parts) > 1 else parts[0]


def concatenate_slices(i: Instr) -> Instr | None:
    """concatenate of neighbouring slices of x --> one slice of x"""
    axis = i.attrs["dimensions"][0]
    first = i.operands[0]
    if any(
        x.opcode != "slice"
        or x.operands[0] is not first.operands[0]
        or not _numbers(x.attrs["slice"])
        or x.attrs["slice"][axis][2] != 1
        for x in i.operands
    ):
        return None
    rows = [list(x.attrs["slice"]) for x in i.operands]
    for before, after in itertools.pairwise(rows):
        if before[axis][1] != after[axis][0] or before[:axis] + before[axis + 1 :] != after[:axis] + after[axis + 1 :]:
            return None
    whole = (*rows[0][:axis], (rows[0][axis][0], rows[-1][axis][1], 1), *rows[0][axis + 1 :])
    return make(i, "slice", i.shape, first.operands, slice=whole)


def empty_result(i: Instr) -> Instr | None:
    """anything without elements --> a broadcast"""
    if 0 not in i.shape.dims or (i.operands[0].opcode == "constant" and i.opcode == "broadcast"):
        return None
    return splat(i, 0, array(dtype_of(i), i.shape.dims))


def copy_nothing(i: Instr) -> Instr | None:
    """copy(x) --> x"""
    return i.operands[0] if i.operands[0].shape.is_array else None


RULES: dict[str, list[Rule]] = {
    "reshape": [empty_result, nothing_moves, reshape_chain, scalar_moves],
    "transpose": [
        empty_result,
        nothing_moves,
        transpose_chain,
        transpose_of_concatenate,
        scalar_moves,
        transpose_of_ones,
    ],
    "broadcast": [empty_result, nothing_moves, broadcast_chain, broadcast_adds_ones],
    "reverse": [empty_result, nothing_moves, reverse_chain, scalar_moves],
    "slice": [empty_result, nothing_moves, slice_chain, scalar_moves, slice_of_concatenate],
    "pad": [empty_result, nothing_moves],
    "concatenate": [empty_result, nothing_moves, concatenate_parts, concatenate_slices],
    "gather": [empty_result],
    "dynamic-slice": [empty_result],
    "convolution": [empty_result],
    "dot": [empty_result],
    "copy": [copy_nothing],
}
