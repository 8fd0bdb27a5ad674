"""One table of small HLO modules over (nearly) all opcodes with hostile arguments.

Whatever gives HLO a meaning is tested against it: evaluator, passes, kernels. A case is
(name, HLO text, tolerance in units in the last place of the result's type, XLA options).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tfxla_cluster.ir import text as hlo_text
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.shape import Shape

Array = np.ndarray[Any, Any]
EXACT = 0


@dataclass(frozen=True)
class Case:
    """`ulps`: how far a float result may be from the oracle's; `low`, `high`: range of integer arguments."""

    name: str
    text: str
    ulps: int = 4
    low: int | None = None
    high: int | None = None
    finite: bool = False

    def args(self) -> list[Array]:
        """Arguments for the entry's parameters, the same at each call."""
        module = hlo_text.parse(self.text)
        seed = np.random.RandomState(zlib.crc32(self.name.encode()))
        return [argument(p.shape, seed, self) for p in module.entry.params]


_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, 1e4, -88.0]


def argument(shape: Shape, seed: np.random.RandomState, case: Case) -> Array:
    """An array of `shape`: special values first, random ones after."""
    dims, dtype = shape.sample_dims, shape.dtype
    assert dtype is not None
    count = int(np.prod(dims, dtype=int))
    if dtype.kind == "pred":
        return seed.rand(*dims) < 0.5 if dims else np.bool_(True)
    if dtype.is_integer:
        return np.asarray(_integers(count, dtype.name, seed, case).reshape(dims))
    values = seed.randn(count) * 2
    if not case.finite:
        values[: min(count, len(_SPECIAL))] = _SPECIAL[:count]
        seed.shuffle(values)
    if dtype.kind == "complex":
        values = values + 1j * seed.randn(count)
    with np.errstate(all="ignore"):
        return np.asarray(values.reshape(dims).astype(dtype.numpy))


def _integers(count: int, name: str, seed: np.random.RandomState, case: Case) -> Array:
    info = ml_dtypes.iinfo(DTYPES[name].numpy)
    low = info.min if case.low is None else case.low
    high = info.max if case.high is None else case.high
    values = [seed.randint(max(low, -40), min(high, 40) + 1) for _ in range(count)]
    special = [info.min, info.max, 0, -1 if info.min < 0 else 1, 1, 2] if case.low is None else []
    values[: min(count, len(special))] = special[:count]
    seed.shuffle(values)
    return np.array(values, DTYPES[name].numpy)


def _module(body: str, computations: str = "") -> str:
    return f"HloModule m\n\n{computations}\nENTRY main {{\n{body}\n}}\n"


def _unary(op: str, dtype: str, out: str | None = None, extra: str = "", dims: str = "33") -> str:
    out = out or dtype
    return _module(f"  x = {dtype}[{dims}] parameter(0)\n  ROOT r = {out}[{dims}] {op}(x){extra}")


def _binary(op: str, dtype: str, out: str | None = None, extra: str = "", dims: str = "67") -> str:
    return _module(
        f"  x = {dtype}[{dims}] parameter(0)\n  y = {dtype}[{dims}] parameter(1)\n"
        f"  ROOT r = {out or dtype}[{dims}] {op}(x, y){extra}"
    )


def combiner(op: str, dtype: str, name: str = "f") -> str:
    """The text of a computation of two scalars."""
    return (
        f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT r = {dtype}[] {op}(a, b)\n}}\n"
    )


