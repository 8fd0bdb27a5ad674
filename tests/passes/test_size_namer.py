"""Sizes as scalars: arithmetic on them is that of size expressions, whose division rounds down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import bounded
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Instr, Metadata
from tfxla_cluster.ir.shape import array
from tfxla_cluster.options import DEFAULT
from tfxla_cluster.passes import dce, size_losses, size_namer

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


# What is updated, and where, reads no array of the size: only its shape says that the size is to be known first.
PLACES = """
HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  places = s32[2,1] constant({{0}, {2}})
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  u = f32[2] parameter(2)
  kept = f32[<=2] set-dimension-size(u, n), dimensions={0}
  ROOT r = f32[4] scatter(x, places, kept), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}
"""

# All that reads the array of the size is simplified away.
ZEROS = """
HloModule m
ENTRY e {
  x = s32[4] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  zeros = s32[4] broadcast(zero), dimensions={}
  kept = s32[<=4] set-dimension-size(x, n), dimensions={0}
  ROOT r = s32[<=4] multiply(kept, zeros)
}
"""


@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("size", range(3))
def test_what_is_cut_to_a_size_comes_after_it(size: int, fusion: bool) -> None:
    options = replace(DEFAULT, fusion=fusion)
    executable = compiler.compile_module(text.parse(PLACES), cpu.this_machine(), options).executable
    (got,) = executable.run([np.zeros(4, np.float32), np.int32(size), np.array([5, 7], np.float32)])
    assert got.tolist() == [5 * (size > 0), 0, 7 * (size > 1), 0]


@pytest.mark.parametrize("fusion", [True, False])
def test_a_size_outlives_what_has_it(fusion: bool) -> None:
    options = replace(DEFAULT, fusion=fusion)
    executable = compiler.compile_module(text.parse(ZEROS), cpu.this_machine(), options).executable
    for size in range(5):
        (got,) = executable.run([np.arange(4, dtype=np.int32), np.int32(size)])
        assert got.tolist() == [0] * size


@pytest.mark.parametrize("op", ["Roll", "MatrixDiagV3", "AvgPool", "Reverse"])
def test_ops_that_take_the_bound_for_the_size(op: str) -> None:
    """Of a size that the run produces; AvgPool may have a batch of one."""
    module = text.parse(
        "HloModule m\nENTRY e {\n x = f32[4,3] parameter(0)\n n = s32[] parameter(1)\n"
        " kept = f32[<=4,3] set-dimension-size(x, n), dimensions={0}\n"
        f' ROOT r = f32[<=4,3] negate(kept), metadata={{op_type="{op}"}}\n}}\n'
    )
    if op in ("AvgPool", "Reverse"):
        size_namer.run(module)
    else:
        with pytest.raises(UnsupportedError, match=f"{op} of a size that is known only after it ran"):
            size_namer.run(module)


def test_a_mean_over_a_size_takes_its_bound() -> None:
    rows = array(F32, (3, bounded("n", 4)))
    x = Instr("x", "parameter", rows, attrs={"parameter_number": 0})
    size_losses.check(Instr("r", "negate", rows, (x,)))
    with pytest.raises(UnsupportedError, match="AvgPool of a size"):
        size_losses.check(Instr("r", "negate", rows, (x,), metadata=Metadata(op_type="AvgPool")))


# Two sizes of one bound, of which the second is made from an array of the first: `x[:2]`.
PART = """
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  two = s32[] constant(2)
  kept = f32[<=4] set-dimension-size(x, n), dimensions={0}
  part = f32[<=2] slice(kept), slice={[0:2]}
  moved = f32[<=2] reshape(part)
  least = s32[] minimum(n, two)
  ROOT r = f32[<=2] set-dimension-size(moved, least), dimensions={0}
}
"""


@pytest.mark.parametrize("size", range(5))
def test_a_size_known_by_its_bound_waits_for_no_other_of_that_bound(size: int) -> None:
    executable = compiler.compile_module(text.parse(PART), cpu.this_machine()).executable
    (got,) = executable.run([np.arange(4, dtype=np.float32), np.int32(size)])
    assert got.tolist() == [0, 1][: min(size, 2)]


# The loop carries rows of a size that XLA's text knows by its bound alone, and its body makes such a size of them.
ROWS = """
HloModule m
body {
  state = (s32[], f32[3,<=4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  rows = f32[3,<=4] get-tuple-element(state), index=1
  zero = s32[] constant(0)
  first = f32[1,4] dynamic-slice(rows, zero, zero), dynamic_slice_sizes={1,4}
  row = f32[1,<=4] set-dimension-size(first, i), dimensions={1}
  written = f32[3,<=4] dynamic-update-slice(rows, row, i, zero)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[3,<=4]) tuple(next, written)
}
condition {
  state = (s32[], f32[3,<=4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[3,4] parameter(0)
  n = s32[] parameter(1)
  rows = f32[3,<=4] set-dimension-size(x, n), dimensions={1}
  zero = s32[] constant(0)
  state = (s32[], f32[3,<=4]) tuple(zero, rows)
  ROOT r = (s32[], f32[3,<=4]) while(state), condition=condition, body=body
}
"""


# Two loops of one body, in which something changes: rows that have the bound's size are cut to what stands beside them.
SHARED = """
HloModule m
body {
  state = (s32[], f32[<=4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  rows = f32[<=4] get-tuple-element(state), index=1
  unit = f32[] constant(1)
  ones = f32[4] broadcast(unit), dimensions={}
  more = f32[<=4] add(rows, ones)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[<=4]) tuple(next, more)
}
condition {
  state = (s32[], f32[<=4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  rows = f32[<=4] set-dimension-size(x, n), dimensions={0}
  zero = s32[] constant(0)
  state = (s32[], f32[<=4]) tuple(zero, rows)
  first = (s32[], f32[<=4]) while(state), condition=condition, body=body
  so_far = f32[<=4] get-tuple-element(first), index=1
  again = (s32[], f32[<=4]) tuple(zero, so_far)
  ROOT r = (s32[], f32[<=4]) while(again), condition=condition, body=body
}
"""


def test_a_computation_that_two_call_is_made_once() -> None:
    module = text.parse(SHARED)
    made = size_namer.run(module)
    names = [comp.name for comp in made.computations()]
    assert sorted(names) == sorted(comp.name for comp in module.computations())
    executable = compiler.compile_module(module, cpu.this_machine()).executable
    for size in range(5):
        _, got = executable.run([np.arange(4, dtype=np.float32), np.int32(size)])
        assert got.tolist() == [6, 7, 8, 9][:size]


def test_rows_of_several_sizes_are_not_one_array() -> None:
    with pytest.raises(UnsupportedError, match="written into an array of another size"):
        size_namer.run(text.parse(ROWS))


def test_a_loop_does_not_wait_for_what_its_body_makes() -> None:
    module = dce.PASS.run(text.parse(ROWS))
    assert [c.name for c in module.computations()] == [c.name for c in text.parse(ROWS).computations()]
