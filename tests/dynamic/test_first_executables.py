"""Functions whose signature leaves sizes open: the first executable is for all of them, equal to eager at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests import fresh
from tests.close import assert_near
from tfxla_cluster import counters, flags

SIZES = (5, 8, 13, 22, 31, 64, 65, 100)
TRIMMED = (2, 18, 5, 8, 13, 3, 31)  # a trim leaves none of the first

ours = pytest.fixture(autouse=True)(fresh.compiler)


def length(x: Any) -> Any:
    return tf.shape(x)[0]


def selected(x: Any, column: int = 0) -> Any:
    """A size that the run produces."""
    return tf.boolean_mask(x, x[:, column] > 0)


def as_images(x: Any) -> Any:
    """Of other sizes in both directions."""
    return tf.tile(tf.tanh(x)[None, :, :, None], [2, 1, 2, 3])[:, :, 3:]


ROWS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "resized to twice": (lambda x: tf.image.resize(as_images(x), tf.shape(as_images(x))[1:3] * 2), SIZES, 1),
    "resized to 20 by 24": (lambda x: tf.image.resize(as_images(x), (20, 24)), SIZES, 2),
    "nearest": (lambda x: tf.image.resize(as_images(x), (20, 24), method="nearest"), SIZES, 1),
    "bits": (lambda x: tf.bitwise.bitwise_xor(tf.bitcast(x, tf.int32), tf.size(x)), SIZES, 1),
    "bits of the size": (lambda x: x + tf.cast(tf.bitwise.bitwise_and(length(x), 7), tf.float32), SIZES, 2),
    "reflected": (lambda x: tf.pad(x, [[2, 2], [1, 0]], "REFLECT"), SIZES, 1),
    "mirrored": (lambda x: tf.pad(x, [[2, 2], [1, 0]], "SYMMETRIC"), SIZES, 1),
    "the middle": (lambda x: x[length(x) // 2], SIZES, 2),
    "every thousandth": (lambda x: x[::1000] * 2.0, SIZES, 1),
    "every third": (lambda x: x[::3] * 2.0, SIZES, 1),
    "sums of what is selected": (lambda x: tf.cumsum(selected(x)), SIZES, 1),
    "joined": (lambda x: tf.concat([selected(x), x, selected(x, 1)], 0), SIZES, 1),
    "padded": (lambda x: tf.pad(selected(x), [[1, 2], [0, 0]]), SIZES, 1),
    "trimmed": (lambda x: x[2:-2] * 2.0, TRIMMED, 1),
    "trimmed twice": (lambda x: x[1:-2][:-1] * 2.0, TRIMMED, 1),
    "the first 6": (lambda x: x[:6] * 2.0, TRIMMED, 1),
}
NEVER_SMALL = ("resized to twice", "resized to 20 by 24", "nearest", "reflected", "mirrored", "the middle")


@pytest.mark.parametrize("verify", ["always", "off"])
@pytest.mark.parametrize("name", ROWS)
def test_the_first_is_for_all(name: str, verify: str) -> None:
    function, sizes, most = ROWS[name]
    spec = [tf.TensorSpec([None, 6], tf.float32)]
    with flags.patch(tfxla_dynamic_verify=verify):
        jitted, before = tf.function(function, input_signature=spec, jit_compile=True), counters.snapshot()
        for size in (*sizes, 0, 1):
            x = tf.constant(np.random.default_rng(size).standard_normal((size, 6)).astype(np.float32))
            if size > 1 or name not in NEVER_SMALL:
                assert_near(jitted(x), function(x), 1e-6, f"{name} at {size}")
            if size == sizes[-1]:
                assert counters.snapshot()["compilations"] - before["compilations"] <= most
