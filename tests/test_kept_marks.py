"""Whether marks on sizes are kept, by the module that is chosen and why it is the one of its own sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfxla_cluster import kept_marks
from tfxla_cluster.dynamic.families import Choice
from tfxla_cluster.dynamic.misfit import Misfit
from tfxla_cluster.errors import ConstraintError
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import Dim, sym
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array
from tfxla_cluster.size_spec import How, Mark, Size
from tfxla_cluster.tf.compiler_port import CompileRequest


def module(*shapes: tuple[Dim, ...]) -> Module:
    b = Builder("m")
    return b.module(*[b.add_op("negate", b.parameter(array(F32, shape))) for shape in shapes])


def request(marks: dict[tuple[int, int], Mark]) -> CompileRequest:
    inputs = ("argument 'x'", "argument 'y'")
    return CompileRequest("f", "must", inputs, {"f/neg": "prog.py:3"}, named=("x", "y"), marks=marks)


DYNAMIC = Mark(How.DYNAMIC)


@pytest.mark.parametrize(
    ("size", "mark", "wanted"),
    [
        (5, DYNAMIC, True),
        (1, DYNAMIC, False),
        (0, DYNAMIC, False),
        (5, Mark(How.MAYBE), False),
        (5, Mark(How.STATIC), False),
        (5, Mark(How.DYNAMIC, Size("n", 5, 5)), False),
        (5, Mark(How.DYNAMIC, Size("n", 6)), False),
        (5, Mark(How.DYNAMIC, Size("n", 2, 6)), True),
    ],
)
def test_which_have_to_vary(size: int, mark: Mark, wanted: bool) -> None:
    assert bool(kept_marks.must_vary(module((size, 3)).param_shapes, request({(0, 0): mark}))) is wanted


def test_a_mark_that_is_not_kept() -> None:
    instr: Any = SimpleNamespace(name="neg", opcode="negate", sources=frozenset({"f/neg"}))
    asked, apart = request({(0, 0): DYNAMIC}), Misfit(instr, "it is another")
    own, generic = module((5, 3)), module((sym("s0", 5, 2), 3))
    strict = kept_marks.must_vary(own.param_shapes, asked)
    kept_marks.keep_marks(strict, asked, Choice(own))
    made: Any = SimpleNamespace(module=generic)
    kept_marks.keep_marks(strict, asked, Choice(generic, made, apart=apart))
    with pytest.raises(
        ConstraintError, match=r"dimension 0 of argument 'x' is marked dynamic, but .* it is another"
    ) as told:
        kept_marks.keep_marks(strict, asked, Choice(own, apart=apart))
    assert told.value.where == "prog.py:3"


def test_ties() -> None:
    tied = request({(0, 0): Mark(How.DYNAMIC, Size("n")), (1, 1): Mark(How.DYNAMIC, Size("n"))})
    kept_marks.keep_ties(module((5, 3), (2, 5)).param_shapes, tied)
    with pytest.raises(
        ConstraintError, match="'n' is 5 by dimension 0 of argument 'x' and 6 by dimension 1 of argument 'y'"
    ):
        kept_marks.keep_ties(module((5, 3), (2, 6)).param_shapes, tied)


def test_which_predicates_are_true() -> None:
    said = Mark(How.DYNAMIC, Size(specialize_on=(lambda n: n == 8, lambda n: n % 4 == 0)))
    asked = request({(0, 0): said, (1, 1): said})
    assert kept_marks.special(module((8, 3), (2, 4)).param_shapes, asked) == "x:0 #0, x:0 #1, y:1 #1"
    assert kept_marks.special(module((5, 3), (2, 3)).param_shapes, asked) == ""
