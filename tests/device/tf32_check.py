"""How far gradients of a chain of f32 convolutions are from f64's, with TensorFlow's switch for tf32 on and off.

    python -m tests.device.tf32_check

A line for eager TensorFlow, its graph, stock jit_compile and this package's must-compile: the largest difference of the
loss, of the image's gradient and of each window's, as a part of the largest element. The chain normalises, by which its
gradients amplify what products lose. Exit code 1 where with the switch off ours are further off than LIMIT, or not
native.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfxla_cluster

LIMIT = 1e-4
WINDOWS = 5


def loss(x: Any, *windows: Any) -> Any:
    for window in windows:
        x = tf.nn.relu(tf.nn.conv2d(x, window, 1, "SAME"))
        x = x - tf.reduce_mean(x, [0, 1, 2], keepdims=True)
        x = x * tf.math.rsqrt(tf.reduce_mean(x * x, [0, 1, 2], keepdims=True) + 1e-3)
    return tf.reduce_mean(x * x * x)


def gradients(*inputs: Any) -> list[Any]:
    """The loss, and its gradients by the image and the windows."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = loss(*inputs)
    return [value, *tape.gradient(value, inputs)]


def drawn(side: int, features: int) -> list[np.ndarray]:
    """f32: an image, and WINDOWS windows."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((8, side, side, features)).astype("f")
    return [image, *(rng.standard_normal((3, 3, features, features)).astype("f") * 0.08 for _ in range(WINDOWS))]


def errors(found: Sequence[Any], wanted: Sequence[np.ndarray]) -> list[float]:
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, wanted, strict=True)]


def ours(inputs: Sequence[Any]) -> tuple[list[Any], bool]:
    """(what must-compile by this package gives, whether all of it is native)."""
    before = tfxla_cluster.stats()
    with tfxla_cluster.enable(tf_xla_auto_jit="0"):
        found = tf.function(gradients, jit_compile=True)(*inputs)
    after = tfxla_cluster.stats()
    grown = {name: after[name] - before[name] for name in ("kernels", "native_kernels", "fallbacks")}
    return list(found), not grown["fallbacks"] and 0 < grown["kernels"] == grown["native_kernels"]


def check(side: int = 28, features: int = 32) -> bool:
    """Prints the lines; whether ours are right with the switch off."""
    arrays = drawn(side, features)
    with tf.device("/CPU:0"):
        wanted = [t.numpy() for t in gradients(*(tf.constant(a.astype("f8")) for a in arrays))]
    is_right = True
    for tf32 in (True, False):
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        inputs = [tf.constant(a) for a in arrays]
        ways: dict[str, Callable[..., Any]] = {
            "eager": gradients,
            "graph": tf.function(gradients),
            "stock jit": tf.function(gradients, jit_compile=True),
        }
        rows = {name: errors(way(*inputs), wanted) for name, way in ways.items()}
        found, native = ours(inputs)
        rows["ours"] = errors(found, wanted)
        for name, row in rows.items():
            print(f"tf32 {'on' if tf32 else 'off':3} {name:9} {' '.join(f'{e:.1e}' for e in row)}", flush=True)
        is_right &= native and (tf32 or max(rows["ours"]) <= LIMIT)
    return is_right


if __name__ == "__main__":
    sys.exit(int(not check()))
