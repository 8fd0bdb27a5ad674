"""Literals that are handed to loops, branches and functions (tfxla_cluster.dynamic.handing), through `unify`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.dynamic.test_unify import check_at, floats, lowered, misfit, unified
from tfxla_cluster.dynamic import handing, prove
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.dtype import F32, PRED, S32
from tfxla_cluster.ir.node import Computation, Instr
from tfxla_cluster.ir.shape import Shape, array, tuple_of

SIZES, OTHERS = ((6,), (11,), (7,)), ((2,), (29,), (64,))
Body = Callable[[Builder, int], list[Instr]]


def drawn(n: int, *dims: int) -> np.ndarray:
    return np.random.default_rng((n, 3)).integers(-9, 9, dims).astype(np.float32)


def of_state(state: tuple[Instr, ...]) -> Shape:
    return tuple_of(*(part.shape for part in state))


def _less(n: int, state: tuple[Instr, ...]) -> Computation:
    """Of a state whose first element counts: as often as no expression says."""
    c, most = Builder("condition"), int(np.random.default_rng(n).integers(5))
    return c.build(c.compare(c.get_tuple_element(c.parameter(of_state(state)), 0), c.constant(most), "LT"))


def _counted(name: str, state: tuple[Instr, ...], literal: np.ndarray) -> Computation:
    """(i, x) -> (i + 1, x + literal)"""
    c = Builder(name)
    held = c.parameter(of_state(state))
    value = c.add(c.get_tuple_element(held, 1), c.constant(literal))
    return c.build(c.add(c.get_tuple_element(held, 0), c.constant(1)), value)


def loop(b: Builder, n: int) -> list[Instr]:
    """Condition and body have literals, of another loop in it too."""
    state = (b.constant(0), floats(b, n))
    inner = _counted("inner", state, drawn(n, n))
    body = Builder("body")
    held = body.parameter(of_state(state))
    start = body.tuple(body.constant(1), body.add(body.get_tuple_element(held, 1), body.constant(drawn(n + 1, n))))
    found = body.while_(start, _less(n + 2, state), inner)
    more = body.multiply(body.get_tuple_element(found, 1), body.constant(drawn(n + 2, n)))
    done = body.build(body.add(body.get_tuple_element(held, 0), body.constant(1)), more)
    result = b.while_(b.tuple(*state), _less(n, state), done)
    return [b.get_tuple_element(result, 1), b.constant(drawn(n, 3))]


def whole_state(b: Builder, n: int) -> list[Instr]:
    """A loop whose body hands its state on as it is, to a function with literals; the whole result is used."""
    state = (b.constant(0), floats(b, n))
    step, body = _counted("step", state, drawn(n, n)), Builder("body")
    done = body.build(body.call(step, body.parameter(of_state(state))))
    found = b.while_(b.tuple(*state), _less(9, state), done)
    again = b.call(step, found)
    return [b.get_tuple_element(again, 1), b.get_tuple_element(again, 0)]


def branches(b: Builder, n: int) -> list[Instr]:
    """One takes a tuple, one an array that it hands back, one nothing that it reads."""
    x = floats(b, n)

    def branch(name: str, argument: Instr, value: Callable[[Builder, Instr], Instr]) -> Computation:
        c = Builder(name)
        return c.build(value(c, c.parameter(argument.shape)))

    pair = b.tuple(x, b.constant(2.0))
    of = [
        branch("sum", pair, lambda c, p: c.add(c.get_tuple_element(p, 0), c.constant(drawn(n, n)))),
        branch("same", x, lambda c, p: p),
        branch("table", x, lambda c, p: c.constant(drawn(n + 1, n))),
    ]
    number = b.parameter(array(S32, ()))
    truth = b.parameter(array(PRED, ()))
    two = b.conditional(truth, [of[2], of[1]], [x, x])
    return [b.add(b.conditional(number, of, [pair, x, x]), two)]


def calls(b: Builder, n: int) -> list[Instr]:
    """A function that is called twice, once by another."""
    x = floats(b, n)
    c = Builder("leaf")
    leaf = c.build(c.add(c.parameter(x.shape), c.constant(drawn(n, n))))
    c = Builder("outer")
    outer = c.build(c.multiply(c.call(leaf, c.parameter(x.shape)), c.constant(drawn(n + 1, n))))
    return [b.call(leaf, x), b.call(outer, x), b.add(x, b.constant(drawn(n, n)))]


BODIES: dict[str, tuple[Body, int]] = {
    "loop": (loop, 6),
    "whole state": (whole_state, 1),
    "branches": (branches, 2),
    "calls": (calls, 3),
}


@pytest.mark.parametrize("name", BODIES)
def test_handed_to_what_is_called(name: str) -> None:
    body, count = BODIES[name]
    generic = unified(body, *SIZES, limits=Limits(hands=True))
    for sizes in (*SIZES, *OTHERS):
        check_at(body, generic, *sizes)
    own = lowered(body, 64)
    assert len(prove.handed_over(generic, own)) == count
    assert len(generic.module.entry.params) == len(own.module.entry.params) + count
    numbers = [p.attrs["parameter_number"] for comp in generic.module.computations() for p in comp.params]
    assert min(numbers) == 0
    names = [comp.name for comp in generic.module.computations()]
    assert len(set(names)) == len(names)


def test_not_to_what_is_called_otherwise() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        c = Builder("sum")
        x, y = c.parameter(array(F32, ())), c.parameter(array(F32, ()))
        total = c.build(c.add(c.add(x, y), c.constant(np.float32(np.exp(-n)))))
        return [b.reduce([floats(b, n)], [b.constant(0.0)], [0], total)]

    assert "a literal varies that follows no size" in misfit(body, *SIZES, limits=Limits(hands=True))


def test_what_has_no_literals_stays() -> None:
    def body(b: Builder, n: int) -> list[Instr]:
        return [b.reduce([floats(b, n)], [b.constant(0.0)], [0], scalar_computation("add", "f32"))]

    module = lowered(body, 5).module
    assert handing.threaded(module).entry is module.entry
    assert handing.stand_in(handing.stand_in(3)) == 3
