"""Shapes of blocks on a GPU: each knob gives the same numbers and another kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.codegen.triton import gpu_module
from tfxla_cluster import compiler
from tfxla_cluster.backends import gpu
from tfxla_cluster.codegen.kernel import key
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Choice, Given
from tfxla_cluster.codegen.kernel.lower.gpu import (
    lane_sort,
    radix_sort,
    reductions,
    scan,
    scan_columns,
    scatter,
    scatter_segments,
    shapes,
    sort,
    topk,
)
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.codegen.triton import workers
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Instr, Module

pytestmark = pytest.mark.skipif(not workers.usable(), reason="no usable Triton is installed")
PLUS = """plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
"""
# Name -> (HLO, the knobs of its root).
MODULES = {
    "elementwise": (
        """ENTRY e { x = f32[3,1500] parameter(0)
  ROOT r = f32[3,1500] tanh(x) }""",
        {"block", "warps"},
    ),
    "odd rows": (
        """odd { x = f32[50,14] parameter(0)
  y = f32[50,13] parameter(1)
  z = f32[] parameter(2)
  s = f32[50,13] slice(x), slice={[0:50],[1:14]}
  p = f32[50,16] pad(y, z), padding=0_0x1_2
  ROOT c = f32[50,29] concatenate(s, p), dimensions={1} }
ENTRY e { x = f32[50,14] parameter(0)
  y = f32[50,13] parameter(1)
  z = f32[] parameter(2)
  ROOT r = f32[50,29] fusion(x, y, z), kind=kLoop, calls=odd }""",
        {"block", "flat", "warps"},
    ),
    "odd rows of three loops": (
        """ENTRY e { x = f32[7,9] parameter(0)
  ROOT r = f32[7,11,9] broadcast(x), dimensions={0,2} }""",
        {"block", "flat", "warps"},
    ),
    "transpose": (
        """ENTRY e { x = f32[70,90] parameter(0)
  ROOT r = f32[90,70] transpose(x), dimensions={1,0} }""",
        {"rows", "columns", "warps"},
    ),
    "rows": (
        """ENTRY e { x = f32[9,60] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[9] reduce(x, zero), dimensions={1}, to_apply=plus }""",
        {"rows", "warps"},
    ),
    "pieces of rows": (
        """norm { x = f32[9,48] parameter(0)
  zero = f32[] constant(0)
  s = f32[9] reduce(x, zero), dimensions={1}, to_apply=plus
  b = f32[9,48] broadcast(s), dimensions={0}
  d = f32[9,48] subtract(x, b)
  q = f32[9,48] multiply(d, d)
  t = f32[9] reduce(q, zero), dimensions={1}, to_apply=plus
  c = f32[9,48] broadcast(t), dimensions={0}
  n = f32[9,48] divide(d, c)
  ROOT r = (f32[9,48], f32[9]) tuple(n, t) }
