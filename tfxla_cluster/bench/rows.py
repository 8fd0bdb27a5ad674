"""The benchmark rows: one table. Each row is written once for TensorFlow, once for JAX and once for PyTorch.

`make()` gives NumPy inputs (f32 standard normal unless the row says otherwise). `bytes`: each input
read once, each output written once. `flops`: multiply-adds count two; 0 for memory-bound rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import contraction_rows, memory_rows
from .row import Row


class _Absent:
    """A library that this process is not to import: rows name its functions, and none is called."""

    def __getattr__(self, name: str) -> _Absent:
        return self

    def __call__(self, *args: object, **kwargs: object) -> _Absent:
        return self


def all_rows() -> list[Row]:
    """With TensorFlow and JAX imported."""
    import jax
    import tensorflow as tf

    return _rows(tf, jax)


def torch_fn(case: str) -> Callable[..., Any]:
    """That of a row, with neither TensorFlow nor JAX imported."""
    (found,) = [row.torch_fn for row in _rows(_Absent(), _Absent()) if row.case == case]
    return found


def _rows(tf: Any, jax: Any) -> list[Row]:
    return [*memory_rows.rows(tf, jax), *contraction_rows.rows(tf, jax)]
