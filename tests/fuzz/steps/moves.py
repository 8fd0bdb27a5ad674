"""Opcodes that move elements."""

from __future__ import annotations

import numpy as np

from tests.fuzz.draft import Draft, combiner
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.shape import array


def broadcast(d: Draft) -> None:
    x = d.pick()
    if x.shape.rank > 3:
        return
    at = d.rng.randint(0, x.shape.rank)
    dims = (*x.shape.dims[:at], d.rng.choice((1, 2, 5, 9)), *x.shape.dims[at:])
    d.keep(d.b.broadcast(x, dims, [a for a in range(len(dims)) if a != at]))


def reshape(d: Draft) -> None:
    x = d.pick()
    count = int(np.prod(x.shape.dims, dtype=int))
    dims: list[int] = []
    while count > 1 and len(dims) < 4 and d.rng.random() < 0.8:
        factor = d.rng.choice([f for f in range(1, count + 1) if count % f == 0])
        dims.append(factor)
        count //= factor
    dims += [count]
    d.rng.shuffle(dims)
    d.keep(d.b.reshape(x, dims))


def transpose(d: Draft) -> None:
    x = d.pick()
    order = list(range(x.shape.rank))
    d.rng.shuffle(order)
    d.keep(d.b.transpose(x, order))


def slice_(d: Draft) -> None:
    x = d.pick()
    rows = []
    for dim in x.shape.dims:
        start = d.rng.randint(0, dim)
        rows.append((start, d.rng.randint(start, dim), d.rng.choice((1, 1, 2, 3))))
    d.keep(d.b.slice(x, rows))


def pad(d: Draft) -> None:
    x = d.pick()
    if x.shape.rank == 0:
        return
    rows = []
    for dim in x.shape.dims:
        interior = d.rng.choice((0, 0, 1, 2))
        low, high = d.rng.randint(-1, 2), d.rng.randint(-1, 2)
        spread = dim + interior * max(dim - 1, 0)
        rows.append((low, max(high, -(spread + low)), interior) if spread + low >= 0 else (0, 0, 0))
    d.keep(d.b.pad(x, d.number(x.shape.element_type), rows))


def concatenate(d: Draft) -> None:
    x = d.pick()
    if x.shape.rank == 0:
        return
    axis = d.rng.randrange(x.shape.rank)
    other = list(x.shape.dims)
    other[axis] = d.rng.choice((0, 1, 3))
    parts = [x, d.like(x), d.parameter(x.shape.element_type.name, other)][: d.rng.randint(1, 3)]
    d.rng.shuffle(parts)
    d.keep(d.b.concatenate(parts, axis))


def reverse(d: Draft) -> None:
    x = d.pick()
    d.keep(d.b.reverse(x, [a for a in range(x.shape.rank) if d.rng.random() < 0.5]))


def iota(d: Draft) -> None:
    dims = d.shape(d.rng.randint(1, 3))
    d.keep(d.b.iota(array(DTYPES[d.rng.choice(("s32", "f32", "s64"))], dims), d.rng.randrange(len(dims))))


def _starts(d: Draft, rank: int) -> list[Instr]:
    return [d.parameter("s32", (), -2, 9) if d.rng.random() < 0.5 else d.number(DTYPES["s32"]) for _ in range(rank)]


def dynamic_slice(d: Draft) -> None:
    x = d.pick()
    sizes = [d.rng.randint(0, dim) for dim in x.shape.dims]
    d.keep(d.b.dynamic_slice(x, _starts(d, x.shape.rank), sizes))


def dynamic_update(d: Draft) -> None:
    x = d.pick()
    update = d.parameter(x.shape.element_type.name, [d.rng.randint(0, dim) for dim in x.shape.dims])
    d.keep(d.b.dynamic_update_slice(x, update, _starts(d, x.shape.rank)))


def _indices(d: Draft, axes: int) -> tuple[Instr, int]:
    """Start indices with a vector of `axes` numbers at the dimension given; some out of range."""
    dims = list(d.shape(d.rng.randint(0, 2)))
    at = d.rng.randint(0, len(dims))
    return d.parameter(d.rng.choice(("s32", "s64")), [*dims[:at], axes, *dims[at:]], -2, 9), at


def gather(d: Draft) -> None:
    x = d.pick(rank=d.rng.randint(1, 3), least=1)
    rank = x.shape.rank
    axes = d.rng.sample(range(rank), d.rng.randint(1, rank))
    sizes = [d.rng.choice((1, d.rng.randint(1, dim))) if a in axes else dim for a, dim in enumerate(x.shape.dims)]
    collapsed = [a for a in range(rank) if sizes[a] == 1 and d.rng.random() < 0.7]
    indices, at = _indices(d, len(axes))
    out = indices.shape.rank - 1 + rank - len(collapsed)
    offsets = sorted(d.rng.sample(range(out), rank - len(collapsed)))
    d.keep(
        d.b.gather(
            x,
            indices,
            offset_dims=tuple(offsets),
            collapsed_slice_dims=tuple(collapsed),
            start_index_map=tuple(axes),
            index_vector_dim=at,
            slice_sizes=tuple(sizes),
        )
    )


def scatter(d: Draft) -> None:
    x = d.pick("f32", "s32", rank=d.rng.randint(1, 3), least=1)
    rank, name = x.shape.rank, x.shape.element_type.name
    axes = d.rng.sample(range(rank), d.rng.randint(1, rank))
    inserted = [a for a in axes if d.rng.random() < 0.8]
    window = [d.rng.randint(1, dim) if a in axes else dim for a, dim in enumerate(x.shape.dims) if a not in inserted]
    indices, at = _indices(d, len(axes))
    batch = [n for i, n in enumerate(indices.shape.dims) if i != at]
    places = sorted(d.rng.sample(range(len(batch) + len(window)), len(window)))
    rest = iter(batch)
    sizes = iter(window)
    dims = [next(sizes) if i in places else next(rest) for i in range(len(batch) + len(window))]
    value = d.b.scatter(
        [x],
        indices,
        [d.parameter(name, dims)],
        combiner(d.rng.choice(("add", "maximum")), name),
        update_window_dims=tuple(places),
        inserted_window_dims=tuple(sorted(inserted)),
        scatter_dims_to_operand_dims=tuple(axes),
        index_vector_dim=at,
    )
    d.keep(d.limit(value))
