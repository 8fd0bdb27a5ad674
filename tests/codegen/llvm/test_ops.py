"""Each opcode on each dtype against XLA, on values that hurt. How exact functions are: test_math."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (NumPy learns its dtypes)
import numpy as np
import pytest

from tests import oracle
from tests.codegen.llvm.programs import Case, apply, apply_all, hlo, hostile
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir.dtype import DTYPES

COUNT = 333
SIGNED, UNSIGNED = ("s8", "s16", "s32", "s64"), ("u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
F8 = ("f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4")
# Two results of a function may differ by what their algorithms err, in units of the result.
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 2e-6, "f64": 4e-15, "c64": 1e-5, "c128": 1e-13}

INTEGER_BINARY = """add subtract multiply divide remainder maximum minimum and or xor
    shift-left shift-right-logical shift-right-arithmetic"""
FLOAT_BINARY = "add subtract multiply divide remainder maximum minimum power atan2"
FLOAT_UNARY = """abs cbrt ceil cosine erf exponential exponential-minus-one floor log log-plus-one negate
    round-nearest-afz round-nearest-even rsqrt sign sine sqrt tan tanh"""
COMPLEX_UNARY = "exponential exponential-minus-one log log-plus-one rsqrt sine cosine tanh logistic sign negate"


def check(*cases: Case) -> None:
    """Runs all cases, which share their operands' dtypes, in one kernel and one XLA module."""
    args = [hostile(DTYPES[name], COUNT, seed) for seed, name in enumerate(cases[0].operands)]
    expected = oracle.run(hlo(cases, COUNT), args)
    for case, got, want in zip(cases, apply_all(cases, args), expected):
        same = (got == want) | ((got != got) & (want != want))
        if case.out in TOLERANCE:
            wide = np.complex128 if DTYPES[case.out].kind == "complex" else np.float64
            x, y = got.astype(wide), want.astype(wide)
            with np.errstate(all="ignore"):
                same |= np.abs(x - y) <= np.abs(y) * TOLERANCE[case.out]
        wrong = np.flatnonzero(~same)
        assert not len(wrong), (case, [(tuple(a[k] for a in args), got[k], want[k]) for k in wrong[:5]])


def _compare(dtype: str, direction: str, type: str = "") -> Case:
    attrs: dict[str, object] = {"direction": direction, **({"type": type} if type else {})}
    return Case("compare", "pred", (dtype, dtype), tuple(attrs.items()))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_binary(dtype: str) -> None:
    check(*(Case(opcode, dtype, (dtype, dtype)) for opcode in INTEGER_BINARY.split()))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_unary(dtype: str) -> None:
    opcodes = ("negate", "not", "count-leading-zeros", "popcnt", *(("abs", "sign") * (dtype in SIGNED)))
    check(*(Case(opcode, dtype, (dtype,)) for opcode in opcodes))