def _elementwise() -> list[Case]:
    cases = []
    for op in [
        "cosine",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "rsqrt",
        "sine",
        "sqrt",
        "tan",
        "tanh",
        "cbrt",
        "negate",
        "abs",
        "sign",
        "ceil",
        "floor",
        "round-nearest-afz",
        "round-nearest-even",
        "erf",
    ]:
        for dtype in ("f32", "f64", "f16", "bf16"):
            cases.append(
                Case(
                    f"{op}-{dtype}",
                    _unary(op, dtype),
                    ulps=16 if dtype == "f32" else 64 if dtype == "f64" else 2,
                )
            )
    for op in ["abs", "negate", "sign", "not", "popcnt", "count-leading-zeros"]:
        for dtype in ("s8", "s16", "s32", "s64", "u8", "u32"):
            if not (dtype[0] == "u" and op in ("abs", "negate", "sign")):
                cases.append(Case(f"{op}-{dtype}", _unary(op, dtype), EXACT))
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"]:
        for dtype in ("f32", "f64", "bf16", "f16"):
            cases.append(
                Case(f"{op}-{dtype}", _binary(op, dtype), ulps=64 if op in ("power", "atan2") else 1)
            )
    for op in [
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "maximum",
        "minimum",
        "power",
        "and",
        "or",
        "xor",
        "shift-left",
        "shift-right-arithmetic",
        "shift-right-logical",
    ]:
        for dtype in ("s8", "s32", "s64", "u8", "u32", "u64"):
            # XLA takes a large unsigned exponent for a negative one, and large signed ones go wrong: no oracle there.
            bounds = (0 if dtype[0] == "u" else -7, 40) if op == "power" else (None, None)
            cases.append(Case(f"{op}-{dtype}", _binary(op, dtype), EXACT, *bounds))
    for op in ("and", "or", "xor"):
        cases.append(Case(f"{op}-pred", _binary(op, "pred"), EXACT))
    cases.append(Case("not-pred", _unary("not", "pred"), EXACT))
    cases.append(Case("is-finite-f32", _unary("is-finite", "f32", "pred"), EXACT))
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        for dtype in ("f32", "bf16", "s32", "u32", "pred"):
            cases.append(
                Case(
                    f"compare-{direction}-{dtype}",
                    _binary("compare", dtype, "pred", f", direction={direction}"),
                    EXACT,
                )
            )
    cases.append(
        Case("compare-total", _binary("compare", "f32", "pred", ", direction=LT, type=TOTALORDER"), EXACT)
    )
    cases += [
        Case(f"{op}-c64", _binary(op, "c64"), ulps=64, finite=True) for op in ("add", "multiply", "divide")
    ]
    cases += [
        Case(f"{op}-c64", _unary(op, "c64", "f32"), ulps=8, finite=True) for op in ("real", "imag", "abs")
    ]
    cases.append(Case("complex", _binary("complex", "f32", "c64"), EXACT))
    for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23)):
        cases.append(
            Case(
                f"reduce-precision-{e}-{m}",
                _unary("reduce-precision", "f32", extra=f", exponent_bits={e}, mantissa_bits={m}"),
                EXACT,
            )
        )
    cases.append(
        Case(
            "select",
            _module("""
  p = pred[7,3] parameter(0)
  x = f32[7,3] parameter(1)
  y = f32[7,3] parameter(2)
  ROOT r = f32[7,3] select(p, x, y)"""),
            EXACT,
        )
    )
    cases.append(
        Case(
            "clamp-scalar",
            _module("""
  x = f32[33] parameter(0)
  low = f32[] constant(-1)
  high = f32[] constant(1.5)
  ROOT r = f32[33] clamp(low, x, high)"""),
            EXACT,
        )
    )
    return cases


