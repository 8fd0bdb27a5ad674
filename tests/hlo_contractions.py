"""Cases of dot and convolution."""

from __future__ import annotations

from dataclasses import replace

from tests.fusion.attention_text import Attention, backward
from tests.hlo_case import EXACT, Case, combiner, module

# gelu and two factors of its gradient, between two products forward and one backward.
GELU_GRADIENT = """HloModule m
ENTRY e { x = bf16[13,7] parameter(0)
  w = bf16[7,10] parameter(1)
  b = bf16[10] parameter(2)
  v = bf16[10,7] parameter(3)
  half = bf16[] constant(0.5)
  halves = bf16[13,10] broadcast(half), dimensions={}
  one = bf16[] constant(1)
  ones = bf16[13,10] broadcast(one), dimensions={}
  bias = bf16[13,10] broadcast(b), dimensions={1}
  d = bf16[13,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = bf16[13,10] add(d, bias)
  cube = bf16[13,10] multiply(a, a)
  t = bf16[13,10] tanh(cube)
  up = bf16[13,10] add(ones, t)
  part = bf16[13,10] multiply(halves, a)
  y = bf16[13,10] multiply(part, up)
  square = bf16[13,10] multiply(t, t)
  slope = bf16[13,10] subtract(ones, square)
  out = bf16[13,7] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  back = bf16[13,10] dot(out, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  p = bf16[13,10] multiply(back, up)
  q = bf16[13,10] multiply(back, part)
  r = bf16[13,10] multiply(q, slope)
  s = bf16[13,10] add(p, r)
  ROOT z = (bf16[13,7], bf16[13,10]) tuple(out, s) }
"""


def attention() -> list[Case]:
    """Forward, and with the gradients of queries, keys and values."""
    trained = Attention(extra={"do": "$O"}, after=backward())
    small = (("attention", Attention()), ("attention-gradient", trained))
    halves = (("attention-bf16", Attention(dtype="bf16")), ("attention-gradient-bf16", replace(trained, dtype="bf16")))
    return [Case(name, a.text, 1 << 10, finite=True) for name, a in (*small, *halves)]


def contractions() -> list[Case]:
    cases = [*attention(), Case("gelu-gradient", GELU_GRADIENT, 1 << 10, finite=True)]
    for dtype in ("f32", "f64", "bf16", "f16", "s32", "c64"):
        ulps = 0 if dtype == "s32" else 256
        cases.append(
            Case(
                f"dot-{dtype}",
                module(
                    f"x = {dtype}[5,7] parameter(0)\n y = {dtype}[7,3] parameter(1)\n ROOT r = {dtype}[5,3] dot(x, y),"
                    " lhs_contracting_dims={1}, rhs_contracting_dims={0}"
                ),
                ulps,
                finite=True,
            )
        )
    cases.append(
        Case(
            "dot-batch",
            module(
                "x = f32[2,5,7] parameter(0)\n y = f32[3,7,2] parameter(1)\n ROOT r = f32[2,5,3] dot(x, y),"
                " lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
            ),
            64,
            finite=True,
        )
    )
    cases.append(
        Case(
            "dot-outer",
            module("x = f32[5] parameter(0)\n y = f32[3] parameter(1)\n ROOT r = f32[5,3] dot(x, y)"),
            2,
            finite=True,
        )
    )
    cases.append(
        Case(
            "dot-empty",
            module(
                "x = f32[5,0] parameter(0)\n y = f32[0,3] parameter(1)\n ROOT r = f32[5,3] dot(x, y),"
                " lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            ),
            EXACT,
        )
    )
    cases.append(
        Case(
            "dot-wider",
            module(
                "x = s8[5,7] parameter(0)\n y = s8[7,3] parameter(1)\n ROOT r = s32[5,3] dot(x, y),"
                " lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            ),
            EXACT,
        )
    )
    for dtype, wide in (("bf16", "w = f32[4,5,3] convert(d)\n"), ("f32", "")):
        summed = "w" if wide else "d"
        cases.append(
            Case(
                f"dot-summed-over-batches-{dtype}",
                module(
                    f"x = {dtype}[4,7,5] parameter(0)\n y = {dtype}[4,7,3] parameter(1)\n zero = f32[] constant(0)\n"
                    f" d = {dtype}[4,5,3] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},"
                    f" lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n {wide}"
                    f" s = f32[5,3] reduce({summed}, zero), dimensions={{0}}, to_apply=f\n"
                    f" ROOT r = {dtype}[5,3] convert(s)",
                    combiner("add", "f32"),
                ),
                ulps=256,
                finite=True,
            )
        )
    return cases


def convolutions() -> list[Case]:
    cases = []
    convs = {
        "plain": ("2,6,5,3", "3,2,3,4", "2,6,6,4", "size=3x2 pad=1_1x1_1", ""),
        "strided": ("2,7,8,3", "3,3,3,4", "2,4,4,4", "size=3x3 stride=2x2 pad=1_1x0_1", ""),
        "lhs-dilated": ("1,4,4,3", "3,3,3,2", "1,9,9,2", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2", ""),
        "rhs-dilated": ("1,9,9,2", "3,3,2,3", "1,5,5,3", "size=3x3 rhs_dilate=2x2", ""),
        "reversed": ("1,5,5,2", "3,3,2,3", "1,3,3,3", "size=3x3 rhs_reversal=1x1", ""),
        "depthwise": ("2,5,5,4", "3,3,1,8", "2,3,3,8", "size=3x3", ", feature_group_count=4"),
        "batch-groups": ("4,5,5,3", "3,3,3,6", "2,3,3,6", "size=3x3", ", batch_group_count=2"),
        "negative-pad": ("1,8,8,2", "3,3,2,3", "1,4,5,3", "size=3x3 pad=-1_-1x0_-1", ""),
    }
    for name, (x, k, out, window, extra) in convs.items():
        cases.append(
            Case(
                f"convolution-{name}",
                module(
                    f"x = f32[{x}] parameter(0)\n k = f32[{k}] parameter(1)\n ROOT r = f32[{out}] convolution(x, k),"
                    f" window={{{window}}}, dim_labels=b01f_01io->b01f{extra}"
                ),
                ulps=512,
                finite=True,
            )
        )
    cases.append(
        Case(
            "convolution-labels",
            module(
                "x = f32[3,2,6] parameter(0)\n k = f32[4,3,2] parameter(1)\n ROOT r = f32[5,4,2] convolution(x, k),"
                " window={size=2}, dim_labels=fb0_oi0->0fb"
            ),
            ulps=256,
            finite=True,
        )
    )
    return cases
