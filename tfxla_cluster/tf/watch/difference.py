"""Where a compiled value parts from eager TensorFlow's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

# NumPy name -> the largest difference that is none, relative to the largest finite value of the tensor. Sums in
# another order and fused roundings differ by some tens of a type's epsilon.
TOLERANCES = {
    "float64": 1e-10,
    "float32": 1e-4,
    "float16": 2e-2,
    "bfloat16": 6e-2,
    "float8_e4m3fn": 0.25,
    "float8_e5m2": 0.5,
}


@dataclass(frozen=True)
class Difference:
    """The element that is furthest off: its index, eager TensorFlow's value and the compiled one; how many are off."""

    index: tuple[int, ...]
    eager: Any
    compiled: Any
    count: int
    total: int

    def __str__(self) -> str:
        place = f"element {list(self.index)} " if self.index else ""
        return (
            f"{place}is {self.compiled} where eager TensorFlow has {self.eager} ({self.count} of {self.total} differ)"
        )


_SHAKEN = 50.0  # times what a last bit of the inputs changes: no difference


def between(eager: np.ndarray, compiled: np.ndarray, shaken: np.ndarray | None = None) -> Difference | None:
    """None where they agree. Integers, bools and strings to the bit, NaNs and infinities by place.

    `shaken`: what eager TensorFlow gives for inputs that differ in their last bits. Where sums cancel or a loop is
    chaotic that is another value too, and no compiled one is wrong.
    """
    if eager.shape != compiled.shape:
        return Difference((), f"shape {list(eager.shape)}", f"shape {list(compiled.shape)}", 1, 1)
    if not eager.size:
        return None
    bad, off = _off(eager, compiled)
    if shaken is not None and shaken.shape == eager.shape:
        moved, by = _off(eager, shaken)
        bad &= ~moved if eager.dtype.kind in "biu" else off > _SHAKEN * np.max(by)
    if not bad.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(np.argmax(np.where(bad, off, -1.0)), eager.shape))
    return Difference(index, eager[index], compiled[index], int(bad.sum()), eager.size)


def shake(value: np.ndarray) -> np.ndarray:
    """The value with another last bit here and there; what is no floating-point number as it is."""
    if value.dtype.kind == "c":
        return np.asarray(shake(value.real) + 1j * shake(value.imag)).astype(value.dtype)
    if value.dtype.name not in TOLERANCES or not value.size:
        return value
    ups = np.random.default_rng(0).integers(0, 2, value.shape).astype(bool)
    epsilon = float(ml_dtypes.finfo(value.dtype).eps)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.where(ups, value, value.astype(np.float64) * (1 + epsilon))).astype(value.dtype)


def _off(eager: np.ndarray, compiled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which elements differ, and by how much (infinite where only one is finite)."""
    name = eager.dtype.name
    if eager.dtype.kind == "c":
        bad, off = _off(*(np.stack([x.real, x.imag], -1) for x in (eager, compiled)))
        return np.any(bad, -1, keepdims=True)[..., 0], off.max(-1)
    if name not in TOLERANCES:
        differs = np.asarray(eager != compiled)
        return differs, differs.astype(np.float64)
    one, other = eager.astype(np.float64), compiled.astype(np.float64)
    finite = np.isfinite(one)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.where(finite & np.isfinite(other), np.abs(one - other), np.inf))
    largest = np.max(np.abs(one), where=finite, initial=0.0)
    return np.asarray(off > TOLERANCES[name] * largest), off


def is_comparable(dtype: Any) -> bool:
    """Values of a tf.DType can be compared."""
    return dtype.is_floating or dtype.is_complex or dtype.is_integer or dtype.is_bool


def has_no_number(value: np.ndarray) -> str:
    """'NaN' or 'an infinity' where a floating-point array has one, else ''."""
    if value.dtype.name not in TOLERANCES and value.dtype.kind != "c":
        return ""
    wide = value if value.dtype.kind == "c" else value.astype(np.float64)
    if np.isnan(wide).any():
        return "NaN"
    return "an infinity" if np.isinf(wide).any() else ""
