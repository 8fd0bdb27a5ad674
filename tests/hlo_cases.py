"""One table of small HLO modules over (nearly) all opcodes with hostile arguments.

Whatever gives HLO a meaning is tested against it: evaluator, passes, kernels.
"""

# ruff: noqa: E501  (lines of HLO text stay whole)
from __future__ import annotations

from tests.hlo_case import EXACT, Case, assert_close, combiner, module
from tests.hlo_contractions import contractions, convolutions
from tests.hlo_elementwise import converts, elementwise
from tests.hlo_structure import structure

__all__ = ["BY_NAME", "CASES", "EXACT", "Case", "assert_close", "combiner"]


def _reductions() -> list[Case]:
    cases = []
    for op, dtype, init in (
        ("add", "f32", "0"),
        ("maximum", "f32", "-inf"),
        ("minimum", "bf16", "inf"),
        ("add", "s32", "0"),
        ("multiply", "f64", "1"),
        ("and", "pred", "1"),
        ("add", "bf16", "0"),
    ):
        for dims, where, out in (("6,5,4", "1", "6,4"), ("6,5,4", "0,2", "5"), ("37", "0", ""), ("3,0", "1", "3")):
            cases.append(
                Case(
                    f"reduce-{op}-{dtype}-{dims}-{where}",
                    module(
                        f"x = {dtype}[{dims}] parameter(0)\n i = {dtype}[] constant({init})\n"
                        f" ROOT r = {dtype}[{out}] reduce(x, i), dimensions={{{where}}}, to_apply=f",
                        combiner(op, dtype),
                    ),
                    ulps=0 if dtype in ("s32", "pred") or op in ("maximum", "minimum") else 64,
                    finite=op == "multiply" or op == "add",
                )
            )
    cases.append(
        Case(
            "reduce-argmax",
            module(
                """
  x = f32[4,33] parameter(0)
  n = s32[4,33] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[4], s32[4]) reduce(x, n, low, zero), dimensions={1}, to_apply=g""",
                """g {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  ge = pred[] compare(a, b), direction=GE
  v = f32[] select(ge, a, b)
  eq = pred[] compare(a, b), direction=EQ
  m = s32[] minimum(i, j)
  k = s32[] select(ge, i, j)
  n = s32[] select(eq, m, k)
  ROOT t = (f32[], s32[]) tuple(v, n)
}
""",
            ),
            EXACT,
            finite=True,
        )
    )
    return cases


def _windows() -> list[Case]:
    cases = []
    window = (
        "size=1x3 stride=1x2 pad=0_0x1_1",
        "size=2x2 rhs_dilate=1x2",
        "size=2x3 lhs_dilate=2x1 pad=-1_1x0_2",
        "size=1x7 pad=0_0x6_0",
        "size=5x1 pad=5_0x0_0",
        "size=1x7 pad=0_0x0_7",
    )
    outs = ("5,4", "4,5", "8,7", "5,7", "6,7", "5,8")
    for w, out in zip(window, outs):
        for op, init in (("add", "0"), ("maximum", "-inf")):
            cases.append(
                Case(
                    f"reduce-window-{op}-{w}",
                    module(
                        f"x = f32[5,7] parameter(0)\n i = f32[] constant({init})\n"
                        f" ROOT r = f32[{out}] reduce-window(x, i), window={{{w}}}, to_apply=f",
                        combiner(op, "f32"),
                    ),
                    ulps=64,
                    finite=True,
                )
            )
    for op, dtype, init in (
        ("add", "s32", "3"),
        ("maximum", "f32", "0.25"),
        ("multiply", "f32", "-2"),
        ("or", "pred", "1"),
    ):
        for w, out in zip(window, outs):
            cases.append(
                Case(
                    f"reduce-window-{op}-{dtype}-from-{init}-{w}",
                    module(
                        f"x = {dtype}[5,7] parameter(0)\n i = {dtype}[] constant({init})\n"
                        f" ROOT r = {dtype}[{out}] reduce-window(x, i), window={{{w}}}, to_apply=f",
                        combiner(op, dtype),
                    ),
                    ulps=64,
                    finite=True,
                )
            )
    cases.append(_window_of_two())
    for w, out in (
        ("size=2x2 stride=2x2", "3,2"),
        ("size=3x3 stride=2x2 pad=1_1x1_0", "3,2"),
        ("size=2x2 pad=-1_1x0_-2", "5,2"),
    ):
        cases.append(
            Case(
                f"select-and-scatter-{w}",
                module(
                    f"x = f32[6,5] parameter(0)\n s = f32[{out}] parameter(1)\n i = f32[] constant(1.5)\n"
                    f" ROOT r = f32[6,5] select-and-scatter(x, s, i), window={{{w}}}, select=ge, scatter=f",
                    "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT r = pred[] compare(a, b), direction=GE\n}\n" + combiner("add", "f32"),
                ),
                ulps=8,
                finite=True,
            )
        )
    return cases


