"""Opcodes that combine elements with a called computation: reduce, windows, scatter, sort."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..node import Computation, Instr, WindowDim
from .core import Array, Evaluator, Meaning
from .move import batch_positions, index_vectors, pad_array

_PAIRWISE_LIMIT = 2048


def _combine(ev: Evaluator, comp: Computation, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    result = ev.apply(comp, [*left, *right])
    return [np.asarray(r) for r in result] if isinstance(result, tuple) else [np.asarray(result)]


def _reduce(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """Neighbours are combined until one is left, order kept; then the initial value from the left."""
    count, where = len(args) // 2, instr.attrs["dimensions"]
    comp, inits = instr.attrs["to_apply"], args[count:]
    kept = [i for i in range(args[0].ndim) if i not in where]
    combined = int(np.prod([args[0].shape[i] for i in where], dtype=np.int64))
    rows = [x.transpose(*where, *kept).reshape(combined, *[x.shape[i] for i in kept]) for x in args[:count]]
    while len(rows[0]) > 1:
        odd = [r[-1:] for r in rows] if len(rows[0]) % 2 else None
        even = len(rows[0]) // 2 * 2
        rows = _combine(ev, comp, [r[0:even:2] for r in rows], [r[1:even:2] for r in rows])
        rows = [np.concatenate([r, o]) for r, o in zip(rows, odd)] if odd else rows
    if len(rows[0]) == 0:
        outs = [np.full(r.shape[1:], i, r.dtype) for r, i in zip(rows, inits)]
    else:
        outs = _combine(ev, comp, inits, [r[0] for r in rows])
    return _outputs(instr, outs)


def _outputs(instr: Instr, outs: Sequence[Array]) -> Any:
    return tuple(outs) if instr.shape.is_tuple else outs[0]


def window_rows(ev: Evaluator, window: Sequence[WindowDim]) -> list[tuple[int, int, int]]:
    """Padding before, behind and between, as `pad_array` takes it."""
    return [(ev.number(w.pad_low), ev.number(w.pad_high), w.base_dilation - 1) for w in window]


def window_sizes(ev: Evaluator, window: Sequence[WindowDim]) -> list[int]:
    return [ev.number(w.size) for w in window]


def _window_slices(where: Sequence[int], window: Sequence[WindowDim], out: Sequence[int]) -> tuple[slice, ...]:
    """What position `where` of the window sees in the padded operand, for all windows."""
    return tuple(
        slice(k * w.window_dilation, k * w.window_dilation + (n - 1) * w.stride + 1 if n else 0, w.stride)
        for k, w, n in zip(where, window, out)
    )


def _counts(padded: Sequence[int], window: Sequence[WindowDim], sizes: Sequence[int]) -> list[int]:
    rows = zip(padded, window, sizes)
    return [max((n - (size - 1) * w.window_dilation - 1) // w.stride + 1, 0) for n, w, size in rows]


def _reduce_window(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """The initial value counts once a window: padding and holes of a dilated base are passed over."""
    count, window = len(args) // 2, instr.attrs["window"]
    rows, sizes = window_rows(ev, window), window_sizes(ev, window)
    padded = [pad_array(x, init, rows) for x, init in zip(args, args[count:])]
    inside = pad_array(np.ones(args[0].shape, bool), False, rows)
    out = _counts(padded[0].shape, window, sizes)
    held = [np.full(out, init, x.dtype) for x, init in zip(padded, args[count:])]
    for where in np.ndindex(*sizes):
        at = _window_slices(where, window, out)
        news = _combine(ev, instr.attrs["to_apply"], held, [x[at] for x in padded])
        held = [np.where(inside[at], new, old) for new, old in zip(news, held)]
    return _outputs(instr, held)


def _select_and_scatter(ev: Evaluator, instr: Instr, args: list[Any]) -> Array:
    """Each window selects one element of x (padding is never selected); source goes there."""
    x, source, init = args
    window = instr.attrs["window"]
    rows, sizes = window_rows(ev, window), window_sizes(ev, window)
    values = pad_array(x, init, rows)
    number_of = pad_array(np.arange(x.size).reshape(x.shape), -1, rows)  # of elements of x
    chosen = np.full(source.shape, -1)
    best = np.zeros(source.shape, x.dtype)
    positions = list(np.ndindex(*sizes))
    for number, where in enumerate(positions):
        at = _window_slices(where, window, source.shape)
        keep = (chosen >= 0) & ev.apply(instr.attrs["select"], [best, values[at]])
        take = (number_of[at] >= 0) & ~keep
        best, chosen = np.where(take, values[at], best), np.where(take, number, chosen)
    out = np.full(values.shape, init, x.dtype)
    for number, where in enumerate(positions):
        at = _window_slices(where, window, source.shape)
        summed = ev.apply(instr.attrs["scatter"], [out[at], source])
        out[at] = np.where(chosen == number, summed, out[at])
    result, inside = np.full(x.shape, init, x.dtype), number_of >= 0
    result.reshape(-1)[number_of[inside]] = out[inside]
    return result


def _scatter(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """In order of the indices; a window that does not lie inside is skipped."""
    count = (len(args) - 1) // 2
    a, comp = instr.attrs, instr.attrs["to_apply"]
    outs = [x.copy() for x in args[:count]]
    vectors = index_vectors(args[count], a["index_vector_dim"])
    window_dims = list(a["update_window_dims"])
    batch_dims = [i for i in range(args[count + 1].ndim) if i not in window_dims]
    updates = [u.transpose(*batch_dims, *window_dims) for u in args[count + 1 :]]
    dropped = (*a["inserted_window_dims"], *a["input_batching_dims"])
    batch_axes = batch_positions(a["scatter_indices_batching_dims"], a["index_vector_dim"])
    for where in np.ndindex(vectors.shape[:-1]):
        start = [0] * outs[0].ndim
        for axis, index in zip(a["scatter_dims_to_operand_dims"], vectors[where]):
            start[axis] = int(index)
        for axis, source in zip(a["input_batching_dims"], batch_axes):
            start[axis] = where[source]
        sizes = iter(updates[0][where].shape)
        size = [1 if axis in dropped else next(sizes) for axis in range(outs[0].ndim)]
        if any(s < 0 or s + n > d for s, n, d in zip(start, size, outs[0].shape)):
            continue
        at = tuple(slice(s, s + n) for s, n in zip(start, size))
        news = _combine(ev, comp, [o[at] for o in outs], [u[where].reshape(size) for u in updates])
        for out, new in zip(outs, news):
            out[at] = new
    return _outputs(instr, outs)


def _order(ev: Evaluator, comp: Computation, rows: Sequence[Array]) -> Array:
    """Positions of one line (the same position in all operands) in sorted order, stable."""
    count = len(rows[0])
    if count > _PAIRWISE_LIMIT:

        def compare(i: int, j: int) -> int:
            if ev.run(comp, [v for r in rows for v in (r[i], r[j])]):
                return -1
            return int(bool(ev.run(comp, [v for r in rows for v in (r[j], r[i])])))

        return np.array(sorted(range(count), key=functools.cmp_to_key(compare)))
    pairs = [v for r in rows for v in (np.repeat(r[:, None], count, 1), np.repeat(r[None, :], count, 0))]
    before = ev.apply(comp, pairs)  # before[i, j]: i goes before j
    ranks = before.sum(axis=0)
    return np.argsort(ranks, kind="stable")


def _sort(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    axis = instr.attrs["dimensions"][0]
    lines = [np.moveaxis(x, axis, -1) for x in args]
    outs = [np.empty(x.shape, x.dtype) for x in lines]
    for where in np.ndindex(lines[0].shape[:-1]):
        order = _order(ev, instr.attrs["to_apply"], [x[where] for x in lines])
        for out, x in zip(outs, lines):
            out[where] = x[where][order]
    return _outputs(instr, [np.moveaxis(o, -1, axis) for o in outs])


def _topk(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """Values and s32 positions of the k largest (smallest) along the last dimension; equal ones in order."""
    from .convert import total_order_key

    x, k = args[0], instr.attrs["k"]
    key = x.astype(np.int64) if x.dtype.kind in "iu" else total_order_key(x)
    order = np.argsort(~key if instr.attrs["largest"] else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


MEANINGS: dict[str, Meaning] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _topk,
}
