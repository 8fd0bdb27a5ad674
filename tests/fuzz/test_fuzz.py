"""Random modules through the whole compiler against the evaluator, and some against XLA too.

`TFXLA_FUZZ=COUNT[:FIRST]` runs that many programs, from number FIRST.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests import oracle
from tests.fuzz.modules import Program, nested_program, program
from tests.hlo_case import assert_close
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text, verifier
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions

COUNT, _, FIRST = os.environ.get("TFXLA_FUZZ", "80:0").partition(":")
NUMBERS = range(int(FIRST or 0), int(FIRST or 0) + int(COUNT))
WITH_XLA = 8  # one of so many


def run(made: Program, fusion: bool) -> list[np.ndarray]:
    options = CompileOptions(fusion=fusion)
    return compiler.compile_module(made.module, cpu.this_machine(), options).executable.run(made.args)


def check(got: list[np.ndarray], want: list[np.ndarray], made: Program, what: str) -> None:
    assert len(got) == len(want)
    for number, (one, other, ulps) in enumerate(zip(got, want, made.ulps)):
        name = f"{made.module.name}, output {number}, {what}"
        if ulps:
            assert_close(one, other, ulps, name)
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            wide = np.float64 if other.dtype.itemsize == 2 else other.dtype  # NumPy finds NaN of bf16 unequal
            np.testing.assert_array_equal(one.astype(wide), other.astype(wide), err_msg=name)


def ends_xla(module: Module) -> bool:
    """XLA's own evaluator ends the process (SIGFPE) on some integer divisions in computations that it folds."""
    inner = [i for comp in module.computations() if comp is not module.entry for i in comp.instrs]
    return any(i.opcode in ("divide", "remainder") and i.shape.element_type.is_integer for i in inner)


def compare(made: Program, number: int) -> None:
    verifier.verify(made.module)
    want = evaluate(made.module, made.args)
    try:
        if number % WITH_XLA == 0 and not ends_xla(made.module):
            peers = oracle.run(text.render(made.module), made.args, xla_cpu_enable_fast_min_max=False)
            check(want, peers, made, "evaluator against XLA")
        check(run(made, True), want, made, "fused")
        check(run(made, False), want, made, "not fused")
    except Exception:
        print(text.render(made.module))
        raise


@pytest.mark.parametrize("number", NUMBERS)
def test_program(number: int) -> None:
    compare(program(number), number)


@pytest.mark.parametrize("number", NUMBERS)
def test_nested_program(number: int) -> None:
    """Loops, branches and calls in each other, and tuples in tuples."""
    compare(nested_program(number), number)