def _window_of_two() -> Case:
    """Sums and products of one window, from initial values that are not neutral."""
    return Case(
        "reduce-window-of-two",
        module(
            """
  x = f32[6,5] parameter(0)
  n = s32[6,5] parameter(1)
  i = f32[] constant(-1.5)
  j = s32[] constant(7)
  ROOT r = (f32[6,3], s32[6,3]) reduce-window(x, n, i, j), window={size=3x2 stride=1x2 pad=2_0x1_0}, to_apply=g""",
            """g {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  v = f32[] multiply(a, b)
  n = s32[] add(i, j)
  ROOT t = (f32[], s32[]) tuple(v, n)
}
""",
        ),
        ulps=64,
        finite=True,
    )


def _sorts() -> list[Case]:
    less = "lt {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n{1}  ROOT r = pred[] compare(a, b), direction=LT{2}\n}}\n"
    cases = [
        Case(
            "sort-rows",
            module(
                "x = f32[5,17] parameter(0)\n ROOT r = f32[5,17] sort(x), dimensions={1}, is_stable=true, to_apply=lt",
                less.format("f32", "", ", type=TOTALORDER"),
            ),
            EXACT,
        )
    ]
    cases.append(
        Case(
            "sort-columns-pairs",
            module(
                "x = s32[23,3] parameter(0)\n n = s32[23,3] iota(), iota_dimension=0\n"
                " ROOT r = (s32[23,3], s32[23,3]) sort(x, n), dimensions={0}, is_stable=true, to_apply=lt",
                less.format("s32", "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n", ""),
            ),
            EXACT,
            low=0,
            high=5,
        )
    )
    return cases


def _control() -> list[Case]:
    return [
        Case(
            "while",
            module(
                """
  x = f32[3] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[3]) tuple(zero, x)
  w = (s32[], f32[3]) while(t), condition=c, body=b
  ROOT r = f32[3] get-tuple-element(w), index=1""",
                """b {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[3] add(v, v)
  ROOT t = (s32[], f32[3]) tuple(j, d)
}
c {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
""",
            ),
            EXACT,
        )
    ]


def _calls() -> list[Case]:
    cases = []
    branch = "{0} {{\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] {1}(x)\n}}\n"
    negate, absolute = branch.format("n", "negate"), branch.format("a", "abs")
    cases.append(
        Case(
            "conditional-pred",
            module(
                """
  p = pred[] parameter(0)
  x = f32[3] parameter(1)
  ROOT r = f32[3] conditional(p, x, x), true_computation=n, false_computation=a""",
                negate + absolute,
            ),
            EXACT,
        )
    )
    cases.append(
        Case(
            "conditional-index",
            module(
                """
  i = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT r = f32[3] conditional(i, x, x, x), branch_computations={n, a, f}""",
                negate + absolute + branch.format("f", "floor"),
            ),
            EXACT,
            low=-1,
            high=4,
        )
    )
    cases.append(Case("call", module("x = f32[3] parameter(0)\n ROOT r = f32[3] call(x), to_apply=n", negate), EXACT))
    cases.append(
        Case(
            "map",
            module(
                "x = f32[3,5] parameter(0)\n y = f32[3,5] parameter(1)\n ROOT r = f32[3,5] map(x, y), dimensions={0,1}, to_apply=f",
                combiner("multiply", "f32"),
            ),
            1,
        )
    )
    return cases


