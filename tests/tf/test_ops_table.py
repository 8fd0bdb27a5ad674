"""The table of TensorFlow ops through `jit`, against eager TensorFlow: a row that is native and right stays so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.ops_table import ROWS, Row
from tfxla_cluster import counters

# What is not native and equal to eager: how its outcome begins, and why. A row that gets better must leave.
_EAGER_WRONG = "differs"  # eager itself is wrong
_NO_OP = "refused: InvalidArgumentError"  # TensorFlow's bridge has no compiled form of the op, stock raises too
KNOWN: dict[str, str] = {
    "erf-float64": _EAGER_WRONG,  # NaN for infinity
    **dict.fromkeys(("argmax-float32", "argmax-bfloat16", "argmin-float32", "argmin-bfloat16"), _EAGER_WRONG),
    # ^ along the first axis eager skips NaN, along the last it finds it, as NumPy and we do
    "ndtri-float32": "differs",  # the bridge's formula gives -inf from 1e-10 down, stock the same
    "float_to_int_out_of_range-float32": "differs",  # not defined; XLA's rule is to saturate
    "integer_division_by_zero-int32": "raises",  # as eager does
    "gather_out_of_range-float32": "raises",  # as eager does
    **dict.fromkeys(
        (
            "reduce_euclidean_norm-float32",
            "segment_sum_sorted-float32",
            "det-float32",
            "lu-float32",
            "resize_bicubic-float32",
            "resize_area-float32",
        ),
        _NO_OP,
    ),
}


def outcome(row: Row, dtype: str) -> str:
    """'native', 'raises' (as eager does), or what is not as it should be: 'fallback: why', 'differs: where'..."""
    args = row.make(dtype)
    want, eager_error = _call(row.fn, args)
    before = counters.snapshot()
    got, error = _call(tfxla_cluster.jit(row.fn), args)
    after = counters.snapshot()
    if eager_error is not None or error is not None:
        if eager_error is not None and error is not None:
            return "raises"
        return f"refused: {error}" if error is not None else f"no error: {eager_error}"
    if after["fallbacks"] != before["fallbacks"]:
        old = before["fallback_reasons"]
        new = [r for r, n in after["fallback_reasons"].items() if n != old.get(r, 0)]
        return f"fallback: {new[-1]}"
    for number, (one, other) in enumerate(zip(tf.nest.flatten(got), tf.nest.flatten(want))):
        problem = _difference(np.asarray(one.numpy()), np.asarray(other.numpy()), row)
        if problem:
            return f"differs: output {number}, {problem}"
    return "native"


def _call(fn: Any, args: list[Any]) -> tuple[Any, str | None]:
    try:
        return fn(*args), None
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return None, f"{type(error).__name__} {str(error).splitlines()[0]}"


def _difference(got: np.ndarray, want: np.ndarray, row: Row) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind == "c":
        return _difference(got.real, want.real, row) or _difference(got.imag, want.imag, row)
    if want.dtype.kind in "biu":
        wrong = got != want
    else:
        unit = row.unit(want)
        got, want = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(want)
        with np.errstate(all="ignore"):
            close = np.abs(got - want) <= row.tolerance * unit
        wrong = ~np.where(finite, close, (got == want) | (np.isnan(got) & np.isnan(want)))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, first at {list(at)}: {got[at]} instead of {want[at]}"


@pytest.mark.parametrize(
    ("row", "dtype"), [(r, d) for r in ROWS for d in r.dtypes], ids=[f"{r.name}-{d}" for r in ROWS for d in r.dtypes]
)
def test_op(row: Row, dtype: str) -> None:
    expected = KNOWN.get(f"{row.name}-{dtype}", "native")
    found = outcome(row, dtype)
    assert found.startswith(expected), f"{row.name}-{dtype} is '{found}', expected '{expected}'"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_nan_and_infinity(dtype: str) -> None:
    """Eager's own softmax depends on the CPU there; what it is made of does not."""
    rows = [[np.inf, 1, 2, -np.inf], [1, np.nan, 2, 3], [-np.inf] * 4, [np.inf] * 4, [-np.inf, 0, 1, -np.inf]]
    x = tf.constant(np.array(rows, dtype))
    e = tf.exp(x - tf.reduce_max(x, 1, True))
    np.testing.assert_allclose(tfxla_cluster.jit(tf.nn.softmax)(x), e / tf.reduce_sum(e, 1, True), rtol=1e-6)