ENTRY e { x = f32[9,48] parameter(0)
  ROOT r = (f32[9,48], f32[9]) fusion(x), kind=kLoop, calls=norm }""",
        {"rows", "pieces", "warps"},
    ),
    "long rows": (
        """ENTRY e { x = f32[2,300] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[2] reduce(x, zero), dimensions={1}, to_apply=plus }""",
        {"block", "warps", "programs"},
    ),
    "columns": (
        """ENTRY e { x = f32[40,40] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[40] reduce(x, zero), dimensions={0}, to_apply=plus }""",
        {"columns", "depth", "warps", "programs"},
    ),
    "sort": (
        """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[60] parameter(0)
  ROOT r = f32[60] sort(x), dimensions={0}, is_stable=true, to_apply=less }""",
        {"radix", "digit", "block", "warps"},
    ),
    "sort in lanes": (
        """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[70,12] parameter(0)
  ROOT r = f32[70,12] sort(x), dimensions={1}, is_stable=true, to_apply=less }""",
        {"of_a_warp"},
    ),
    "scan": (
        """ENTRY e { x = f32[90] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[90] reduce-window(x, zero), window={size=90 pad=89_0}, to_apply=plus }""",
        {"block"},
    ),
    "scan of columns": (
        """ENTRY e { x = f32[50,7] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[50,7] reduce-window(x, zero), window={size=50x1 pad=49_0x0_0}, to_apply=plus }""",
        {"columns", "programs"},
    ),
    "topk": (
        """ENTRY e { x = f32[3,80] parameter(0)
  ROOT r = (f32[3,4], s32[3,4]) topk(x), k=4, largest=true }""",
        {"held"},
    ),
    "scatter": (
        """ENTRY e { x = f32[40,5] parameter(0)
  u = f32[50,5] parameter(1)
  n = s32[50,1] iota(), iota_dimension=0
  k = s32[] constant(5)
  m = s32[50,1] broadcast(k), dimensions={}
  i = s32[50,1] and(n, m)
  ROOT r = f32[40,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus }""",
        {"digit", "block", "warps", "chunk", "lanes"},
    ),
}
# So that small arrays take every way: Triton's interpreter is slow.
SMALL = {
    shapes: {
        "RESIDENT": 64,
        "LEAST_PIECE": 16,
        "ROWS_BLOCK": 256,
        "LOOPED": 32,
        "LOOPS": (16, 64),
        "COLUMNS": 16,
        "COLUMN_WIDTHS": (8, 32),
        "COLUMN_ROWS": 8,
        "COLUMN_DEPTHS": (4, 16),
    },
    sort: {"ONE_RUN": 16, "RUN": 8, "SEVERAL": 64, "BLOCK": 16, "RADIX_LENGTH": 20},
    radix_sort: {"BLOCK": 32, "BLOCKS": (16,), "DIGIT_BITS": 4, "DIGITS_BITS": (6,), "WIDE": 6},
    lane_sort: {"WIDEST": {32: 16, 64: 16}},
    topk: {"HELD": 32, "SOME_HELD": (16,)},
    scan: {"BLOCK": 16, "BLOCKS": (8,)},
    scan_columns: {"LEAST": 6, "COLUMNS": 4, "WIDTHS": (8,), "TOGETHER": 3, "PROGRAMS": 24, "PROGRAM_COUNTS": (9,)},
    scatter: {"FEW": 8},
    scatter_segments: {"CHUNKS": (4, 8), "PROGRAMS": 100, "LANES": 4, "SOME_LANES": (2, 8)},
    reductions: {"SPLIT_WORK": 64, "PROGRAMS": 24, "PROGRAM_COUNTS": (9, 48)},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, values in SMALL.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def parsed(name: str) -> tuple[Module, Instr]:
    source = MODULES[name][0]
    module = text.parse(f"HloModule m\n{PLUS if 'plus' in source else ''}{source}")
    return module, module.entry.root


def alone(candidates: list[Choice]) -> Iterator[Choice]:
    """The default, and every choice that differs from it in one knob."""
    first = candidates[0]
    return (c for c in candidates if sum(c[n] != first[n] for n in first) <= 1)


@pytest.mark.parametrize("name", MODULES)
def test_every_knob_gives_the_same_numbers(name: str) -> None:
    module, instr = parsed(name)
    args = [np.asarray(np.random.default_rng(0).normal(size=p.shape.dims), np.float32) for p in module.entry.params]
    want = evaluate(module, args)
    found = gpu.described().candidates(instr)
    assert set(found[0]) == MODULES[name][1]
    for choice in alone(found):
        made = compiler.compile_module(module, gpu_module.Interpreted(), choices=Given(instr.name, choice))
        for got, one in zip(made.executable.run(args), want, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-5, atol=1e-4, err_msg=repr(choice))


def form(instr: Instr, choice: Choice) -> list[tuple[str, int, Dim]]:
    """What of its kernels a choice can change."""
    steps = [s.kernel for s in gpu.described().lower(instr, choice).steps if isinstance(s, UnitKernel)]
    return [(key.key(kernel), kernel.warps, kernel.tasks) for kernel in steps]


@pytest.mark.parametrize("name", MODULES)
def test_a_knob_is_another_kernel(name: str) -> None:
    _, instr = parsed(name)
    found = gpu.described().candidates(instr)
    first = found[0]
    assert form(instr, first) == form(instr, DEFAULT)
    for knob in first:
        others = [c for c in alone(found) if c[knob] != first[knob]]
        assert any(form(instr, c) != form(instr, first) for c in others), knob
