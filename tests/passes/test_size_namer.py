"""Sizes as scalars: arithmetic on them is that of size expressions, whose division rounds down."""

from __future__ import annotations

import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.ir import text

# How many windows of 3, a stride of 2 apart, fit into the first n of 8 elements.
WINDOWS = """
HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[8] parameter(0)
  n = s32[] parameter(1)
  z = f32[] constant(0)
  kept = f32[<=8] set-dimension-size(x, n), dimensions={0}
  sums = f32[<=3] reduce-window(kept, z), window={size=3 stride=2}, to_apply=add
  count = s32[] get-dimension-size(sums), dimensions={0}
  ROOT r = (f32[<=3], s32[]) tuple(sums, count)
}
"""


@pytest.mark.parametrize("size", range(9))
def test_division_of_a_negative_number_rounds_down(size: int) -> None:
    x = np.arange(8, dtype=np.float32)
    executable = compiler.compile_module(text.parse(WINDOWS), cpu.this_machine()).executable
    sums, count = executable.run([x, np.int32(size)])
    want = [x[at : at + 3].sum() for at in range(0, size - 2, 2)]
    assert sums.tolist() == want
    assert count == len(want)
