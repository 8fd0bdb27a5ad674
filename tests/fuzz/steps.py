"""What a random computation may do next: a function an opcode or family, in STEPS."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz.draft import SUMS, Draft
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Computation, ConvDims, Instr, WindowDim
from tfxla_cluster.ir.shape import array

combiner = functools.lru_cache(None)(scalar_computation)


# --- elementwise ---
def _binary(d: Draft) -> None:
    x = d.pick()
    kind, b = x.shape.element_type.kind, d.b
    names = ["add", "subtract", "multiply", "maximum", "minimum"]
    if kind in ("int", "uint"):
        names += [
            "and",
            "or",
            "xor",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
            "divide",
            "remainder",
        ]
    if kind == "pred":
        names = ["and", "or", "xor", "maximum", "minimum"]
    name = d.rng.choice(names)
    pair = [x, d.like(x)]
    d.rng.shuffle(pair)
    value = b.add_op(name, *pair)
    d.keep(d.limit(value) if name in ("add", "subtract", "multiply", "shift-left") else value)


def _unary(d: Draft) -> None:
    x = d.pick()
    dtype = x.shape.element_type
    names = {
        "float": ["abs", "negate", "sign", "floor", "ceil", "round-nearest-even", "is-finite"],
        "pred": ["not"],
    }.get(dtype.kind, ["negate", "not", "popcnt", "count-leading-zeros", "abs", "sign"])
    if dtype.kind == "uint":
        names = ["not", "popcnt"]
    d.keep(d.b.add_op(d.rng.choice(names), x))


def _compare(d: Draft) -> None:
    x = d.pick()
    test = d.keep(d.b.compare(x, d.like(x), d.rng.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))))
    if d.rng.random() < 0.7:
        y = d.pick()
        chosen = test if y.shape.dims == x.shape.dims else d.parameter("pred", y.shape.dims)
        d.keep(d.b.select(chosen, y, d.like(y)))


def _convert(d: Draft) -> None:
    x = d.pick()
    d.keep(d.limit(d.b.convert(x, DTYPES[d.kind()])))


# --- moves ---
def _broadcast(d: Draft) -> None:
    x = d.pick()
    if x.shape.rank > 3:
        return
    at = d.rng.randint(0, x.shape.rank)
    dims = (*x.shape.dims[:at], d.rng.choice((1, 2, 5, 9)), *x.shape.dims[at:])
    d.keep(d.b.broadcast(x, dims, [a for a in range(len(dims)) if a != at]))


def _reshape(d: Draft) -> None:
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


def _transpose(d: Draft) -> None:
    x = d.pick()
    order = list(range(x.shape.rank))
    d.rng.shuffle(order)
    d.keep(d.b.transpose(x, order))


def _slice(d: Draft) -> None:
    x = d.pick()
    rows = []
    for dim in x.shape.dims:
        start = d.rng.randint(0, dim)
        rows.append((start, d.rng.randint(start, dim), d.rng.choice((1, 1, 2, 3))))
    d.keep(d.b.slice(x, rows))


def _pad(d: Draft) -> None:
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


def _concatenate(d: Draft) -> None:
    x = d.pick()
    if x.shape.rank == 0:
        return
    axis = d.rng.randrange(x.shape.rank)
    other = list(x.shape.dims)
    other[axis] = d.rng.choice((0, 1, 3))
    parts = [x, d.like(x), d.parameter(x.shape.element_type.name, other)][: d.rng.randint(1, 3)]
    d.rng.shuffle(parts)
    d.keep(d.b.concatenate(parts, axis))


def _reverse(d: Draft) -> None:
    x = d.pick()
    d.keep(d.b.reverse(x, [a for a in range(x.shape.rank) if d.rng.random() < 0.5]))


def _iota(d: Draft) -> None:
    dims = d.shape(d.rng.randint(1, 3))
    d.keep(d.b.iota(array(DTYPES[d.rng.choice(("s32", "f32", "s64"))], dims), d.rng.randrange(len(dims))))


def _starts(d: Draft, rank: int) -> list[Instr]:
    return [d.parameter("s32", (), -2, 9) if d.rng.random() < 0.5 else d.number(DTYPES["s32"]) for _ in range(rank)]


def _dynamic_slice(d: Draft) -> None:
    x = d.pick()
    sizes = [d.rng.randint(0, dim) for dim in x.shape.dims]
    d.keep(d.b.dynamic_slice(x, _starts(d, x.shape.rank), sizes))


def _dynamic_update(d: Draft) -> None:
    x = d.pick()
    update = d.parameter(x.shape.element_type.name, [d.rng.randint(0, dim) for dim in x.shape.dims])
    d.keep(d.b.dynamic_update_slice(x, update, _starts(d, x.shape.rank)))


def _indices(d: Draft, axes: int) -> tuple[Instr, int]:
    """Start indices with a vector of `axes` numbers at the dimension given; some out of range."""
    dims = list(d.shape(d.rng.randint(0, 2)))
    at = d.rng.randint(0, len(dims))
    return d.parameter(d.rng.choice(("s32", "s64")), [*dims[:at], axes, *dims[at:]], -2, 9), at


def _gather(d: Draft) -> None:
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


def _scatter(d: Draft) -> None:
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


# --- reductions, contractions ---
def _identity(d: Draft, opcode: str, x: Instr) -> Instr:
    """The neutral element: XLA may use another initial value more than once."""
    dtype = x.shape.element_type
    if opcode in ("maximum", "minimum"):
        ends = (-np.inf, np.inf) if dtype.is_float else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
        return d.b.constant(np.array(ends[opcode == "minimum"]).astype(dtype.numpy), dtype)
    return d.b.constant(np.array(opcode == "and").astype(dtype.numpy), dtype)


def _reduce(d: Draft) -> None:
    x = d.pick(*SUMS, "bf16", "f16", "pred")
    name = x.shape.element_type.name
    opcode = d.rng.choice(("add", "maximum", "minimum") if name in SUMS else ("maximum", "minimum"))
    if name == "pred":
        opcode = d.rng.choice(("and", "or"))
    axes = [a for a in range(x.shape.rank) if d.rng.random() < 0.5]
    value = d.b.reduce([x], [_identity(d, opcode, x)], axes, combiner(opcode, name))
    d.keep(d.limit(value))


@functools.lru_cache(None)
def argmax() -> Computation:
    """Of the larger value, of equal ones the smaller index; NaN is the largest."""
    b = Builder("argmax")
    x, i, y, j = (b.parameter(f"{t}[]") for t in ("f32", "s32", "f32", "s32"))
    greater = b.or_(b.compare(x, y, "GT"), b.compare(x, x, "NE"))
    first = b.and_(b.compare(x, y, "EQ"), b.compare(i, j, "LT"))
    both = b.and_(b.compare(x, x, "NE"), b.compare(y, y, "NE"))
    take = b.select(both, b.compare(i, j, "LT"), b.or_(greater, first))
    return b.build(b.select(take, x, y), b.select(take, i, j))


def _argmax(d: Draft) -> None:
    x = d.pick("f32")
    if x.shape.rank == 0:
        return
    axis = d.rng.randrange(x.shape.rank)
    numbers = d.b.iota(array(DTYPES["s32"], x.shape.dims), axis)
    inits = [d.b.constant(np.float32(-np.inf)), d.b.constant(np.int32(2**31 - 1))]
    both = d.b.reduce([x, numbers], inits, [axis], argmax())
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


def _reduce_window(d: Draft) -> None:
    x = d.pick("f32", "s32", rank=d.rng.randint(1, 3))
    opcode = d.rng.choice(("add", "maximum", "minimum"))
    window = _window(d, x.shape.dims, True)
    name = x.shape.element_type.name
    d.keep(d.limit(d.b.reduce_window([x], [_identity(d, opcode, x)], window, combiner(opcode, name))))


def _dot(d: Draft) -> None:
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


def _convolution(d: Draft) -> None:
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


# --- sort, control ---
def _sort(d: Draft) -> None:
    x = d.pick("s32", "s64", "u8")
    if x.shape.rank == 0:
        return
    name = x.shape.element_type.name
    b = Builder(f"before_{next(d.names)}")
    first, second = b.parameter(f"{name}[]"), b.parameter(f"{name}[]")
    b.parameter("f32[]"), b.parameter("f32[]")
    less = b.build(b.compare(first, second, d.rng.choice(("LT", "GT"))))
    both = d.b.sort([x, d.parameter("f32", x.shape.dims)], d.rng.randrange(x.shape.rank), less, is_stable=True)
    d.keep(d.b.get_tuple_element(both, 0))
    d.keep(d.b.get_tuple_element(both, 1))


def _inner(d: Draft, name: str, state: Sequence[Instr], steps: int) -> tuple[Draft, Instr, list[Instr]]:
    """A draft of a computation of one tuple; it has no arguments of its own: constants stand for them."""
    inner = _Body(d.rng, f"{name}_{next(d.names)}")
    inner.names = d.names
    shape = d.b.tuple(*state).shape
    parameter = inner.b.parameter(shape)
    inner.values = [inner.b.get_tuple_element(parameter, i) for i in range(len(state))]
    held = list(inner.values)
    for _ in range(steps):
        _INNER[d.rng.randrange(len(_INNER))](inner)
    return inner, parameter, held


class _Body(Draft):
    def parameter(self, name: str, dims: Sequence[int], low: int = -4, high: int = 4, hostile: bool = True) -> Instr:
        return self.keep(self.b.constant(self._array(name, dims, low, high, hostile), DTYPES[name]))


def _like_state(inner: Draft, old: Instr) -> Instr:
    """A value of the shape of `old`: the last there is."""
    kind, dims = old.shape.element_type, old.shape.dims
    return [v for v in inner.values if (v.shape.element_type, v.shape.dims) == (kind, dims)][-1]


def _while(d: Draft) -> None:
    state = [d.number(DTYPES["s32"], 0, 0), d.pick(), d.pick()]
    body, _, held = _inner(d, "body", state, d.rng.randint(1, 5))
    counter = body.b.add(held[0], body.b.constant(1))
    new = [counter, *(_like_state(body, old) for old in held[1:])]
    if d.rng.random() < 0.3 and held[1].shape == held[2].shape:
        new[1], new[2] = new[2], new[1]
    test = Builder(f"condition_{next(d.names)}")
    parameter = test.parameter(d.b.tuple(*state).shape)
    limit = test.constant(d.rng.choice((0, 1, 3)))
    condition = test.build(test.compare(test.get_tuple_element(parameter, 0), limit, "LT"))
    loop = d.b.while_(d.b.tuple(*state), condition, body.b.build(*new))
    for i in range(3):
        d.keep(d.b.get_tuple_element(loop, i))


def _conditional(d: Draft) -> None:
    state = [d.pick(), d.pick()]
    branches = []
    for _ in range(d.rng.choice((2, 3))):
        inner, _, held = _inner(d, "branch", state, d.rng.randint(0, 4))
        branches.append(inner.b.build(*(_like_state(inner, old) for old in held)))
    if len(branches) == 2:
        selector = d.parameter("pred", ())
    else:
        selector = d.parameter("s32", (), -1, 4)
    chosen = d.b.conditional(selector, branches, [d.b.tuple(*state)] * len(branches))
    for i in range(2):
        d.keep(d.b.get_tuple_element(chosen, i))


STEPS: dict[str, Callable[[Draft], None]] = {
    name.strip("_"): fn
    for name, fn in list(globals().items())
    if fn
    in (
        _binary,
        _unary,
        _compare,
        _convert,
        _broadcast,
        _reshape,
        _transpose,
        _slice,
        _pad,
        _concatenate,
        _reverse,
        _iota,
        _dynamic_slice,
        _dynamic_update,
        _gather,
        _scatter,
        _reduce,
        _argmax,
        _reduce_window,
        _dot,
        _convolution,
        _sort,
        _while,
        _conditional,
    )
}
NAMES = (*STEPS, *("binary",) * 8, *("broadcast", "reduce", "unary", "compare") * 2)
_INNER = (_binary, _binary, _unary, _compare, _broadcast, _transpose, _slice, _reduce, _dynamic_update, _dynamic_slice)
