"""Sorts, loops and branches: steps that hold computations of other steps."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.draft import Draft, drawn_array
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Instr

from .elementwise import binary, compare, unary
from .moves import broadcast, dynamic_slice, dynamic_update, slice_, transpose
from .reductions import reduce

CALM = (binary, binary, unary, compare, broadcast, transpose, slice_, reduce, dynamic_update, dynamic_slice)


def sort(d: Draft) -> None:
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
    inner = Body(d.rng, f"{name}_{next(d.names)}")
    inner.names = d.names
    shape = d.b.tuple(*state).shape
    parameter = inner.b.parameter(shape)
    inner.values = [inner.b.get_tuple_element(parameter, i) for i in range(len(state))]
    held = list(inner.values)
    for _ in range(steps):
        CALM[d.rng.randrange(len(CALM))](inner)
    return inner, parameter, held


class Body(Draft):
    def parameter(self, name: str, dims: Sequence[int], low: int = -4, high: int = 4, hostile: bool = True) -> Instr:
        return self.keep(self.b.constant(drawn_array(self.rng, name, dims, low, high, hostile), DTYPES[name]))


def like_state(inner: Draft, old: Instr) -> Instr:
    """A value of the shape of `old`: the last there is."""
    kind, dims = old.shape.element_type, old.shape.dims
    return [v for v in inner.values if (v.shape.element_type, v.shape.dims) == (kind, dims)][-1]


def while_(d: Draft) -> None:
    state = [d.number(DTYPES["s32"], 0, 0), d.pick(), d.pick()]
    body, _, held = _inner(d, "body", state, d.rng.randint(1, 5))
    counter = body.b.add(held[0], body.b.constant(1))
    new = [counter, *(like_state(body, old) for old in held[1:])]
    if d.rng.random() < 0.3 and held[1].shape == held[2].shape:
        new[1], new[2] = new[2], new[1]
    test = Builder(f"condition_{next(d.names)}")
    parameter = test.parameter(d.b.tuple(*state).shape)
    limit = test.constant(d.rng.choice((0, 1, 3)))
    condition = test.build(test.compare(test.get_tuple_element(parameter, 0), limit, "LT"))
    loop = d.b.while_(d.b.tuple(*state), condition, body.b.build(*new))
    for i in range(3):
        d.keep(d.b.get_tuple_element(loop, i))


def conditional(d: Draft) -> None:
    state = [d.pick(), d.pick()]
    branches = []
    for _ in range(d.rng.choice((2, 3))):
        inner, _, held = _inner(d, "branch", state, d.rng.randint(0, 4))
        branches.append(inner.b.build(*(like_state(inner, old) for old in held)))
    if len(branches) == 2:
        selector = d.parameter("pred", ())
    else:
        selector = d.parameter("s32", (), -1, 4)
    chosen = d.b.conditional(selector, branches, [d.b.tuple(*state)] * len(branches))
    for i in range(2):
        d.keep(d.b.get_tuple_element(chosen, i))
