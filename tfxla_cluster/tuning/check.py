"""Whether a candidate computed what it should: drawn inputs, and how far its outputs may be from the reference's."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..codegen.kernel.lower.dot import precision
from ..codegen.kernel.lower.gpu.product_factors import PRECISIONS
from ..ir import dim as dims_
from ..ir.dtype import F32, DType
from ..ir.node import Instr, holds
from ..target import Target

# Units in the last place of the array's largest element: another order of sums moves results by some; poison, a lost
# block or a race moves them by far more.
ULPS = 512.0
_FEW = 8.0  # of types of 16 bits and fewer, whose sums are kept in f32, and of factors rounded to tf32
_TF32_EPSILON = 2.0**-10


def inputs(params: Sequence[Instr], name: str) -> list[np.ndarray]:
    """Arrays for parameters, at the sample sizes: floats normal, integers small, the same for the same `name`."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [_drawn(tuple(map(dims_.sample, p.shape.dims)), p.shape.element_type, rng) for p in params]


def _drawn(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "pred":
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    if dtype.is_integer:
        return np.asarray(rng.integers(0, 8 if dtype.bits <= 4 else 100, shape)).astype(dtype.numpy)
    values = np.asarray(rng.standard_normal(shape, np.float32))
    if dtype.kind == "complex":
        values = values + 1j * rng.standard_normal(shape, np.float32)
    return np.asarray(values).astype(dtype.numpy)


def rounds_factors(instr: Instr, target: Target) -> bool:
    """Whether the target may multiply f32 in it as tf32: which of both factors' bits it drops, and how, is each form's
    own."""
    return target.backend == "gpu" and holds(instr, "products as tf32", _is_tf32)


def _is_tf32(instr: Instr) -> bool:
    if instr.opcode not in ("dot", "convolution") or instr.operands[0].shape.element_type != F32:
        return False
    return PRECISIONS.get(precision(instr)) == "tf32"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Of floats. tf32: f32 was multiplied so. coarse: of the largest element, where that is more than the type's own.
    share: of the elements, those that may be further off, NaN or infinite."""

    tf32: bool = False
    coarse: float = 0.0
    share: float = 0.0


def difference(got: Sequence[np.ndarray], want: Sequence[np.ndarray], near: Tolerance = Tolerance()) -> str:
    """In words what is wrong with `got`; '' where it is near enough: integers equal, NaN and infinities in the same
    places, floats within ULPS of the largest element, or as `near` says."""
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {number} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        wrong = _wrong(a, b, near)
        if wrong:
            return f"output {number}: {wrong}"
    return ""


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Of two arrays of as many bytes."""
    first, second = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return np.array_equal(first, second)


def rounding(dtype: DType) -> float:
    """Of the largest element: how far apart right results of a float type may be."""
    return _units(dtype.bits) * _epsilon(dtype.numpy)


def _wrong(a: np.ndarray, b: np.ndarray, near: Tolerance) -> str:
    if same_bits(a, b):
        return ""
    if a.dtype.kind in "biu":
        count = int(np.count_nonzero(a != b))
        return f"{count} of {a.size} elements differ"
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    bits = a.dtype.itemsize * 8 // (2 if a.dtype.kind == "c" else 1)
    if bits == 32:
        kind = a.dtype.type  # differences of near numbers are exact, and large arrays are not copied
    wide_a, wide_b = a.astype(kind, copy=False), b.astype(kind, copy=False)
    finite = np.isfinite(wide_b)
    elsewhere = np.isfinite(wide_a) != finite
    elsewhere |= ~finite & (wide_a != wide_b) & ~(np.isnan(wide_a) & np.isnan(wide_b))
    if np.count_nonzero(elsewhere) > near.share * a.size:
        return "NaN or infinities in other places"
    finite &= ~elsewhere
    largest = float(np.abs(wide_b[finite]).max(initial=0.0))
    own = _FEW * _TF32_EPSILON if near.tf32 and bits == 32 else _units(bits) * _epsilon(a.dtype)
    off = np.abs(wide_a[finite] - wide_b[finite])
    beyond = np.count_nonzero(off > largest * max(own, near.coarse))
    if beyond <= near.share * a.size:
        return ""
    return f"off by {float(off.max()):.3g}, the largest element is {largest:.3g}"


def _units(bits: int) -> float:
    return ULPS if bits > 16 else _FEW


def _epsilon(dtype: np.dtype) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)
