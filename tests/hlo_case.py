"""What a case of the table of HLO modules is: text, hostile arguments, tolerance."""

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


def module(body: str, computations: str = "") -> str:
    return f"HloModule m\n\n{computations}\nENTRY main {{\n{body}\n}}\n"


def unary(op: str, dtype: str, out: str | None = None, extra: str = "", dims: str = "33") -> str:
    out = out or dtype
    return module(f"  x = {dtype}[{dims}] parameter(0)\n  ROOT r = {out}[{dims}] {op}(x){extra}")


def binary(op: str, dtype: str, out: str | None = None, extra: str = "", dims: str = "67") -> str:
    return module(
        f"  x = {dtype}[{dims}] parameter(0)\n  y = {dtype}[{dims}] parameter(1)\n"
        f"  ROOT r = {out or dtype}[{dims}] {op}(x, y){extra}"
    )


def combiner(op: str, dtype: str, name: str = "f") -> str:
    """The text of a computation of two scalars."""
    return (
        f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n  ROOT r = {dtype}[] {op}(a, b)\n}}\n"
    )


def assert_close(got: Any, want: Any, ulps: int, name: str) -> None:
    """Same shape and type; NaN and inf in the same places; floats within `ulps` of the wanted value.

    Sums may cancel, so the distance is measured at the median size in the array where an element is smaller.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), name
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
    np.testing.assert_array_equal(wide[~finite & ~np.isnan(other)], other[~finite & ~np.isnan(other)], err_msg=name)
    unit = float(ml_dtypes.finfo(want.dtype).eps)
    scale = np.abs(other[finite])
    typical = np.median(scale) if scale.size else 0.0
    limit = ulps * unit * np.maximum(scale, typical)
    worst = np.abs(wide[finite] - other[finite]) - limit
    assert not scale.size or worst.max() <= 1e-300, (name, wide[finite][worst.argmax()], other[finite][worst.argmax()])
