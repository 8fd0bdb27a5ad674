"""The smallest step: what a call costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .task import Task

ELEMENTS = 128


def task() -> Task:
    return Task(_make, _data, ELEMENTS, _jax)


def _make() -> Callable[..., tf.Tensor]:
    return lambda x, y: tf.tanh(x) * y + 1.0


def _data(elements: int) -> list[tf.Tensor]:
    rng = np.random.default_rng(1)
    return [tf.constant(rng.standard_normal(elements).astype("f")) for _ in range(2)]


def _jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(lambda x, y: jnp.tanh(x) * y + 1.0)
    return lambda x, y: jax.block_until_ready(compiled(x, y))
