"""A row of the table of ops, and what its arguments are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import tensorflow as tf

F32, FLOATS, WIDE = ("float32",), ("float32", "float16", "bfloat16", "float64"), ("float32", "float64")
INTS, COMPLEX = ("int32", "int64", "uint8"), ("complex64",)
NUMBERS = ("float32", "bfloat16", "int32")
HOSTILE = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 1e-3, 1e4, -88.0, 1e-30]


@dataclass(frozen=True)
class Row:
    """`fn(*args)`; args are made for a dtype by `make`.

    tolerance: in units of precision at `at` (0: equal but for the sign of zero).
    """

    name: str
    fn: Callable[..., Any]
    make: Callable[[str], list[Any]]
    dtypes: tuple[str, ...] = F32
    tolerance: float = 0
    at: Literal["element", "largest", "one"] = "element"

    def unit(self, want: np.ndarray) -> np.ndarray:
        """The precision of the wanted values, as float64, where the row measures it.

        At each element itself. At the largest finite one of the result where terms of that size cancel. At 1 where an
        element is smaller: near a root of the function, which the argument's own rounding moves.
        """
        precision = ml_dtypes.finfo(want.dtype)
        size = np.abs(want.astype(np.float64))
        if self.at == "largest":
            size = np.full_like(size, np.max(size, where=np.isfinite(size), initial=0))
        return float(precision.eps) * np.maximum(size, 1 if self.at == "one" else float(precision.tiny))


SUMS: dict[str, Any] = {"tolerance": 16, "at": "largest"}  # of an array of ordinary numbers
Add = Callable[..., None]  # makes a Row of its arguments and adds it


def hostile(dtype: str, dims: tuple[int, ...] = (5, 7), seed: int = 0) -> tf.Tensor:
    """Special values first, then random ones, shuffled."""
    kind = tf.as_dtype(dtype)
    random = np.random.RandomState(seed)
    count = int(np.prod(dims))
    if kind.is_integer:
        info = np.iinfo(kind.as_numpy_dtype)
        values = np.array(
            ([info.min, info.max, 0, 1, 1, 2, 7] + [int(v) for v in random.randint(0, 40, count)])[:count],
            kind.as_numpy_dtype,
        )
    else:
        values = np.array((HOSTILE + list(random.randn(count) * 3))[:count])
        values = values + 1j * random.randn(count) if kind.is_complex else values
    random.shuffle(values)
    with np.errstate(all="ignore"):
        return tf.constant(values.reshape(dims).astype(kind.as_numpy_dtype))


def no_nan(values: tf.Tensor) -> tf.Tensor:
    """1 for NaN."""
    return tf.where(tf.math.is_nan(values), tf.ones_like(values), values)


def normal(dtype: str, *dims: int, seed: int = 1, shift: float = 0.0) -> tf.Tensor:
    """Ordinary numbers."""
    kind = tf.as_dtype(dtype)
    random = np.random.RandomState(seed)
    values = random.randn(*dims) + shift
    if kind.is_complex:
        values = values + 1j * random.randn(*dims)
    if kind.is_integer:
        values = random.randint(0, 9, dims)
    return tf.constant(np.asarray(values).astype(kind.as_numpy_dtype))


def one(dtype: str) -> list[Any]:
    return [hostile(dtype)]


def two(dtype: str) -> list[Any]:
    return [hostile(dtype), hostile(dtype, seed=3)]


def with_gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Value and gradients of the squares' sum."""

    def both(*args: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            value = fn(*args)
            loss = tf.reduce_sum(value * value)
        return value, tape.gradient(loss, args)

    return both
