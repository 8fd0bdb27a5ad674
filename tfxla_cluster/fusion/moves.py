"""Which operand elements an instruction's element needs: one function an opcode, in MOVES."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UnsupportedError
from ..ir.dim import Dim, make
from ..ir.node import Instr
from ..ir.opcode import is_elementwise
from ..ir.polynomial import same
from .index import Access, Computed, Cond, Index, Mask, Seq, Splitter, affine, flatten, regroup

Move = Callable[[Access, Splitter], tuple[Access, ...]]


def _minus(a: Dim, b: Dim) -> Dim:
    return make("add", a, make("mul", b, -1))


def _elementwise(access: Access, _: Splitter) -> tuple[Access, ...]:
    """Scalar operands of select and clamp have no index."""
    instr, index, mask = access
    return tuple(Access(o, index if o.shape.rank else (), mask) for o in instr.operands)


def _broadcast(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    operand = instr.operands[0]
    dims = zip(operand.shape.dims, instr.attrs.get("dimensions", ()))
    return (Access(operand, tuple(() if dim == 1 else index[d] for dim, d in dims), mask),)


def _reshape(access: Access, splitter: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    operand = instr.operands[0]
    return (Access(operand, regroup(flatten(index), operand.shape.dims, splitter), mask),)


def _transpose(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    source: list[Seq] = [()] * len(index)
    for out, axis in enumerate(instr.attrs["dimensions"]):
        source[axis] = index[out]
    return (Access(instr.operands[0], tuple(source), mask),)


def _reverse(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    dims, flipped = instr.shape.dims, instr.attrs["dimensions"]
    source = tuple(
        affine(seq, -1, _minus(dim, 1), dim) if axis in flipped else seq
        for axis, (seq, dim) in enumerate(zip(index, dims))
    )
    return (Access(instr.operands[0], source, mask),)


def _slice(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    operand = instr.operands[0]
    source = tuple(
        affine(seq, stride, start, dim)
        for seq, (start, _limit, stride), dim in zip(index, instr.attrs["slice"], operand.shape.dims)
    )
    return (Access(operand, source, mask),)


def pad_source(instr: Instr, index: Index) -> tuple[Index, Mask]:
    """The operand's index of a pad's element, and where it is an element of the operand."""
    source: list[Seq] = []
    conds: list[Cond] = []
    for seq, dim, (low, high, interior) in zip(index, instr.operands[0].shape.dims, instr.attrs["padding"]):
        step = interior + 1
        spread = make("add", make("mul", _minus(dim, 1), step), 1)
        lower = None if isinstance(low, int) and low <= 0 and step == 1 else low
        upper = None if isinstance(high, int) and high <= 0 else make("add", low, spread)
        if lower is not None or upper is not None or step != 1:
            conds.append(Cond(seq, lower, upper, step))
        shifted = affine(seq, 1, make("mul", low, -1), dim if step == 1 else spread)
        if step == 1 or dim == 1:
            source.append(() if dim == 1 else shifted)
        else:
            source.append((Computed("quotient", shifted, dim, offset=step),))
    return tuple(source), tuple(conds)


def _pad(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    source, conds = pad_source(instr, index)
    return (Access(instr.operands[0], source, mask + conds), Access(instr.operands[1], (), mask))


def concat_conds(instr: Instr, index: Index) -> list[Mask]:
    """Where each operand of a concatenate is the one that an element comes from."""
    axis = instr.attrs["dimensions"][0]
    last = len(instr.operands) - 1
    start: Dim = 0
    masks: list[Mask] = []
    for number, operand in enumerate(instr.operands):
        stop = make("add", start, operand.shape.dims[axis])
        cond = Cond(index[axis], None if number == 0 else start, None if number == last else stop)
        masks.append(() if last == 0 else (cond,))
        start = stop
    return masks


def _concatenate(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    axis = instr.attrs["dimensions"][0]
    start: Dim = 0
    found: list[Access] = []
    for operand, conds in zip(instr.operands, concat_conds(instr, index)):
        dim = operand.shape.dims[axis]
        part = affine(index[axis], 1, make("mul", start, -1), dim)
        found.append(Access(operand, (*index[:axis], part, *index[axis + 1 :]), mask + conds))
        start = make("add", start, dim)
    return tuple(found)


def _shifted(seq: Seq, start: Access, size: Dim, dim: Dim, sign: int) -> Seq:
    """The index v + sign * clamp(start, 0, dim - size); no shift where only start 0 is possible."""
    if same(size, dim):
        return seq
    extent = dim if sign > 0 else size
    return (Computed("dynamic", seq, extent, start=start, limit=_minus(dim, size), sign=sign),)


def _starts(instr: Instr, first: int, axis: int) -> Access:
    """The start index of `axis`: a scalar operand each, or (old form) one vector."""
    operands = instr.operands[first:]
    if len(operands) == 1 and operands[0].shape.rank == 1:
        dim = operands[0].shape.dims[0]
        return Access(operands[0], (affine((), 1, axis, dim),), ())
    return Access(operands[axis], (), ())


def _dynamic_slice(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    operand = instr.operands[0]
    source = tuple(
        _shifted(seq, _starts(instr, 1, axis), size, dim, 1)
        for axis, (seq, size, dim) in enumerate(zip(index, instr.shape.dims, operand.shape.dims))
    )
    return (Access(operand, source, mask),)


def update_source(instr: Instr, index: Index) -> tuple[Index, Mask]:
    """The update's index of a dynamic-update-slice's element, and where the update covers it."""
    source: list[Seq] = []
    conds: list[Cond] = []
    update = instr.operands[1].shape.dims
    for axis, (seq, size, dim) in enumerate(zip(index, update, instr.shape.dims)):
        part = _shifted(seq, _starts(instr, 2, axis), size, dim, -1)
        if part is not seq:
            conds.append(Cond(part, 0, size))
        source.append(() if size == 1 else part)
    return tuple(source), tuple(conds)


def update_target(instr: Instr, index: Index) -> Index:
    """Where a dynamic-update-slice puts the element of its update at `index`."""
    update = instr.operands[1].shape.dims
    return tuple(
        _shifted(seq, _starts(instr, 2, axis), size, dim, 1)
        for axis, (seq, size, dim) in enumerate(zip(index, update, instr.shape.dims))
    )


def _dynamic_update_slice(access: Access, _: Splitter) -> tuple[Access, ...]:
    instr, index, mask = access
    source, conds = update_source(instr, index)
    return (Access(instr.operands[0], index, mask), Access(instr.operands[1], source, mask + conds))


def _gather(access: Access, _: Splitter) -> tuple[Access, ...]:
    """operand index = clamp(start_indices element, 0, dim - slice size) + offset index."""
    instr, index, mask = access
    operand, starts = instr.operands
    attrs = instr.attrs
    offset_dims = attrs.get("offset_dims", ())
    batch = [seq for axis, seq in enumerate(index) if axis not in offset_dims]
    offsets = iter([index[axis] for axis in offset_dims])
    vector_dim = attrs["index_vector_dim"]
    batching = dict(zip(attrs.get("operand_batching_dims", ()), attrs.get("start_indices_batching_dims", ())))
    source: list[Seq] = []
    for axis, (dim, size) in enumerate(zip(operand.shape.dims, attrs["slice_sizes"])):
        if axis in batching:
            at = batching[axis]
            source.append(batch[at - (at > vector_dim)])
            continue
        seq: Seq = () if axis in attrs.get("collapsed_slice_dims", ()) else next(offsets)
        if axis in attrs["start_index_map"]:
            where = list(batch)
            if vector_dim < starts.shape.rank:
                number = attrs["start_index_map"].index(axis)
                where.insert(vector_dim, affine((), 1, number, starts.shape.dims[vector_dim]))
            seq = _shifted(seq, Access(starts, tuple(where), mask), size, dim, 1)
        else:
            seq = affine(seq, 1, 0, dim)  # a slice at the start of a larger dimension
        source.append(seq)
    return (Access(operand, tuple(source), mask),)


def _bitcast_convert(access: Access, _: Splitter) -> tuple[Access, ...]:
    """One operand element; several where the result is wider (the minor dim holds its parts)."""
    instr, index, mask = access
    operand = instr.operands[0]
    extra = operand.shape.rank - instr.shape.rank
    if extra <= 0:
        return (Access(operand, index[: operand.shape.rank], mask),)
    parts = operand.shape.dims[-1]
    assert isinstance(parts, int)
    return tuple(Access(operand, (*index, affine((), 1, part, parts)), mask) for part in range(parts))


def _leaf(access: Access, _: Splitter) -> tuple[Access, ...]:
    return ()


MOVES: dict[str, Move] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "bitcast-convert": _bitcast_convert,
    "parameter": _leaf,
    "constant": _leaf,
    "iota": _leaf,
}


def sources(access: Access, splitter: Splitter) -> tuple[Access, ...]:
    """The accesses to operands that computing `access` takes, in a fixed order an opcode.

    Start indices of dynamic-slice, dynamic-update-slice and gather are not listed: they stand in the
    `Computed` index. UnsupportedError for an opcode without an index map.
    """
    opcode = access.instr.opcode
    move = MOVES.get(opcode) or (_elementwise if is_elementwise(opcode) else None)
    if move is None:
        raise UnsupportedError(f"{opcode} has no index map ({access.instr.name})")
    return move(access, splitter)
