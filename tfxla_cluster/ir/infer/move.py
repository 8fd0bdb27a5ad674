"""Opcodes that move elements: broadcast, reshape, slice, gather, ..."""

from __future__ import annotations

from .. import dim as dims_
from ..dim import Dim
from ..rules import broken, check
from ..shape import Shape, array
from .common import Case, Rule, distinct, fits_in, same


def _broadcast(case: Case) -> Shape:
    x, out, where = case.array(0), case.claimed(), case.attrs["dimensions"]
    fits = len(where) == x.rank and list(where) == sorted(set(where)) and distinct(where, out.rank)
    if not fits or not all(same(d, out.dims[w]) for d, w in zip(x.dims, where)):
        broken("V1", f"broadcast of {x} to {out} by {where}")
    return array(case.dtype(0), out.dims)


def _reshape(case: Case) -> Shape:
    x, out = case.array(0), case.claimed()
    if not same(x.element_count, out.element_count):
        broken("V2", f"reshape of {x} to {out}")
    return array(case.dtype(0), out.dims)


def _bitcast(case: Case) -> Shape:
    x, out = case.array(0), case.claimed()
    have, want = (dims_.make("mul", s.element_count, s.element_type.bits) for s in (x, out))
    check(same(have, want), "V2", f"bitcast of {x} to {out}")
    return out


def _bitcast_convert(case: Case) -> Shape:
    x, out = case.array(0), case.claimed()
    a, b, dims = x.element_type.bits, out.element_type.bits, x.dims
    if a > b:
        dims = (*dims, a // b)
    elif a < b:
        check(bool(dims) and same(dims[-1], b // a), "V10", f"bitcast-convert of {x} to {out.dtype}")
        dims = dims[:-1]
    return array(out.element_type, dims)


def _transpose(case: Case) -> Shape:
    x, order = case.array(0), case.attrs["dimensions"]
    check(len(order) == x.rank and distinct(order, x.rank), "V3", f"transpose of {x} by {order}")
    return array(case.dtype(0), tuple(x.dims[d] for d in order))


def _reverse(case: Case) -> Shape:
    x = case.array(0)
    check(distinct(case.attrs["dimensions"], x.rank), "V8", f"reverse of {x} in {case.attrs['dimensions']}")
    return array(case.dtype(0), x.dims)


def _iota(case: Case) -> Shape:
    out = case.claimed()
    check(0 <= case.attrs["iota_dimension"] < out.rank, "V8", f"iota of {out} in {case.attrs['iota_dimension']}")
    return array(out.dtype, out.dims) if out.dtype else out


def slice_size(start: Dim, limit: Dim, stride: int) -> Dim:
    """Elements of [start:limit:stride]."""
    span = dims_.make("add", limit, dims_.make("mul", start, -1))
    return dims_.make("floordiv", dims_.make("add", span, stride - 1), stride)


def _slice(case: Case) -> Shape:
    x, rows = case.array(0), case.attrs["slice"]
    fits = len(rows) == x.rank and all(fits_in(a, b) and fits_in(b, d) and c > 0 for (a, b, c), d in zip(rows, x.dims))
    check(fits, "V4", f"slice of {x} by {rows}")
    return array(case.dtype(0), tuple(slice_size(*row) for row in rows))


def padded_size(size: Dim, low: Dim, high: Dim, interior: int) -> Dim:
    """The size after pad: low + size + (size-1)*interior + high."""
    total = dims_.make("add", dims_.make("add", size, low), high)
    if interior == 0:
        return total
    gaps = dims_.make("mul", dims_.make("max", dims_.make("add", size, -1), 0), interior)
    return dims_.make("add", total, gaps)


def _pad(case: Case) -> Shape:
    x, rows = case.array(0), case.attrs["padding"]
    scalar = case.array(1).rank == 0 and case.dtype(1) == case.dtype(0)
    check(
        len(rows) == x.rank and all(r[2] >= 0 for r in rows) and scalar,
        "V5",
        f"pad of {x} with {case.array(1)} by {rows}",
    )
    return array(case.dtype(0), tuple(padded_size(d, *row) for d, row in zip(x.dims, rows)))


def _concatenate(case: Case) -> Shape:
    (axis,) = case.attrs["dimensions"]
    first, total = case.array(0), case.array(0)
    check(0 <= axis < first.rank, "V6", f"concatenate of {first} in {axis}")
    size: Dim = 0
    for i in range(len(case.operands)):
        x = case.array(i)
        fits = (
            x.rank == first.rank
            and x.dtype == first.dtype
            and all(same(a, b) for d, (a, b) in enumerate(zip(x.dims, first.dims)) if d != axis)
        )
        check(fits, "V6", f"concatenate of {first} and {x} in {axis}")
        size = dims_.make("add", size, x.dims[axis])
    return array(case.dtype(0), (*total.dims[:axis], size, *total.dims[axis + 1 :]))


def _check_indices(case: Case, first: int, rank: int) -> None:
    indices = case.operands[first:]
    fits = len(indices) == rank and all(i.is_array and i.rank == 0 and i.dtype and i.dtype.is_integer for i in indices)
    check(fits, "V7", f"{case.opcode} has indices ({', '.join(map(str, indices))}) for rank {rank}")


def _dynamic_slice(case: Case) -> Shape:
    x, sizes = case.array(0), case.attrs["dynamic_slice_sizes"]
    fits = len(sizes) == x.rank and all(map(fits_in, sizes, x.dims))
    check(fits, "V7", f"dynamic-slice of {x} to {sizes}")
    _check_indices(case, 1, x.rank)
    return array(case.dtype(0), tuple(sizes))


def _dynamic_update_slice(case: Case) -> Shape:
    x, update = case.array(0), case.array(1)
    fits = update.rank == x.rank and update.dtype == x.dtype and all(map(fits_in, update.dims, x.dims))
    check(fits, "V7", f"dynamic-update-slice of {x} by {update}")
    _check_indices(case, 2, x.rank)
    return array(case.dtype(0), x.dims)


def without(dims: tuple[Dim, ...], where: int) -> tuple[Dim, ...]:
    """`dims` without the one at `where` (which may be one past the end)."""
    return tuple(d for i, d in enumerate(dims) if i != where)


def _gather(case: Case) -> Shape:
    x, indices, a = case.array(0), case.array(1), case.attrs
    sizes, dropped = a["slice_sizes"], {*a["collapsed_slice_dims"], *a["operand_batching_dims"]}
    batch = without(indices.dims, a["index_vector_dim"])
    window = [s for i, s in enumerate(sizes) if i not in dropped]
    rank = len(batch) + len(window)
    vector = indices.dims[a["index_vector_dim"]] if a["index_vector_dim"] < indices.rank else 1
    fits = (
        len(sizes) == x.rank
        and len(a["offset_dims"]) == len(window)
        and distinct(a["offset_dims"], rank)
        and distinct(a["start_index_map"], x.rank)
        and same(vector, len(a["start_index_map"]))
        and all(map(fits_in, sizes, x.dims))
        and len(a["operand_batching_dims"]) == len(a["start_indices_batching_dims"])
    )
    check(fits, "V9", f"gather of {x} at {indices} with {dict(a)}")
    take, rest = iter(window), iter(batch)
    return array(case.dtype(0), tuple(next(take) if i in a["offset_dims"] else next(rest) for i in range(rank)))


RULES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "dynamic-reshape": _reshape,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "transpose": _transpose,
    "reverse": _reverse,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
}