def _random_bits() -> list[Case]:
    cases = []
    for algorithm, state in (("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2), ("rng_default", 3)):
        for dtype, dims in (
            ("u32", "7"),
            ("u32", "4,6"),
            ("u32", "3,5"),
            ("u32", ""),
            ("u64", "5"),
            ("u8", "9"),
            ("u16", "2,3"),
        ):
            cases.append(
                Case(
                    f"{algorithm}-{state}-{dtype}-{dims}",
                    module(
                        f"s = u64[{state}] parameter(0)\n ROOT r = (u64[{state}], {dtype}[{dims}]) rng-bit-generator(s),"
                        f" algorithm={algorithm}"
                    ),
                    EXACT,
                )
            )
    return cases


def _batch_norm_and_fft() -> list[Case]:
    cases = []
    x = "x = f32[4,3,5] parameter(0)\n a = f32[3] parameter(1)\n b = f32[3] parameter(2)\n"
    cases.append(
        Case(
            "batch-norm-training",
            module(
                x
                + " ROOT r = (f32[4,3,5], f32[3], f32[3]) batch-norm-training(x, a, b), epsilon=0.001, feature_index=1"
            ),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "fft",
            module("x = c64[3,8] parameter(0)\n ROOT r = c64[3,8] fft(x), fft_type=FFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "ifft2",
            module("x = c64[6,8] parameter(0)\n ROOT r = c64[6,8] fft(x), fft_type=IFFT, fft_length={6,8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "rfft",
            module("x = f32[3,8] parameter(0)\n ROOT r = c64[3,5] fft(x), fft_type=RFFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "irfft",
            module("x = c64[3,5] parameter(0)\n ROOT r = f32[3,8] fft(x), fft_type=IRFFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "rfft_of_none",
            module("x = f32[3,0] parameter(0)\n ROOT r = c64[3,0] fft(x), fft_type=RFFT, fft_length={0}"),
            512,
            finite=True,
        )
    )
    return cases


def _triangular_solves() -> list[Case]:
    text = (
        "a = f32[2,4,4] parameter(0)\n b = f32[2,4,3] parameter(1)\n i = f32[4,4] iota(), iota_dimension=0\n"
        " j = f32[4,4] iota(), iota_dimension=1\n e = pred[4,4] compare(i, j), direction=EQ\n"
        " ten = f32[] constant(10)\n t = f32[4,4] broadcast(ten), dimensions={}\n z = f32[] constant(0)\n"
        " zz = f32[4,4] broadcast(z), dimensions={}\n d = f32[4,4] select(e, t, zz)\n"
        " dd = f32[2,4,4] broadcast(d), dimensions={1,2}\n aa = f32[2,4,4] add(a, dd)\n"
        " ROOT r = f32[2,4,3] triangular-solve(aa, b), left_side=true"
    )
    return [
        Case(
            f"triangular-solve-{lower}-{transpose}",
            module(f"{text}, lower={lower}, transpose_a={transpose}"),
            512,
            finite=True,
        )
        for lower in ("true", "false")
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE")
    ]


CASES: list[Case] = [
    *elementwise(),
    *converts(),
    *structure(),
    *_reductions(),
    *_windows(),
    *_sorts(),
    *contractions(),
    *convolutions(),
    *_control(),
    *_calls(),
    *_random_bits(),
    *_batch_norm_and_fft(),
    *_triangular_solves(),
]
BY_NAME = {case.name: case for case in CASES}
