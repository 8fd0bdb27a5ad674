"""Cases of elementwise opcodes and conversions."""

from __future__ import annotations

from tests.hlo_case import EXACT, Case, binary, module, unary


def _floats() -> list[Case]:
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
        cases.extend(
            Case(f"{op}-{dtype}", unary(op, dtype), ulps=16 if dtype == "f32" else 64 if dtype == "f64" else 2)
            for dtype in ("f32", "f64", "f16", "bf16")
        )
    for op in ["abs", "negate", "sign", "not", "popcnt", "count-leading-zeros"]:
        cases.extend(
            Case(f"{op}-{dtype}", unary(op, dtype), EXACT)
            for dtype in ("s8", "s16", "s32", "s64", "u8", "u32")
            if not (dtype[0] == "u" and op in ("abs", "negate", "sign"))
        )
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"]:
        cases.extend(
            Case(f"{op}-{dtype}", binary(op, dtype), ulps=64 if op in ("power", "atan2") else 1)
            for dtype in ("f32", "f64", "bf16", "f16")
        )
    return cases


def _integers() -> list[Case]:
    cases = []
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
            cases.append(Case(f"{op}-{dtype}", binary(op, dtype), EXACT, *bounds))
    cases.extend(Case(f"{op}-pred", binary(op, "pred"), EXACT) for op in ("and", "or", "xor"))
    cases.extend(
        Case(f"{op}-{dtype}", binary(op, dtype), EXACT)
        for op in ("shift-left", "shift-right-arithmetic", "shift-right-logical")
        for dtype in ("s4", "u4")
    )
    for op in ("divide", "remainder"):
        iotas = "  x = s64[12] iota(), iota_dimension=0\n  y = s64[12] iota(), iota_dimension=0\n"
        cases.append(Case(f"{op}-iotas", module(f"{iotas}  ROOT r = s64[12] {op}(x, y)"), EXACT))
    cases.append(Case("not-pred", unary("not", "pred"), EXACT))
    cases.append(Case("is-finite-f32", unary("is-finite", "f32", "pred"), EXACT))
    return cases


def _comparisons() -> list[Case]:
    cases = []
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        cases.extend(
            Case(f"compare-{direction}-{dtype}", binary("compare", dtype, "pred", f", direction={direction}"), EXACT)
            for dtype in ("f32", "bf16", "s32", "u32", "pred")
        )
    cases.append(Case("compare-total", binary("compare", "f32", "pred", ", direction=LT, type=TOTALORDER"), EXACT))
    return cases


def _others() -> list[Case]:
    cases = []
    cases += [Case(f"{op}-c64", binary(op, "c64"), ulps=64, finite=True) for op in ("add", "multiply", "divide")]
    cases += [Case(f"{op}-c64", unary(op, "c64", "f32"), ulps=8, finite=True) for op in ("real", "imag", "abs")]
    cases.append(Case("complex", binary("complex", "f32", "c64"), EXACT))
    for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23)):
        cases.append(
            Case(
                f"reduce-precision-{e}-{m}",
                unary("reduce-precision", "f32", extra=f", exponent_bits={e}, mantissa_bits={m}"),
                EXACT,
            )
        )
    cases.append(
        Case(
            "select",
            module("""
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
            module("""
  x = f32[33] parameter(0)
  low = f32[] constant(-1)
  high = f32[] constant(1.5)
  ROOT r = f32[33] clamp(low, x, high)"""),
            EXACT,
        )
    )
    return cases


def elementwise() -> list[Case]:
    return [*_floats(), *_integers(), *_comparisons(), *_others()]


def converts() -> list[Case]:
    names = ["pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
    cases = [Case(f"convert-{a}-{b}", unary("convert", a, b, dims="41"), EXACT) for a in names for b in names if a != b]
    small = ["f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4"]
    cases += [Case(f"convert-f32-{s}", unary("convert", "f32", s, dims="41"), EXACT) for s in small]
    cases += [Case(f"convert-{s}-f32", unary("convert", s, "f32", dims="41"), EXACT) for s in small]
    for a, b in (("f32", "s32"), ("s64", "f64"), ("u16", "bf16"), ("f16", "s16")):
        cases.append(Case(f"bitcast-convert-{a}-{b}", unary("bitcast-convert", a, b), EXACT))
        cases.append(Case(f"bitcast-convert-{a}-{b}-scalar", unary("bitcast-convert", a, b, dims=""), EXACT))
    cases.append(
        Case(
            "bitcast-convert-of-a-constant",
            module("""
  x = s32[] constant(-3)
  ROOT r = u32[] bitcast-convert(x)"""),
            EXACT,
        )
    )
    cases.append(
        Case(
            "bitcast-convert-narrower",
            module("""
  x = u32[5] parameter(0)
  ROOT r = u8[5,4] bitcast-convert(x)"""),
            EXACT,
        )
    )
    cases.append(
        Case(
            "bitcast-convert-wider",
            module("""
  x = u8[5,8] parameter(0)
  ROOT r = f64[5] bitcast-convert(x)"""),
            EXACT,
        )
    )
    return cases
