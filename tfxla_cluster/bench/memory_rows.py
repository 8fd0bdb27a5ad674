"""Rows of functions that memory bounds, 4096x1024 unless named otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .row import Row, normal

N, M = 4096, 1024
LOWEST = float(np.finfo(np.float32).min)  # TensorFlow's largest of no numbers


def one() -> list[Any]:
    return [normal(N, M)]


def two() -> list[Any]:
    return [normal(N, M), normal(N, M, seed=1)]


def three() -> list[Any]:
    return [normal(N, M, seed=i) for i in range(3)]


def table() -> list[Any]:
    """Rows of 256 numbers, and which of them to take."""
    return [normal(30000, 256), np.random.default_rng(2).integers(0, 30000, 16384).astype(np.int32)]


def table_gradient() -> list[Any]:
    """The gradient of each row taken from the table, and which row that was."""
    return [normal(16384, 256), table()[1]]


def segments() -> list[Any]:
    """Rows of 64 numbers, and which of 4000 segments each is of."""
    return [normal(60000, 64), np.random.default_rng(4).integers(0, 4000, 60000).astype(np.int32)]


def rows(tf: Any, jax: Any) -> list[Row]:
    jnp = jax.numpy

    def layer_norm(lib_mean: Any, rsqrt: Any) -> Callable[..., Any]:
        def fn(x: Any, scale: Any, offset: Any) -> Any:
            mean = lib_mean(x)
            centred = x - mean
            return centred * rsqrt(lib_mean(centred * centred) + 1e-5) * scale + offset

        return fn

    def cross_entropy_jax(z: Any, y: Any) -> Any:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1))

    columns_of: list[tuple[Any, ...]] = [  # case, inputs, the function for TensorFlow, JAX and PyTorch
        ("softmax", one, tf.nn.softmax, jax.nn.softmax, lambda torch, x: torch.softmax(x, -1)),
        (
            "layer norm",
            lambda: [normal(N, M), normal(M, seed=1), normal(M, seed=2)],
            layer_norm(lambda v: tf.reduce_mean(v, -1, keepdims=True), tf.math.rsqrt),
            layer_norm(lambda v: jnp.mean(v, -1, keepdims=True), jax.lax.rsqrt),
            lambda torch, x, scale, offset: torch.nn.functional.layer_norm(x, (M,), scale, offset),
        ),
        (
            "sum(x+y*z)",
            three,
            lambda x, y, z: tf.reduce_sum(x + y * z),
            lambda x, y, z: jnp.sum(x + y * z),
            lambda torch, x, y, z: torch.sum(x + y * z),
        ),
        ("x+y*z", three, lambda x, y, z: x + y * z, lambda x, y, z: x + y * z, lambda torch, x, y, z: x + y * z),
        (
            "gelu",
            one,
            lambda x: tf.nn.gelu(x, approximate=True),
            lambda x: jax.nn.gelu(x, approximate=True),
            lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
        ),
        (
            "sigmoid(x)*tanh(y)+exp(-x*x)",
            two,
            lambda x, y: tf.sigmoid(x) * tf.tanh(y) + tf.exp(-x * x),
            lambda x, y: jax.nn.sigmoid(x) * jnp.tanh(y) + jnp.exp(-x * x),
            lambda torch, x, y: torch.sigmoid(x) * torch.tanh(y) + torch.exp(-x * x),
        ),
        ("sum axis 0", one, lambda x: tf.reduce_sum(x, 0), lambda x: jnp.sum(x, 0), lambda torch, x: torch.sum(x, 0)),
        (
            "argmax axis 1",
            one,
            lambda x: tf.argmax(x, 1, tf.int32),
            lambda x: jnp.argmax(x, 1),
            lambda torch, x: torch.argmax(x, 1).to(torch.int32),
        ),
        (
            "transpose(x+b)",
            lambda: [normal(N, M), normal(M, seed=1)],
            lambda x, b: tf.transpose(x + b),
            lambda x, b: (x + b).T,
            lambda torch, x, b: (x + b).T.contiguous(),
        ),
        (
            "sparse cross entropy",
            lambda: [normal(N, M), np.random.default_rng(3).integers(0, M, N).astype(np.int32)],
            lambda z, y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=z)),
            cross_entropy_jax,
            lambda torch, z, y: torch.nn.functional.cross_entropy(z, y.long()),
        ),
        (
            "concat(x[:,1:],pad(y))*2",
            two,
            lambda x, y: tf.concat([x[:, 1:], tf.pad(y, [[0, 0], [1, 1]])], 1) * 2.0,
            lambda x, y: jnp.concatenate([x[:, 1:], jnp.pad(y, ((0, 0), (1, 1)))], 1) * 2.0,
            lambda torch, x, y: torch.cat([x[:, 1:], torch.nn.functional.pad(y, (1, 1))], 1) * 2.0,
        ),
        (
            "cumsum axis 1",
            one,
            lambda x: tf.cumsum(x, 1),
            lambda x: jnp.cumsum(x, 1),
            lambda torch, x: torch.cumsum(x, 1),
        ),
        ("gather rows", table, tf.gather, lambda t, i: t[i], lambda torch, t, i: t[i]),
        (
            "gather rows, gradient",
            table_gradient,
            lambda g, i: tf.math.unsorted_segment_sum(g, i, 30000),
            lambda g, i: jnp.zeros((30000, 256), jnp.float32).at[i].add(g),
            lambda torch, g, i: torch.zeros(30000, 256).index_add(0, i, g),
        ),
        (
            "unsorted_segment_sum",
            segments,
            lambda x, i: tf.math.unsorted_segment_sum(x, i, 4000),
            lambda x, i: jax.ops.segment_sum(x, i, 4000),
            lambda torch, x, i: torch.zeros(4000, 64).index_add(0, i, x),
        ),
        (
            "unsorted_segment_max",
            segments,
            lambda x, i: tf.math.unsorted_segment_max(x, i, 4000),
            lambda x, i: jax.ops.segment_max(x, i, 4000),
            lambda torch, x, i: torch.full((4000, 64), LOWEST).index_reduce(0, i, x, "amax"),
        ),
        ("sort 1e6", lambda: [normal(1_000_000)], tf.sort, jnp.sort, lambda torch, x: torch.sort(x)[0]),
        (
            "top-k 8",
            one,
            lambda x: tuple(tf.math.top_k(x, 8)),
            lambda x: jax.lax.top_k(x, 8),
            lambda torch, x: tuple(part.to(kind) for part, kind in zip(torch.topk(x, 8), (x.dtype, torch.int32))),
        ),
        *_pair_functions(tf, jax),
    ]
    numpy: dict[str, Callable[..., Any]] = {"sort 1e6": np.sort, "cumsum axis 1": lambda x: np.cumsum(x, 1)}
    return [
        Row(case, "memory", make, tf_fn, jax_fn, torch_fn, np_fn=numpy.get(case))
        for case, make, tf_fn, jax_fn, torch_fn in columns_of
    ]


def _pair_functions(tf: Any, jax: Any) -> list[tuple[Any, ...]]:
    """Gradients of functions of all pairs of 1500 points in 3 dimensions, by the points, of each library's own
    differentiation."""
    jnp = jax.numpy

    def points() -> list[Any]:
        return [normal(1500, 3)]

    def squares(x: Any) -> Any:
        return ((x[:, None] - x[None]) ** 2).sum(-1)

    def tf_squares(x: Any) -> Any:
        return tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)

    def by_tf(energy: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x: tf.gradients(tf.reduce_sum(energy(tf_squares(x))), x)[0]

    def by_jax(energy: Callable[[Any], Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = jax.grad(lambda x: jnp.sum(energy(squares(x))))
        return made

    def by_torch(energy: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda torch, x: torch.func.grad(lambda v: energy(torch, squares(v)).sum())(x)

    def far(eye: Callable[[int], Any], d: Any) -> Any:
        return d + 1e9 * eye(1500)  # no point is its own neighbour

    return [
        (
            "N-body force",
            points,
            by_tf(lambda d: tf.math.rsqrt(d + 1e-2)),
            by_jax(lambda d: (d + 1e-2) ** -0.5),
            by_torch(lambda torch, d: torch.rsqrt(d + 1e-2)),
        ),
        (
            "nearest neighbour",
            points,
            by_tf(lambda d: tf.reduce_min(far(tf.eye, d), 1)),
            by_jax(lambda d: jnp.min(far(jnp.eye, d), 1)),
            by_torch(lambda torch, d: far(torch.eye, d).amin(1)),
        ),
        (
            "radial basis",
            points,
            by_tf(lambda d: tf.exp(-0.5 * d)),
            by_jax(lambda d: jnp.exp(-0.5 * d)),
            by_torch(lambda torch, d: torch.exp(-0.5 * d)),
        ),
    ]
