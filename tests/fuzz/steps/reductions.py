"""Reductions, windows and contractions."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tests.fuzz.draft import SUMS, Draft, combiner
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Computation, ConvDims, Instr, WindowDim
from tfxla_cluster.ir.shape import array


def _identity(d: Draft, opcode: str, x: Instr) -> Instr:
    """The neutral element: XLA may use another initial value more than once."""
    dtype = x.shape.element_type
    if opcode in ("maximum", "minimum"):
        ends = (-np.inf, np.inf) if dtype.is_float else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
        return d.b.constant(np.array(ends[opcode == "minimum"]).astype(dtype.numpy), dtype)
    return d.b.constant(np.array(opcode == "and").astype(dtype.numpy), dtype)


def reduce(d: Draft) -> None:
    x = d.pick(*SUMS, "bf16", "f16", "pred")
    name = x.shape.element_type.name
    opcode = d.rng.choice(("add", "maximum", "minimum") if name in SUMS else ("maximum", "minimum"))
    if name == "pred":
        opcode = d.rng.choice(("and", "or"))
    axes = [a for a in range(x.shape.rank) if d.rng.random() < 0.5]
    value = d.b.reduce([x], [_identity(d, opcode, x)], axes, combiner(opcode, name))
    d.keep(d.limit(value))


@functools.lru_cache(None)
def _larger() -> Computation:
    """Of the larger value, of equal ones the smaller index; NaN is the largest."""
    b = Builder("argmax")
    x, i, y, j = (b.parameter(f"{t}[]") for t in ("f32", "s32", "f32", "s32"))
    greater = b.or_(b.compare(x, y, "GT"), b.compare(x, x, "NE"))
    first = b.and_(b.compare(x, y, "EQ"), b.compare(i, j, "LT"))
    both = b.and_(b.compare(x, x, "NE"), b.compare(y, y, "NE"))
    take = b.select(both, b.compare(i, j, "LT"), b.or_(greater, first))
    return b.build(b.select(take, x, y), b.select(take, i, j))


def argmax(d: Draft) -> None:
    x = d.pick("f32")
    if x.shape.rank == 0:
        return
    axis = d.rng.randrange(x.shape.rank)
    numbers = d.b.iota(array(DTYPES["s32"], x.shape.dims), axis)
    inits = [d.b.constant(np.float32(-np.inf)), d.b.constant(np.int32(2**31 - 1))]
    both = d.b.reduce([x, numbers], inits, [axis], _larger())
    d.keep(d.b.get_tuple_element(both, 0))
    d.keep(d.b.get_tuple_element(both, 1))


def _window(d: Draft, dims: Sequence[int], dilate: bool) -> list[WindowDim]:
    found = []
    for dim in dims:
        size = d.rng.randint(1, max(1, min(3, dim)))
        base = d.rng.choice((1, 1, 2)) if dilate and dim else 1
        found.append(
            WindowDim(
                size,
                d.rng.randint(1, 2),
                d.rng.randint(0, size - 1),
                d.rng.randint(0, size - 1),
                base,
                d.rng.choice((1, 1, 2)) if dilate and dim > 4 else 1,
            )
        )
    return found


def reduce_window(d: Draft) -> None:
    x = d.pick("f32", "s32", rank=d.rng.randint(1, 3))
    opcode = d.rng.choice(("add", "maximum", "minimum"))
    window = _window(d, x.shape.dims, True)
    name = x.shape.element_type.name
    d.keep(d.limit(d.b.reduce_window([x], [_identity(d, opcode, x)], window, combiner(opcode, name))))


def dot(d: Draft) -> None:
    x = d.pick(*SUMS)
    batch = [a for a in range(x.shape.rank) if d.rng.random() < 0.2]
    free = [a for a in range(x.shape.rank) if a not in batch]
    contracted = d.rng.sample(free, d.rng.randint(0, min(2, len(free))))
    dims = [x.shape.dims[a] for a in (*batch, *contracted)] + list(d.shape(d.rng.randint(0, 1)))
    order = list(range(len(dims)))
    d.rng.shuffle(order)
    y = d.parameter(x.shape.element_type.name, [dims[a] for a in order])
    d.keep(
        d.limit(
            d.b.dot(
                x,
                y,
                contracted,
                [order.index(len(batch) + i) for i in range(len(contracted))],
                batch,
                [order.index(i) for i in range(len(batch))],
            )
        )
    )


def convolution(d: Draft) -> None:
    spatial = d.rng.randint(1, 2)
    groups, features, outs = d.rng.choice((1, 1, 2)), d.rng.choice((1, 2, 3)), d.rng.choice((1, 2, 5))
    sizes = [d.rng.choice((3, 4, 7)) for _ in range(spatial)]
    orders = [list(range(spatial + 2)) for _ in range(3)]
    for order in orders:
        d.rng.shuffle(order)
    window = _window(d, sizes, True)
    x = d.parameter("f32", _placed([d.rng.choice((1, 2, 5)), features * groups, *sizes], orders[0]))
    dims = _placed([features, outs * groups, *(w.size for w in window)], orders[1])
    kernel = d.parameter("f32", dims, hostile=False)  # infinity times padding is NaN or nothing: both are done
    labels = ConvDims(*(n for o in orders for n in (o[0], o[1], tuple(o[2:]))))
    d.keep(d.limit(d.b.convolution(x, kernel, window, labels, feature_group_count=groups)))


def _placed(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """dims[i] at position order[i]."""
    return [dims[list(order).index(p)] for p in range(len(dims))]
