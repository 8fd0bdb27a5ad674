"""A value computed again elsewhere leaves its kernel with outputs of other sizes: then it stays where it was."""

from __future__ import annotations

import numpy as np

from tests.fuzz.modules import program
from tests.fuzz.test_fuzz import run
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text
from tfxla_cluster.ir.evaluator import evaluate


def test_outputs_of_several_sizes() -> None:
    """Variadic reduces over dimensions of 1 become elementwise on rows, with scalar comparisons beside."""
    made = program(223)
    for got, want in zip(run(made, True), evaluate(made.module, made.args)):
        np.testing.assert_array_equal(got, want)


def test_a_variadic_reduce_that_is_the_result() -> None:
    """Its elements are taken by nobody, so it joins no fusion."""
    module = text.parse("""HloModule m

least {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  l = pred[] compare(a, b), direction=LT
  v = f32[] select(l, a, b)
  w = s32[] select(l, i, j)
  ROOT r = (f32[], s32[]) tuple(v, w)
}

ENTRY e {
  x = f32[4,33] parameter(0)
  y = f32[4,33] negate(x)
  n = s32[4,33] iota(), iota_dimension=1
  big = f32[] constant(inf)
  zero = s32[] constant(0)
  ROOT r = (f32[4], s32[4]) reduce(y, n, big, zero), dimensions={1}, to_apply=least
}
""")
    x = np.random.RandomState(0).permutation(132).reshape(4, 33).astype(np.float32)
    executable = compiler.compile_module(module, cpu.this_machine()).executable
    values, places = executable.run([x])
    np.testing.assert_array_equal(values, -x.max(1))
    np.testing.assert_array_equal(places, x.argmax(1))
