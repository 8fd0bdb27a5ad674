"""How far functions are from the truth, in units of the last place, and their special values."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.codegen.llvm.programs import apply

INF, NAN = float("inf"), float("nan")
# opcode: (function of a longdouble array, most ulp in f32, in f64).
FUNCTIONS = {
    "exponential": (np.exp, 1.5, 1.0),
    "exponential-minus-one": (np.expm1, 1.5, 2.0),
    "log": (np.log, 1.0, 1.0),
    "log-plus-one": (np.log1p, 1.6, 1.6),
    "sqrt": (np.sqrt, 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.6, 1.6),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 2.0, 2.0),
    "tanh": (np.tanh, 5.0, 2.6),
    "sinh": (np.sinh, 0.51, 2.5),
    "cosh": (np.cosh, 0.51, 1.6),
    "asinh": (np.arcsinh, 0.51, 2.0),
    "acosh": (np.arccosh, 0.51, 2.0),
    "atanh": (np.arctanh, 0.51, 2.0),
    "sine": (np.sin, 1.6, 1.0),
    "cosine": (np.cos, 1.6, 1.0),
    "tan": (np.tan, 0.51, 1.0),
    "asin": (np.arcsin, 0.51, 3.0),
    "acos": (np.arccos, 0.51, 3.0),
    "atan": (np.arctan, 0.51, 2.5),
    "cbrt": (np.cbrt, 0.51, 1.0),
}


def _points(dtype: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    special = [
        0.0,
        -0.0,
        NAN,
        INF,
        -INF,
        1,
        -1,
        1e-30,
        -1e-30,
        1e30,
        -1e30,
        88.7,
        89,
        -88,
        -104,
        709.7,
        710.2,
        710.6,
        -745,
        0.5,
        -0.5,
        3e38,
        9,
        9.02,
        9.1,
        3.92,
        1 - 2**-24,
        1 + 2**-23,
    ]
    wide = 2.0 ** rng.uniform(-100, 100, 8000)
    x = np.concatenate(
        [
            special,
            rng.standard_normal(8000),
            rng.uniform(-100, 100, 8000),
            wide,
            -wide,
            rng.uniform(-750, 750, 2000),
            1 + rng.standard_normal(2000) * 1e-3,
            np.pi / 2 * np.arange(-500, 500),
        ]
    )
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    return np.where(np.abs(x) < np.finfo(dtype).tiny, dtype(0), x)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in ulp of the result's dtype; 0 where equal, both NaN, or both below the normal range."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(exact), np.longdouble(info.tiny))
        unit = np.exp2(np.floor(np.log2(size))) * np.longdouble(info.eps)
        distance = np.abs(got.astype(np.longdouble) - exact) / unit
        same = (got == exact.astype(got.dtype)) | (np.isnan(got) & np.isnan(exact))
    flushed = (np.abs(exact) < info.tiny) & (np.abs(got) <= info.tiny)
    distance = np.where(np.isnan(distance), INF, distance)
    return np.where(same | flushed, 0, distance)


@pytest.mark.parametrize("opcode", FUNCTIONS)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_ulp(opcode: str, name: str) -> None:
    dtype = np.float32 if name == "f32" else np.float64
    function, *limits = FUNCTIONS[opcode]
    x = _points(dtype)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble))
    got = apply(opcode, name, x)
    distance = ulps(got, exact)
    worst = int(np.argmax(distance))
    assert distance[worst] <= limits[name == "f64"], (x[worst], got[worst], exact[worst])
    zero = (x == 0) & ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(exact[zero].astype(dtype)))


@pytest.mark.parametrize(("name", "limit"), [("f32", 6.0), ("f64", 4.0)])
def test_erf(name: str, limit: float) -> None:
    dtype = np.float32 if name == "f32" else np.float64
    x = _points(dtype)[::9]
    exact = np.array([np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 25)) for v in x])
    assert ulps(apply("erf", name, x), exact).max() <= limit


@pytest.mark.parametrize("opcode", ["sine", "cosine", "tan"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_huge_angles(opcode: str, name: str) -> None:
    """Arguments of any size are reduced exactly, near multiples of pi/2 too."""
    dtype = np.float32 if name == "f32" else np.float64
    top = 38 if name == "f32" else 308
    x = np.concatenate(
        [
            10.0 ** np.linspace(3, top, 200),
            np.float32([6.2831855e15, 16367173e24]),
            6381956970095103.0 * 2.0 ** np.arange(-40, 60),
        ]
    ).astype(dtype)
    with mpmath.workprec(1400):
        function = {"sine": mpmath.sin, "cosine": mpmath.cos, "tan": mpmath.tan}[opcode]
        exact = np.array([np.longdouble(mpmath.nstr(function(mpmath.mpf(float(v))), 25)) for v in x])
    assert ulps(apply(opcode, name, x), exact).max() <= 1.6


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_power_corners(name: str) -> None:
    """C99's table of pow."""
    dtype = np.float32 if name == "f32" else np.float64
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30, INF, -INF, NAN]
    x, y = (np.array(v, dtype) for v in zip(*[(a, b) for a in values for b in values]))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    got = apply("power", name, x, y)
    np.testing.assert_allclose(got, expected, rtol=2e-7 if name == "f32" else 1e-15)
    np.testing.assert_array_equal(np.signbit(got)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_power_and_atan2_ulp(name: str) -> None:
    dtype = np.float32 if name == "f32" else np.float64
    rng = np.random.default_rng(3)
    x, y = np.exp(rng.uniform(-20, 20, 5000)).astype(dtype), rng.uniform(-4, 4, 5000).astype(dtype)
    wide = x.astype(np.longdouble), y.astype(np.longdouble)
    assert ulps(apply("power", name, x, y), np.power(*wide)).max() <= 1.0
    assert ulps(apply("atan2", name, y, x), np.arctan2(wide[1], wide[0])).max() <= (0.51 if name == "f32" else 2.5)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_atan2_corners(name: str) -> None:
    dtype = np.float32 if name == "f32" else np.float64
    values = [0.0, -0.0, 1.0, -1.0, 1e30, -1e30, INF, -INF, NAN]
    y, x = (np.array(v, dtype) for v in zip(*[(a, b) for a in values for b in values]))
    expected, got = np.arctan2(y, x), apply("atan2", name, y, x)
    np.testing.assert_allclose(got, expected, rtol=3e-7 if name == "f32" else 1e-15)
    np.testing.assert_array_equal(np.signbit(got)[expected == 0], np.signbit(expected)[expected == 0])


def test_denormals_are_flushed() -> None:
    """As TensorFlow's and XLA's threads do; so log of a denormal is that of 0."""
    tiny = np.full(9, 1e-40, np.float32)
    assert (apply("multiply", "f32", tiny, np.full(9, 1.5, np.float32)) == 0).all()
    assert (apply("log", "f32", tiny) == -np.inf).all()
    assert (apply("exponential", "f32", np.full(9, -100, np.float32)) == 0).all()