@pytest.mark.parametrize("dtype", ["s32", "u8", "s64"])
def test_integer_power_wraps(dtype: str) -> None:
    base = hostile(DTYPES[dtype], COUNT)
    exponent = np.resize(np.arange(6), COUNT).astype(base.dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(apply("power", dtype, base, exponent), base**exponent)


def test_integer_power_of_a_negative_exponent() -> None:
    base, exponent = np.array([1, -1, -1, 2, 0], np.int32), np.array([-3, -3, -4, -1, -1], np.int32)
    np.testing.assert_array_equal(apply("power", "s32", base, exponent), [1, -1, 1, 0, 0])


@pytest.mark.parametrize("dtype", ["pred", "s8", "u32", "s64", "u64", *FLOATS])
def test_compare_select_clamp(dtype: str) -> None:
    check(*(_compare(dtype, direction) for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")))
    check(Case("select", dtype, ("pred", dtype, dtype)))
    if dtype != "pred":
        check(Case("clamp", dtype, (dtype, dtype, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_total_order(dtype: str) -> None:
    check(*(_compare(dtype, direction, "TOTALORDER") for direction in ("EQ", "LT", "GE")))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float(dtype: str) -> None:
    check(*(Case(opcode, dtype, (dtype, dtype)) for opcode in FLOAT_BINARY.split()))
    check(*(Case(opcode, dtype, (dtype,)) for opcode in FLOAT_UNARY.split()), Case("is-finite", "pred", (dtype,)))


def test_pred() -> None:
    check(*(Case(opcode, "pred", ("pred", "pred")) for opcode in ("and", "or", "xor", "maximum", "minimum")))
    check(Case("not", "pred", ("pred",)))


@pytest.mark.parametrize("source", ["pred", "s4", "u4", *SIGNED, *UNSIGNED, *FLOATS, *F8])
def test_convert(source: str) -> None:
    targets = ["pred", "s4", "u4", *SIGNED, *UNSIGNED, *FLOATS, *F8, "c64", "c128"]
    check(*(Case("convert", target, (source,)) for target in targets if target != source))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32", "s32"),
        ("u32", "f32"),
        ("f16", "u16"),
        ("u16", "bf16"),
        ("bf16", "s16"),
        ("f64", "s64"),
        ("u64", "f64"),
        ("s8", "u8"),
        ("u8", "f8e5m2"),
        ("f8e4m3fn", "s8"),
    ],
)
def test_bitcast(source: str, target: str) -> None:
    raw = np.random.default_rng(1).bytes(COUNT * DTYPES[source].itemsize)
    values = np.frombuffer(raw, DTYPES[source].numpy)
    got = apply("bitcast-convert", target, values)
    plain = f"u{DTYPES[target].itemsize}"
    # Bits pass through registers unharmed, but for which NaN it is and for denormals.
    number = values if DTYPES[source].is_float else got
    with np.errstate(all="ignore"):
        size = np.abs(number.astype(np.float64))
    keep = (size > 1e-300) & np.isfinite(size)
    np.testing.assert_array_equal(got.view(plain)[keep], values.view(plain)[keep])


@pytest.mark.parametrize("dtype", FLOATS)
def test_reduce_precision(dtype: str) -> None:
    check(
        *(
            Case("reduce-precision", dtype, (dtype,), (("exponent_bits", e), ("mantissa_bits", m)))
            for e, m in ((5, 10), (8, 7), (5, 2), (8, 23), (11, 52), (4, 3))
        )
    )


@pytest.mark.parametrize(("dtype", "part"), [("c64", "f32"), ("c128", "f64")])
def test_complex(dtype: str, part: str) -> None:
    check(
        *(Case(opcode, dtype, (dtype, dtype)) for opcode in ("add", "subtract", "multiply", "divide")),
        _compare(dtype, "EQ"),
        _compare(dtype, "NE"),
    )
    check(
        *(Case(opcode, dtype, (dtype,)) for opcode in COMPLEX_UNARY.split()),
        Case("real", part, (dtype,)),
        Case("imag", part, (dtype,)),
    )
    check(Case("complex", dtype, (part, part)))


@pytest.mark.parametrize(("opcode", "function"), [("sqrt", np.sqrt), ("tan", np.tan), ("abs", np.abs)])
def test_complex_as_numpy(opcode: str, function: np.ufunc) -> None:
    """Where XLA gives NaN for an infinite part, NumPy and C99 do not, and neither do we."""
    values = hostile(DTYPES["c128"], COUNT)
    values = values[~np.isnan(values.imag)]
    with np.errstate(all="ignore"):
        expected = function(values)
    got = apply(opcode, "f64" if opcode == "abs" else "c128", values)
    np.testing.assert_allclose(got[np.isfinite(values)], expected[np.isfinite(values)], rtol=1e-13)
    infinite = np.isinf(values.real) | np.isinf(values.imag)
    if opcode != "tan":
        np.testing.assert_array_equal(np.isinf(got[infinite]), np.isinf(expected[infinite]))


@pytest.mark.parametrize(("opcode", "function"), [("exponential", np.exp), ("tanh", np.tanh)])
def test_complex_ends_as_numpy(opcode: str, function: np.ufunc) -> None:
    """An angle that is no number makes no number, but where an infinite real part outweighs it."""
    ends = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -2.5, 1e18, -1e18])
    values = np.empty(64, np.complex128)
    values.real, values.imag = (part.ravel() for part in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        expected = function(values)
    got = apply(opcode, "c128", values)
    settled = np.isfinite(values.imag) | ~(values.real > 1e300)  # exp(inf + nan i) may be either
    np.testing.assert_allclose(got.real[settled], expected.real[settled], rtol=1e-13)
    np.testing.assert_allclose(got.imag[settled], expected.imag[settled], rtol=1e-13)


def test_refusals_name_opcode_and_dtype() -> None:
    with pytest.raises(UnsupportedError, match="erf on s32"):
        apply("erf", "s32", np.zeros(3, np.int32))
