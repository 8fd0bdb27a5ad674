"""What a row of the benchmark of single functions is, and its random inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One case: `tf_fn` and `jax_fn` take the inputs that `make` gives, in order; so does `np_fn`, a peer too.
    `torch_fn` takes the module torch before them: it is imported in another process."""

    case: str
    family: str
    make: Callable[[], list[Any]]
    tf_fn: Callable[..., Any]
    jax_fn: Callable[..., Any]
    torch_fn: Callable[..., Any]
    flops: float = 0.0
    np_fn: Callable[..., Any] | None = None


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
