"""Control flow in control flow: loops, branches and calls inside each other, whose values are tuples of tuples."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Union

from tests.fuzz.draft import Draft
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.node import Computation, Instr

from .control import CALM, Body, like_state

Nest = Union[int, tuple["Nest", ...]]
DEEPEST = 3


def nesting(rng: random.Random, count: int) -> Nest:
    """The numbers below `count` in tuples of tuples; a tuple of one and an empty tuple may be among them."""

    def of(numbers: list[int]) -> Nest:
        if len(numbers) == 1 and rng.random() < 0.7:
            return numbers[0]
        cut = sorted(rng.randint(0, len(numbers)) for _ in range(rng.randint(0, 2)))
        parts = [numbers[a:b] for a, b in zip([0, *cut], [*cut, len(numbers)])]
        return tuple(of(p) if p and len(p) < len(numbers) else tuple(p) for p in parts)

    found = of(list(range(count)))
    return found if isinstance(found, tuple) else (found,)


def pack(b: Builder, values: Sequence[Instr], nest: Nest) -> Instr:
    return values[nest] if isinstance(nest, int) else b.tuple(*(pack(b, values, n) for n in nest))


def unpack(b: Builder, whole: Instr, nest: Nest, found: dict[int, Instr]) -> dict[int, Instr]:
    """Number -> its element of `whole`, added to `found`."""
    if isinstance(nest, int):
        found[nest] = whole
    else:
        for place, part in enumerate(nest):
            unpack(b, b.get_tuple_element(whole, place), part, found)
    return found


def _enter(d: Draft, name: str, state: Sequence[Instr], nest: Nest, depth: int) -> tuple[Draft, list[Instr], Instr]:
    """A draft of a computation of the packed state, after some steps; its state's elements, and its parameter."""
    inner = Body(d.rng, f"{name}_{next(d.names)}")
    inner.names = d.names
    parameter = inner.b.parameter(pack(d.b, state, nest).shape)
    found = unpack(inner.b, parameter, nest, {})
    held = [found[i] for i in range(len(state))]
    inner.values = list(held)
    for _ in range(d.rng.randint(0, 3)):
        if depth < DEEPEST and d.rng.random() < 0.4:
            d.rng.choice(NESTED)(inner, depth + 1)
        else:
            d.rng.choice(CALM)(inner)
    return inner, held, parameter


def _leave(inner: Draft, held: Sequence[Instr], parameter: Instr, nest: Nest) -> Computation:
    """The computation with new values in the places of the state's; at times the state as it came."""
    if inner.rng.random() < 0.15:
        return inner.b.build(parameter)
    return inner.b.build(pack(inner.b, [like_state(inner, old) for old in held], nest))


def _keep_all(d: Draft, whole: Instr, nest: Nest) -> None:
    for value in unpack(d.b, whole, nest, {}).values():
        d.keep(value)


def loop(d: Draft, depth: int = 0) -> None:
    state = [d.number(DTYPES["s32"], 0, 0), d.pick(), d.pick(), d.pick()]
    nest = nesting(d.rng, len(state))
    body, held, _ = _enter(d, "body", state, nest, depth)
    new = [like_state(body, old) for old in held[1:]]
    if held[1].shape == held[2].shape and d.rng.random() < 0.4:
        new[0], new[1] = new[1], new[0]
    counter = body.b.add(held[0], body.b.constant(1))
    done = body.b.build(pack(body.b, [counter, *new], nest))
    test = Builder(f"condition_{next(d.names)}")
    whole = test.parameter(pack(d.b, state, nest).shape)
    limit = test.constant(d.rng.choice((0, 1, 2, 3)))
    condition = test.build(test.compare(unpack(test, whole, nest, {})[0], limit, "LT"))
    _keep_all(d, d.b.while_(pack(d.b, state, nest), condition, done), nest)


def branch(d: Draft, depth: int = 0) -> None:
    state = [d.pick("s32", rank=0), d.pick(), d.pick()]
    nest, count = nesting(d.rng, len(state)), d.rng.choice((1, 2, 2, 3))
    branches = [_leave(*_enter(d, "branch", state, nest, depth), nest) for _ in range(count)]
    selector = state[0]
    if count == 2:
        selector = d.b.compare(state[0], d.number(DTYPES["s32"]), d.rng.choice(("LT", "EQ", "NE")))
    given = pack(d.b, state, nest)
    _keep_all(d, d.b.conditional(selector, branches, [given] * count), nest)


def call(d: Draft, depth: int = 0) -> None:
    state = [d.pick(), d.pick()]
    nest = nesting(d.rng, len(state))
    called = _leave(*_enter(d, "called", state, nest, depth), nest)
    given = pack(d.b, state, nest)
    for _ in range(d.rng.choice((1, 1, 2))):
        whole = d.b.call(called, given)
    _keep_all(d, whole, nest)


NESTED = (loop, branch, branch, call)
