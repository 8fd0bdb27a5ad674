"""The GPU's benchmark rows: one table. Each row is written once for TensorFlow and once for PyTorch.

XLA and JAX run the HLO that TensorFlow's bridge makes of a row, so all three compute the same module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

N, M = 16384, 4096
TOKENS, WIDTH, INNER = 32768, 768, 3072  # of a BERT-base step: 64 sequences of 512
Function = Callable[..., Any]  # takes the library (tensorflow or torch), then the inputs


@dataclass(frozen=True, slots=True)
class Draw:
    """An input: standard normal times `scale`, or integers from 0 to `below` - 1. `dtype`: HLO's name."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    below: int = 0
    scale: float = 1.0


@dataclass(frozen=True)
class GpuRow:
    """One case. `peers`: further named PyTorch forms besides eager and compiled ones. `flops`: multiply-adds count two;
    0 for memory-bound rows. `tolerance`: largest error allowed, as a part of the largest element. `exact`: f32 is
    multiplied in f32, with TensorFlow's switch for tf32 off (PyTorch's is)."""

    case: str
    family: str
    inputs: tuple[Draw, ...]
    tf_fn: Function
    torch_fn: Function
    flops: float = 0.0
    peers: Mapping[str, Function] = field(default_factory=dict)
    tolerance: float = 1e-4
    exact: bool = False

    @property
    def file(self) -> str:
        """The case as a file's name."""
        return "".join(c if c.isalnum() else "_" for c in self.case)


@contextmanager
def switched(tf: Any, row: GpuRow) -> Iterator[None]:
    """TensorFlow multiplies f32 as the row wants it, in a `with` block."""
    switch = tf.config.experimental
    before = switch.tensor_float_32_execution_enabled()
    switch.enable_tensor_float_32_execution(before and not row.exact)
    try:
        yield
    finally:
        switch.enable_tensor_float_32_execution(before)


def _memory(case: str, inputs: tuple[Draw, ...], tf_fn: Function, torch_fn: Function, **rest: Any) -> GpuRow:
    return GpuRow(case, "memory", inputs, tf_fn, torch_fn, **rest)


def _norm_tf(tf: Any, x: Any, scale: Any, offset: Any) -> Any:
    wide = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(wide, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(wide, mean), -1, keepdims=True)
    return tf.cast((wide - mean) * tf.math.rsqrt(variance + 1e-5) * scale + offset, x.dtype)


def _norm_torch(torch: Any, x: Any, scale: Any, offset: Any) -> Any:
    wide = torch.nn.functional.layer_norm(x.float(), x.shape[-1:], scale, offset, 1e-5)
    return wide.to(x.dtype)


def _norm_gradient_tf(tf: Any, x: Any, scale: Any, g: Any) -> Any:
    """Gradients by x, scale and offset."""
    wide, dy = tf.cast(x, tf.float32), tf.cast(g, tf.float32)
    centred = wide - tf.reduce_mean(wide, -1, keepdims=True)
    rstd = tf.math.rsqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + 1e-5)
    y, s = centred * rstd, dy * scale
    inner = s - tf.reduce_mean(s, -1, keepdims=True) - y * tf.reduce_mean(s * y, -1, keepdims=True)
    return tf.cast(inner * rstd, x.dtype), tf.reduce_sum(dy * y, 0), tf.reduce_sum(dy, 0)


def _norm_gradient_torch(torch: Any, x: Any, scale: Any, g: Any) -> Any:
    wide, dy = x.float(), g.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
    y, s = centred * rstd, dy * scale
    inner = s - s.mean(-1, keepdim=True) - y * (s * y).mean(-1, keepdim=True)
    return (inner * rstd).to(x.dtype), (dy * y).sum(0), dy.sum(0)


def _gelu_torch(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _cross_entropy_tf(tf: Any, z: Any, y: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=z))


def _adam_tf(tf: Any, p: Any, m: Any, v: Any, g: Any) -> Any:
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-4 * (first / (tf.sqrt(second) + 1e-6) + 0.01 * p), first, second


def _adam_torch(torch: Any, p: Any, m: Any, v: Any, g: Any) -> Any:
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-4 * (first / (torch.sqrt(second) + 1e-6) + 0.01 * p), first, second


def _chain(lib: Any, x: Any) -> Any:
    """40 elementwise ops."""
    for _ in range(10):
        x = lib.tanh(x) * 1.25 + 0.5 - x
    return x


def _dependent(mean: Callable[[Any, Any, int], Any]) -> Function:
    """Eight groups of five ops, in each the means over columns, or rows: a group needs all of the one before."""

    def fn(lib: Any, x: Any) -> Any:
        for n in range(8):
            x = lib.tanh(x) * 1.25 + 0.5 - mean(lib, x, n % 2)
        return x

    return fn


