"""Why modules of one structure and of the same sizes of arguments are not one: the first number that differs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tfxla_cluster.dynamic import misfit, rows
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.shape import array


def _scalar(b: Builder, x: Instr, n: float) -> Instr:
    return b.multiply(x, b.broadcast(b.constant(n), [4]))


def _element(b: Builder, x: Instr, n: float) -> Instr:
    return b.add(x, b.constant(np.array([1.0, n, n, 0.0], np.float32)))


def _slice(b: Builder, x: Instr, n: float) -> Instr:
    return b.slice(x, [(int(n) - 2, int(n), 1)])


def _shape(b: Builder, x: Instr, n: float) -> Instr:
    return b.broadcast(b.constant(0.0), [int(n)])


CASES: dict[str, tuple[Callable[[Builder, Instr, float], Instr], tuple[float, float], str]] = {
    "constant": (
        _scalar,
        (4.0, 5.0),
        "%constant (constant): no size of an argument differs, but this constant does: 4.0, 5.0",
    ),
    "not a number": (_scalar, (4.0, float("nan")), "this constant does: 4.0, nan"),
    "element": (_element, (0.0, -0.0), "this constant does: 0.0 at [1], -0.0 at [1]"),
    "slice": (
        _slice,
        (2, 3),
        "%slice (slice): no size of an argument differs, but its slice does: ((0, 2, 1),), ((1, 3",
    ),
    "shape": (
        _shape,
        (2, 4),
        "%broadcast (broadcast): no size of an argument differs, but its shape does: f32[2], f32[4]",
    ),
    "nothing": (_scalar, (4.0, 4.0), "no size of an argument differs"),
}


def _module(make: Callable[[Builder, Instr, float], Instr], n: float) -> Module:
    b = Builder("m")
    return b.module(make(b, b.parameter(array(F32, (4,))), n))


@pytest.mark.parametrize("name", CASES)
def test_the_first_number_that_differs(name: str) -> None:
    make, numbers, said = CASES[name]
    found = str(misfit.numbers([rows.of_module(_module(make, n)) for n in numbers]))
    assert said in found
    assert (said == found) == (name in ("constant", "nothing", "shape"))
