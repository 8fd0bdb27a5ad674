"""Fusions around a dot or a convolution, as the planner makes them, against XLA on the unfused module."""

from __future__ import annotations

import numpy as np
import pytest

from tests import oracle
from tests.close import assert_near
from tests.codegen import run_kernel, run_unit
from tfxla_cluster.backends.cpu import Cpu
from tfxla_cluster.fusion.planner import fuse
from tfxla_cluster.ir import text

DENSE_GELU = """HloModule dense
ENTRY main {{
  x = f32[{m},{k}] parameter(0)
  w = f32[{k},{n}] parameter(1)
  b = f32[{n}] parameter(2)
  r = f32[{m},{n}] parameter(3)
  dot = f32[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  bb = f32[{m},{n}] broadcast(b), dimensions={{1}}
  z = f32[{m},{n}] add(dot, bb)
  half = f32[] constant(0.5)
  hb = f32[{m},{n}] broadcast(half), dimensions={{}}
  t = f32[{m},{n}] tanh(z)
  g = f32[{m},{n}] multiply(hb, t)
  ROOT out = f32[{m},{n}] add(g, r)
}}
"""

PROLOGUE = """HloModule prologue
ENTRY main {{
  x = f32[{m},{k}] parameter(0)
  s = f32[{k}] parameter(1)
  w = bf16[{n},{k}] parameter(2)
  sb = f32[{m},{k}] broadcast(s), dimensions={{1}}
  y = f32[{m},{k}] multiply(x, sb)
  wf = f32[{n},{k}] convert(w)
  wt = f32[{k},{n}] transpose(wf), dimensions={{1,0}}
  dot = f32[{m},{n}] dot(y, wt), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT out = bf16[{m},{n}] convert(dot)
}}
"""

BATCHED = """HloModule batched
ENTRY main {{
  q = f32[2,{m},3,{k}] parameter(0)
  k = f32[2,{n},3,{k}] parameter(1)
  mask = f32[2,{n}] parameter(2)
  dot = f32[2,3,{m},{n}] dot(q, k), lhs_batch_dims={{0,2}}, lhs_contracting_dims={{3}},
    rhs_batch_dims={{0,2}}, rhs_contracting_dims={{3}}
  mb = f32[2,3,{m},{n}] broadcast(mask), dimensions={{0,3}}
  ROOT out = f32[2,3,{m},{n}] add(dot, mb)
}}
"""

TWO_OUTPUTS = """HloModule two
ENTRY main {{
  x = f32[{m},{k}] parameter(0)
  w = f32[{k},{n}] parameter(1)
  zero = f32[] constant(0)
  zb = f32[{m},{n}] broadcast(zero), dimensions={{}}
  dot = f32[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  relu = f32[{m},{n}] maximum(dot, zb)
  pos = pred[{m},{n}] compare(dot, zb), direction=GT
  ROOT out = (f32[{m},{n}], pred[{m},{n}]) tuple(relu, pos)
}}
"""

CONV = """HloModule conv
ENTRY main {{
  x = f32[{b},{s},{s},{c}] parameter(0)
  scale = f32[{c}] parameter(1)
  w = f32[3,3,{c},{o}] parameter(2)
  bias = f32[{o}] parameter(3)
  sb = f32[{b},{s},{s},{c}] broadcast(scale), dimensions={{3}}
  y = f32[{b},{s},{s},{c}] multiply(x, sb)
  conv = f32[{b},{t},{t},{o}] convolution(y, w), window={{size=3x3 stride={stride}x{stride} pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f
  bb = f32[{b},{t},{t},{o}] broadcast(bias), dimensions={{3}}
  z = f32[{b},{t},{t},{o}] add(conv, bb)
  zero = f32[] constant(0)
  zb = f32[{b},{t},{t},{o}] broadcast(zero), dimensions={{}}
  ROOT out = f32[{b},{t},{t},{o}] maximum(z, zb)
}}
"""

DEPTHWISE = """HloModule depthwise
ENTRY main {{
  x = f32[2,7,7,{c}] parameter(0)
  w = f32[3,3,1,{c}] parameter(1)
  bias = f32[{c}] parameter(2)
  conv = f32[2,7,7,{c}] convolution(x, w), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f, feature_group_count={c}
  bb = f32[2,7,7,{c}] broadcast(bias), dimensions={{3}}
  ROOT out = f32[2,7,7,{c}] add(conv, bb)
}}
"""

GRADIENT = """HloModule gradient
ENTRY main {{
  g = f32[2,5,5,24] parameter(0)
  w = f32[3,3,8,24] parameter(1)
  x = f32[2,10,10,8] parameter(2)
  conv = f32[2,10,10,8] convolution(g, w), window={{size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1}},
    dim_labels=b01f_01oi->b01f
  zero = f32[] constant(0)
  zb = f32[2,10,10,8] broadcast(zero), dimensions={{}}
  p = pred[2,10,10,8] compare(x, zb), direction=GT
  ROOT out = f32[2,10,10,8] select(p, conv, zb)
}}
"""

SIZES = [{"m": m, "n": n, "k": k} for m, n, k in ((1, 7, 9), (33, 65, 40), (200, 48, 300), (17, 1, 5))]
CASES = [(t, s) for t in (DENSE_GELU, PROLOGUE, BATCHED, TWO_OUTPUTS) for s in SIZES] + [
    (CONV, {"b": 2, "s": 8, "t": 8, "c": 1, "o": 32, "stride": 1}),
    (CONV, {"b": 2, "s": 9, "t": 5, "c": 5, "o": 17, "stride": 2}),
    (DEPTHWISE, {"c": 12}),
    (GRADIENT, {}),
]


def random(shape) -> np.ndarray:
    return np.random.default_rng(sum(shape.dims) + 1).standard_normal(shape.dims).astype(shape.dtype.numpy)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].split()[1] + str(list(c[1].values())))
def test_fused_contractions(case) -> None:
    hlo = case[0].format(**case[1])
    module = text.parse(hlo)
    arrays = [random(p.shape) for p in module.entry.params]
    fused = fuse(module, Cpu(run_kernel.host_target()).machine, lambda _: None)
    units = [i for i in fused.entry.instrs if i.opcode in ("fusion", "dot", "convolution")]
    assert [i.opcode for i in units] == ["fusion"], fused.entry.instrs
    order = [arrays[int(o.attrs["parameter_number"])] for o in units[0].operands]
    got, want = run_unit.run(units[0], order), oracle.run(hlo, arrays)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want):
        tolerance = 1e-2 if ours.dtype.itemsize == 2 else 2e-6
        assert_near(ours, theirs, tolerance)
