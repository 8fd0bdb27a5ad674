"""Boxes of sizes: their ends, corners and guards, and windows that may leave a rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.dynamic.test_unify import Body, floats, unified
from tfxla_cluster.dynamic import boxes
from tfxla_cluster.dynamic.boxes import Box
from tfxla_cluster.dynamic.sources import Place
from tfxla_cluster.ir import guard
from tfxla_cluster.ir.builder import Builder, scalar_computation
from tfxla_cluster.ir.node import ConvDims, Instr, Module, WindowDim
from tfxla_cluster.ir.shape import Shape
from tfxla_cluster.size_spec import Size

ALL: tuple[Place, ...] = ((0, 0), (0, 1), (1, 0))


def _added(b: Builder, n: int, m: int) -> list[Instr]:
    x, y = floats(b, n, m), floats(b, n)
    return [b.add(x, b.broadcast(y, (n, m), (0,)))]


def _first(b: Builder, n: int, m: int) -> list[Instr]:
    """All but 5 rows: there have to be as many."""
    return [b.slice(floats(b, n, m), [(5, n, 1), (0, m, 1)])]


MODULE = unified(_added, (32, 10), (48, 14)).module


def around(n: int, m: int, said: dict[Place, Size] | None = None, module: Module = MODULE) -> Box:
    return boxes.around(module, shapes_of(n, m), ALL, said or {})


def shapes_of(n: int, m: int) -> list[Shape]:
    b = Builder("main")
    return [floats(b, n, m).shape, floats(b, n).shape]


@pytest.mark.parametrize("n", [2, 3, 7, 16, 33, 512])
def test_ends_are_an_odd_number_away(n: int) -> None:
    side = around(n, 10)[0]
    assert side.places == ((0, 0), (1, 0))
    assert 2 <= side.least <= n < 2 * n <= side.most
    assert (side.most - n) % 2 == 1
    assert n <= 3 or (side.least < n and (side.least - n) % 2 == 1)


def test_corners() -> None:
    box = around(32, 10)
    (low, high), (left, right) = ((side.least, side.most) for side in box)
    wanted = [{(0, 0): n, (1, 0): n, (0, 1): m} for n, m in itertools.product((low, high), (left, right))]
    assert list(boxes.corners(box)) == wanted
    assert boxes.has(box, shapes_of(low, right))
    assert not boxes.has(box, shapes_of(low - 1, right))
    assert not boxes.has(box, shapes_of(low, right + 1))


def test_guards_are_of_the_box() -> None:
    box = around(32, 10)
    assert boxes.guards(box) == tuple(guard.in_range(side.places[0], side.least, side.most) for side in box)
    own = guard.narrowed(guard.of_shapes([p.shape for p in MODULE.entry.params]), boxes.guards(box))
    ranges = [g for g in own if g.kind == "range"]
    assert {(g.subject, g.wanted) for g in ranges} == {(s.places[0], (s.least, s.most)) for s in box}


def test_ranges_that_are_said_or_needed() -> None:
    said = {(0, 0): Size(min=30, max=40), (0, 1): Size(min=10, max=10)}
    assert [(side.least, side.most) for side in around(32, 10, said)] == [(31, 32), (10, 10)]
    module = unified(_first, (32, 10), (48, 14)).module
    side = boxes.around(module, [shapes_of(8, 10)[0]], ALL, {})[0]
    assert side.least >= 5


def test_sizes_that_may_not_vary_are_no_sides() -> None:
    assert boxes.around(MODULE, shapes_of(32, 10), (), {}) == ()
    assert list(boxes.corners(())) == [{}]


IMAGE = ConvDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def _windows(*strides: int) -> Body:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        windows = tuple(WindowDim(3, stride) for stride in strides)
        return [b.reduce_window([floats(b, n, 6)], [b.constant(0.0)], windows, scalar_computation("add", "f32"))]

    return body


def _convolved(*strides: int) -> Body:
    def body(b: Builder, n: int, m: int) -> list[Instr]:
        windows = tuple(WindowDim(3, stride) for stride in strides)
        return [b.convolution(floats(b, 2, n, 9, 3), floats(b, 3, 3, 3, 4), window=windows, dim_labels=IMAGE)]

    return body


@pytest.mark.parametrize("made", [_windows, _convolved])
def test_windows_that_may_leave_a_rest(made: Callable[..., Body]) -> None:
    """Steps along a dimension that is a size, no others."""
    found = {strides: boxes.rounding(unified(made(*strides), (31, 2), (47, 2)).module) for strides in ((1, 2), (2, 1))}
    assert found[1, 2] is None
    assert found[2, 1] is not None
    assert boxes.rounding(MODULE) is None