def memory_rows() -> list[GpuRow]:
    """Rows that the bytes they move bound."""
    one = (Draw((N, M)),)
    three = (Draw((N, M)),) * 3
    tokens = Draw((TOKENS, WIDTH), "bf16")
    return [
        _memory("x+y*z", three, lambda tf, x, y, z: x + y * z, lambda t, x, y, z: x + y * z),
        _memory(
            "sum(x+y*z)",
            three,
            lambda tf, x, y, z: tf.reduce_sum(x + y * z),
            lambda t, x, y, z: (x + y * z).sum(),
            tolerance=1e-2,  # the terms cancel
        ),
        _memory("softmax", one, lambda tf, x: tf.nn.softmax(x), lambda t, x: t.softmax(x, -1)),
        _memory("layer norm", (Draw((N, M)), Draw((M,)), Draw((M,))), _norm_tf, _norm_torch),
        _memory("gelu", one, lambda tf, x: tf.nn.gelu(x, approximate=True), _gelu_torch),
        _memory(
            "sigmoid(x)*tanh(y)+exp(-x*x)",
            (Draw((N, M)),) * 2,
            lambda tf, x, y: tf.sigmoid(x) * tf.tanh(y) + tf.exp(-x * x),
            lambda t, x, y: t.sigmoid(x) * t.tanh(y) + t.exp(-x * x),
        ),
        _memory("sum axis 0", one, lambda tf, x: tf.reduce_sum(x, 0), lambda t, x: x.sum(0)),
        _memory("argmax axis 1", one, lambda tf, x: tf.argmax(x, 1, tf.int32), lambda t, x: x.argmax(1).int()),
        _memory(
            "transpose(x+b)",
            (Draw((N, M)), Draw((M,))),
            lambda tf, x, b: tf.transpose(x + b),
            lambda t, x, b: (x + b).t().contiguous(),
        ),
        _memory(
            "sparse cross entropy",
            (Draw((N, M)), Draw((N,), "s32", M)),
            _cross_entropy_tf,
            lambda t, z, y: t.nn.functional.cross_entropy(z, y.long()),
        ),
        _memory(
            "concat(x[:,1:],pad(y))*2",
            (Draw((N, M)),) * 2,
            lambda tf, x, y: tf.concat([x[:, 1:], tf.pad(y, [[0, 0], [1, 1]])], 1) * 2.0,
            lambda t, x, y: t.cat([x[:, 1:], t.nn.functional.pad(y, (1, 1))], 1) * 2.0,
        ),
        _memory("cumsum axis 1", one, lambda tf, x: tf.cumsum(x, 1), lambda t, x: x.cumsum(1), tolerance=1e-3),
        _memory(
            "gather rows",
            (Draw((30000, 1024)), Draw((65536,), "s32", 30000)),
            lambda tf, x, i: tf.gather(x, i),
            lambda t, x, i: x[i],
        ),
        _memory(
            "gather rows, gradient",
            (Draw((65536, 1024)), Draw((65536,), "s32", 30000)),
            lambda tf, g, i: tf.math.unsorted_segment_sum(g, i, 30000),
            lambda t, g, i: t.zeros((30000, 1024), device=g.device).index_add(0, i, g),
        ),
        _memory("layer norm bf16 768", (tokens, Draw((WIDTH,)), Draw((WIDTH,))), _norm_tf, _norm_torch, tolerance=1e-2),
        _memory(
            "layer norm bf16 768, gradient",
            (tokens, Draw((WIDTH,)), tokens),
            _norm_gradient_tf,
            _norm_gradient_torch,
            tolerance=1e-2,
        ),
        _memory(
            "bias gradient bf16",
            (Draw((TOKENS, INNER), "bf16"),),
            lambda tf, g: tf.reduce_sum(tf.cast(g, tf.float32), 0),
            lambda t, g: g.float().sum(0),
        ),
        _memory(
            "AdamW 16384x4096",
            (Draw((N, M)), Draw((N, M)), Draw((N, M), scale=0.0), Draw((N, M))),
            _adam_tf,
            _adam_torch,
        ),
        GpuRow("40 elementwise ops on 65536", "launch", (Draw((65536,)),), _chain, _chain, tolerance=1e-3),
        GpuRow(
            "8 dependent groups on 256x256",
            "launch",
            (Draw((256, 256)),),
            _dependent(lambda tf, x, axis: tf.reduce_mean(x, axis, keepdims=True)),
            _dependent(lambda t, x, axis: x.mean(axis, keepdim=True)),
            tolerance=1e-3,
        ),
    ]
