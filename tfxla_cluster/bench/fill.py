"""Random data for inputs of which only size and dtype are given, drawn as tokamax draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np
import tensorflow as tf

from ..errors import UsageError

Init = Union[Callable[[tf.TensorSpec], Any], None]
"""What a user may give to fill inputs: from the specification of one to its value."""
_LOW, _HIGH = -128, 127  # of integers, within the dtype


class Filler:
    """Values for specifications, one after another: those of one seed are always the same."""

    def __init__(self, seed: int, init: Init = None) -> None:
        self._generator, self._init = np.random.default_rng(seed), init

    def value(self, spec: tf.TensorSpec, what: str) -> tf.Tensor:
        """Floats and complex numbers are standard normal, Booleans true in half of the cases, integers between -128
        and 127 as far as the dtype goes; `init`'s where there is one. `what`: the input, in words. UsageError for a
        size that is not known, a dtype that has no such values, and an `init` that gives something else."""
        if not spec.shape.is_fully_defined():
            raise UsageError(f"{what} is {spec.shape} of {spec.dtype.name}: a size is not known", "Give each size")
        shape = tuple(spec.shape.as_list())
        value = self._drawn(shape, spec.dtype, what) if self._init is None else self._init(spec)
        try:
            tensor = tf.convert_to_tensor(value, spec.dtype)
        except (TypeError, ValueError) as error:
            raise UsageError(f"init gave no {spec.dtype.name} for {what}: {error}") from None
        if tensor.shape != spec.shape:
            raise UsageError(f"init gave sizes {tensor.shape} for {what}, which has {spec.shape}")
        return tensor

    def _drawn(self, shape: tuple[int, ...], dtype: tf.DType, what: str) -> Any:
        if dtype.is_bool:
            return self._generator.random(shape) < 0.5
        if dtype.is_complex:
            return self._normal(shape) + 1j * self._normal(shape)
        if dtype.is_floating:
            return tf.cast(self._normal(shape), dtype)
        if dtype.is_integer:
            return tf.cast(self._integers(shape, dtype), dtype)
        raise UsageError(f"{what} is of {dtype.name}, for which there is no random data", "Give a value")

    def _normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self._generator.standard_normal(shape))

    def _integers(self, shape: tuple[int, ...], dtype: tf.DType) -> np.ndarray:
        low, high = max(_LOW, int(dtype.min)), min(_HIGH, int(dtype.max))
        return np.asarray(self._generator.integers(low, high, shape, endpoint=True))