def _converts() -> list[Case]:
    names = ["pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
    cases = [
        Case(f"convert-{a}-{b}", _unary("convert", a, b, dims="41"), EXACT)
        for a in names
        for b in names
        if a != b
    ]
    small = ["f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4"]
    cases += [Case(f"convert-f32-{s}", _unary("convert", "f32", s, dims="41"), EXACT) for s in small]
    cases += [Case(f"convert-{s}-f32", _unary("convert", s, "f32", dims="41"), EXACT) for s in small]
    for a, b in (("f32", "s32"), ("s64", "f64"), ("u16", "bf16"), ("f16", "s16")):
        cases.append(Case(f"bitcast-convert-{a}-{b}", _unary("bitcast-convert", a, b), EXACT))
    cases.append(
        Case(
            "bitcast-convert-narrower",
            _module("""
  x = u32[5] parameter(0)
  ROOT r = u8[5,4] bitcast-convert(x)"""),
            EXACT,
        )
    )
    cases.append(
        Case(
            "bitcast-convert-wider",
            _module("""
  x = u8[5,8] parameter(0)
  ROOT r = f64[5] bitcast-convert(x)"""),
            EXACT,
        )
    )
    return cases


_MOVES = {
    "broadcast": "x = f32[3,5] parameter(0)\n ROOT r = f32[2,3,4,5] broadcast(x), dimensions={1,3}",
    "broadcast-scalar": "x = bf16[] parameter(0)\n ROOT r = bf16[3,0,2] broadcast(x), dimensions={}",
    "reshape": "x = f32[3,4] parameter(0)\n ROOT r = f32[2,1,6] reshape(x)",
    "transpose": "x = s32[2,3,5] parameter(0)\n ROOT r = s32[5,2,3] transpose(x), dimensions={2,0,1}",
    "reverse": "x = f32[3,4] parameter(0)\n ROOT r = f32[3,4] reverse(x), dimensions={1,0}",
    "slice": "x = f32[9,7] parameter(0)\n ROOT r = f32[4,3] slice(x), slice={[1:8:2], [4:7]}",
    "pad": "x = f32[3,4] parameter(0)\n v = f32[] parameter(1)\n ROOT r = f32[8,3] pad(x, v), padding=1_2_1x-1_0",
    "pad-negative": "x = f32[4,3] parameter(0)\n v = f32[] parameter(1)\n ROOT r = f32[5,7] pad(x, v), padding=-1_-1_1x2_2",
    "concatenate": "x = f32[2,3] parameter(0)\n y = f32[2,0] parameter(1)\n z = f32[2,5] parameter(2)\n"
    " ROOT r = f32[2,8] concatenate(x, y, z), dimensions={1}",
    "iota": "ROOT r = bf16[3,300] iota(), iota_dimension=1",
    "iota-pred": "ROOT r = s8[2,130] iota(), iota_dimension=1",
}
_GATHERS = {
    "dynamic-slice": "x = f32[5,7] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
    " ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}",
    "dynamic-update-slice": "x = f32[5,7] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] parameter(2)\n"
    " j = s32[] parameter(3)\n ROOT r = f32[5,7] dynamic-update-slice(x, u, i, j)",
    "gather-rows": "x = f32[6,4] parameter(0)\n i = s32[9] parameter(1)\n ROOT r = f32[9,4] gather(x, i),"
    " offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    "gather-windows": "x = f32[6,5,4] parameter(0)\n i = s32[2,7] parameter(1)\n ROOT r = f32[3,7,4] gather(x, i),"
    " offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={2,0}, index_vector_dim=0,"
    " slice_sizes={3,1,4}",
    "gather-batch": "x = f32[3,6,4] parameter(0)\n i = s32[3,2,1] parameter(1)\n ROOT r = f32[3,2,4] gather(x, i),"
    " offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0},"
    " start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,4}",
}


def _structure() -> list[Case]:
    cases = [Case(name, _module(body), EXACT) for name, body in _MOVES.items()]
    cases += [Case(name, _module(body), EXACT, low=-3, high=9) for name, body in _GATHERS.items()]
    for op in ("add", "minimum"):
        cases.append(
            Case(
                f"scatter-{op}",
                _module(
                    "x = f32[6,4] parameter(0)\n i = s32[9,1] parameter(1)\n u = f32[9,4] parameter(2)\n"
                    " ROOT r = f32[6,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
                    " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f",
                    combiner(op, "f32"),
                ),
                ulps=8,
                low=-2,
                high=8,
                finite=True,
            )
        )
    cases.append(
        Case(
            "scatter-windows",
            _module(
                "x = s32[6,5] parameter(0)\n i = s32[2,3] parameter(1)\n u = s32[3,2,3] parameter(2)\n"
                " ROOT r = s32[6,5] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},"
                " scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=f",
                combiner("add", "s32"),
            ),
            EXACT,
            low=-1,
            high=5,
        )
    )
    return cases


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
        for dims, where, out in (
            ("6,5,4", "1", "6,4"),
            ("6,5,4", "0,2", "5"),
            ("37", "0", ""),
            ("3,0", "1", "3"),
        ):
            cases.append(
                Case(
                    f"reduce-{op}-{dtype}-{dims}-{where}",
                    _module(
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
            _module(
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
    window = (
        "size=1x3 stride=1x2 pad=0_0x1_1",
        "size=2x2 rhs_dilate=1x2",
        "size=2x3 lhs_dilate=2x1 pad=-1_1x0_2",
        "size=1x7 pad=0_0x6_0",
    )
    for w, out in zip(window, ("5,4", "4,5", "8,7", "5,7")):
        for op, init in (("add", "0"), ("maximum", "-inf")):
            cases.append(
                Case(
                    f"reduce-window-{op}-{w}",
                    _module(
                        f"x = f32[5,7] parameter(0)\n i = f32[] constant({init})\n"
                        f" ROOT r = f32[{out}] reduce-window(x, i), window={{{w}}}, to_apply=f",
                        combiner(op, "f32"),
                    ),
                    ulps=64,
                    finite=True,
                )
            )
    for w, out in (("size=2x2 stride=2x2", "3,2"), ("size=3x3 stride=2x2 pad=1_1x1_0", "3,2")):
        cases.append(
            Case(
                f"select-and-scatter-{w}",
                _module(
                    f"x = f32[6,5] parameter(0)\n s = f32[{out}] parameter(1)\n i = f32[] constant(0)\n"
                    f" ROOT r = f32[6,5] select-and-scatter(x, s, i), window={{{w}}}, select=ge, scatter=f",
                    "ge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT r = pred[] compare(a, b), direction=GE\n}\n" + combiner("add", "f32"),
                ),
                ulps=8,
                finite=True,
            )
        )
    return cases


def _sorts() -> list[Case]:
    less = "lt {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n{1}  ROOT r = pred[] compare(a, b), direction=LT{2}\n}}\n"
    cases = [
        Case(
            "sort-rows",
            _module(
                "x = f32[5,17] parameter(0)\n ROOT r = f32[5,17] sort(x), dimensions={1}, is_stable=true, to_apply=lt",
                less.format("f32", "", ", type=TOTALORDER"),
            ),
            EXACT,
        )
    ]
    cases.append(
        Case(
            "sort-columns-pairs",
            _module(
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


def _contractions() -> list[Case]:
    cases = []
    for dtype in ("f32", "f64", "bf16", "f16", "s32", "c64"):
        ulps = 0 if dtype == "s32" else 256
        cases.append(
            Case(
                f"dot-{dtype}",
                _module(
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
            _module(
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
            _module("x = f32[5] parameter(0)\n y = f32[3] parameter(1)\n ROOT r = f32[5,3] dot(x, y)"),
            2,
            finite=True,
        )
    )
    cases.append(
        Case(
            "dot-empty",
            _module(
                "x = f32[5,0] parameter(0)\n y = f32[0,3] parameter(1)\n ROOT r = f32[5,3] dot(x, y),"
                " lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            ),
            EXACT,
        )
    )
    cases.append(
        Case(
            "dot-wider",
            _module(
                "x = s8[5,7] parameter(0)\n y = s8[7,3] parameter(1)\n ROOT r = s32[5,3] dot(x, y),"
                " lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            ),
            EXACT,
        )
    )
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
                _module(
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
            _module(
                "x = f32[3,2,6] parameter(0)\n k = f32[4,3,2] parameter(1)\n ROOT r = f32[5,4,2] convolution(x, k),"
                " window={size=2}, dim_labels=fb0_oi0->0fb"
            ),
            ulps=256,
            finite=True,
        )
    )
    return cases


def _control() -> list[Case]:
    cases = [
        Case(
            "while",
            _module(
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
    branch = "{0} {{\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] {1}(x)\n}}\n"
    negate, absolute = branch.format("n", "negate"), branch.format("a", "abs")
    cases.append(
        Case(
            "conditional-pred",
            _module(
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
            _module(
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
    cases.append(
        Case("call", _module("x = f32[3] parameter(0)\n ROOT r = f32[3] call(x), to_apply=n", negate), EXACT)
    )
    cases.append(
        Case(
            "map",
            _module(
                "x = f32[3,5] parameter(0)\n y = f32[3,5] parameter(1)\n ROOT r = f32[3,5] map(x, y), dimensions={0,1}, to_apply=f",
                combiner("multiply", "f32"),
            ),
            1,
        )
    )
    return cases


def _others() -> list[Case]:
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
            ("u32", "0"),
        ):
            if dims == "0":
                continue
            cases.append(
                Case(
                    f"{algorithm}-{state}-{dtype}-{dims}",
                    _module(
                        f"s = u64[{state}] parameter(0)\n ROOT r = (u64[{state}], {dtype}[{dims}]) rng-bit-generator(s),"
                        f" algorithm={algorithm}"
                    ),
                    EXACT,
                )
            )
    x = "x = f32[4,3,5] parameter(0)\n a = f32[3] parameter(1)\n b = f32[3] parameter(2)\n"
    cases.append(
        Case(
            "batch-norm-training",
            _module(
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
            _module("x = c64[3,8] parameter(0)\n ROOT r = c64[3,8] fft(x), fft_type=FFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "ifft2",
            _module("x = c64[6,8] parameter(0)\n ROOT r = c64[6,8] fft(x), fft_type=IFFT, fft_length={6,8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "rfft",
            _module("x = f32[3,8] parameter(0)\n ROOT r = c64[3,5] fft(x), fft_type=RFFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    cases.append(
        Case(
            "irfft",
            _module("x = c64[3,5] parameter(0)\n ROOT r = f32[3,8] fft(x), fft_type=IRFFT, fft_length={8}"),
            512,
            finite=True,
        )
    )
    for lower in ("true", "false"):
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE"):
            cases.append(
                Case(
                    f"triangular-solve-{lower}-{transpose}",
                    _module(
                        "a = f32[2,4,4] parameter(0)\n b = f32[2,4,3] parameter(1)\n i = f32[4,4] iota(), iota_dimension=0\n"
                        " j = f32[4,4] iota(), iota_dimension=1\n e = pred[4,4] compare(i, j), direction=EQ\n"
                        " ten = f32[] constant(10)\n t = f32[4,4] broadcast(ten), dimensions={}\n z = f32[] constant(0)\n"
                        " zz = f32[4,4] broadcast(z), dimensions={}\n d = f32[4,4] select(e, t, zz)\n"
                        " dd = f32[2,4,4] broadcast(d), dimensions={1,2}\n aa = f32[2,4,4] add(a, dd)\n"
                        f" ROOT r = f32[2,4,3] triangular-solve(aa, b), left_side=true, lower={lower}, transpose_a={transpose}"
                    ),
                    512,
                    finite=True,
                )
            )
    return cases


CASES: list[Case] = [
    *_elementwise(),
    *_converts(),
    *_structure(),
    *_reductions(),
    *_sorts(),
    *_contractions(),
    *_control(),
    *_others(),
]
BY_NAME = {case.name: case for case in CASES}


def assert_close(got: Any, want: Any, ulps: int, name: str) -> None:
    """Same shape and type; NaN and inf in the same places; floats within `ulps` of the wanted value.

    Sums may cancel, so the distance is measured at the largest finite size in the array too.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (
        name,
        got.shape,
        got.dtype,
        want.shape,
        want.dtype,
    )
    if want.dtype.kind in "biu" or "int" in want.dtype.name:
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    if want.dtype.kind == "c":
        assert_close(got.real, want.real, ulps, name)
        assert_close(got.imag, want.imag, ulps, name)
        return
    wide, other = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(other), err_msg=name)
    finite = np.isfinite(other)
    if ulps == 0:
        np.testing.assert_array_equal(wide, other, err_msg=name)
        np.testing.assert_array_equal(
            np.signbit(wide[~np.isnan(wide)]), np.signbit(other[~np.isnan(other)]), err_msg=name
        )
        return
    np.testing.assert_array_equal(
        wide[~finite & ~np.isnan(other)], other[~finite & ~np.isnan(other)], err_msg=name
    )
    unit = float(ml_dtypes.finfo(want.dtype).eps)
    scale = np.abs(other[finite])
    typical = np.median(scale) if scale.size else 0.0
    limit = ulps * unit * np.maximum(scale, typical)
    worst = np.abs(wide[finite] - other[finite]) - limit
    assert not scale.size or worst.max() <= 1e-300, (
        name,
        wide[finite][worst.argmax()],
        other[finite][worst.argmax()],
    )
