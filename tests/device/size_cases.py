"""Functions with one size that varies: for kernels that are compiled once for all sizes, beside those for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfxla_cluster.bench import gpu_products, gpu_rows
from tfxla_cluster.bench.gpu_rows import Draw, Function

BF16 = "bf16"
# Both sides of where kernels of rows change, multiples of 4, 8, 16 and others.
SPANS = (2, 3, 12, 250, 511, 512, 513, 999, 1000, 1024, 1025, 1500, 2048, 2049, 3000, 4100, 17000)
HOSTILE = (2, 3, 7, 13, 31, 48, 97, 128, 160, 257)


@dataclass(frozen=True)
class SizeCase:
    """`inputs` at a size; the module is made of two sizes, the second gives the samples. `checked`: sizes at which it
    is compared with the evaluator. `timed`: at which it is held beside kernels for that size alone. `ulps`: how far a
    result may be off, in those of its type."""

    name: str
    function: Function
    inputs: Callable[[int], tuple[Draw, ...]]
    made: tuple[int, int]
    timed: tuple[int, ...]
    checked: tuple[int, ...] = HOSTILE
    ulps: int = 64
    exact: bool = False

    def row(self, size: int) -> gpu_rows.GpuRow:
        """As a row of the benchmark, which TensorFlow's bridge lowers."""
        file = f"{self.name} {size}"
        return gpu_rows.GpuRow(file, "sizes", self.inputs(size), self.function, self.function, exact=self.exact)


def _f32(*shape: int) -> tuple[Draw, ...]:
    return (Draw(shape),)


def _attention(mask: str, gradient: bool) -> Function:
    forward = gpu_products._attention_tf(mask)
    return gpu_products._gradient_tf(forward) if gradient else forward


def _heads(count: int, *shape: int) -> tuple[Draw, ...]:
    return (Draw(shape, BF16),) * count


def _dense(tf: Any, x: Any, w: Any, b: Any) -> Any:
    return tf.nn.gelu(x @ w + b, approximate=True)


def _window(tf: Any, x: Any, w: Any) -> Any:
    return tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME"))


def _window_gradient(tf: Any, x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        loss = tf.reduce_sum(tf.nn.conv2d(x, w, 1, "SAME") ** 2)
    return tape.gradient(loss, (x, w))


def _dropout(tf: Any, x: Any) -> Any:
    kept = tf.random.stateless_uniform(tf.shape(x), (1, 2)) >= 0.1
    return tf.where(kept, x / 0.9, 0.0)


def _image(n: int) -> tuple[Draw, ...]:
    return Draw((8, n, n, 32), BF16), Draw((3, 3, 32, 64), BF16, scale=0.1)


def _images(n: int) -> tuple[Draw, ...]:
    return Draw((n, 28, 28, 32), BF16), Draw((3, 3, 32, 64), BF16, scale=0.1)


ROWS = {"made": (2048, 16384), "timed": (16384, 5000)}
COLUMNS = {"made": (1024, 4096), "timed": (4096, 2048, 1024, 3000)}
TOKENS = {"made": (1024, 8192), "timed": (8192, 32768), "ulps": 16}
LENGTHS = {"made": (128, 512), "timed": (512, 256, 1024), "checked": (2, 7, 31, 48, 97, 128, 160), "ulps": 16}

CASES: list[SizeCase] = [
    SizeCase("x+y*z, rows", lambda tf, x, y, z: x + y * z, lambda n: _f32(n, 4096) * 3, **ROWS),
    SizeCase("x+y*z, columns", lambda tf, x, y, z: x + y * z, lambda n: _f32(16384, n) * 3, **COLUMNS),
    SizeCase("x+b, columns", lambda tf, x, b: x + b, lambda n: _f32(16384, n) + _f32(n), **COLUMNS),
    SizeCase("gelu of n", lambda tf, x: tf.nn.gelu(x, approximate=True), _f32, (1 << 20, 1 << 22), (1 << 24,)),
    SizeCase("softmax, rows", lambda tf, x: tf.nn.softmax(x), lambda n: _f32(n, 4096), **ROWS),
    SizeCase("softmax, columns", lambda tf, x: tf.nn.softmax(x), lambda n: _f32(16384, n), **COLUMNS),
    SizeCase(
        "layer norm bf16, rows",
        gpu_rows._norm_tf,
        lambda n: (Draw((n, 768), BF16), Draw((768,)), Draw((768,))),
        (2048, 8192),
        (32768, 5000),
        ulps=2,
    ),
    SizeCase(
        "layer norm bf16, gradient, rows",
        gpu_rows._norm_gradient_tf,
        lambda n: (Draw((n, 768), BF16), Draw((768,)), Draw((n, 768), BF16)),
        (2048, 8192),
        (32768,),
        ulps=64,
    ),
    SizeCase("layer norm, columns", gpu_rows._norm_tf, lambda n: _f32(16384, n) + _f32(n) * 2, **COLUMNS),
    SizeCase("sum of columns, rows", lambda tf, x: tf.reduce_sum(x, 0), lambda n: _f32(n, 4096), **ROWS, ulps=4096),
    SizeCase(
        "sum of columns, columns", lambda tf, x: tf.reduce_sum(x, 0), lambda n: _f32(4096, n), **COLUMNS, ulps=4096
    ),
    SizeCase("sum of rows, columns", lambda tf, x: tf.reduce_sum(x, 1), lambda n: _f32(16384, n), **COLUMNS, ulps=4096),
    SizeCase("whole sum", lambda tf, x: tf.reduce_sum(x), lambda n: _f32(n, 4096), **ROWS, ulps=1 << 16),
    SizeCase(
        "transpose(x+b), columns", lambda tf, x, b: tf.transpose(x + b), lambda n: _f32(4096, n) + _f32(n), **COLUMNS
    ),
    SizeCase(
        "transpose(x+b), rows", lambda tf, x, b: tf.transpose(x + b), lambda n: _f32(n, 1024) + _f32(1024), **ROWS
    ),
    SizeCase("argmax, columns", lambda tf, x: tf.argmax(x, 1, tf.int32), lambda n: _f32(16384, n), **COLUMNS, ulps=0),
    SizeCase("cumsum, columns", lambda tf, x: tf.cumsum(x, 1), lambda n: _f32(4096, n), **COLUMNS, ulps=4096),
    SizeCase("cumsum, rows", lambda tf, x: tf.cumsum(x, 0), lambda n: _f32(n, 1024), **ROWS, ulps=4096),
    SizeCase("dropout, rows", _dropout, lambda n: _f32(n, 1024), **ROWS),
    SizeCase("concat, columns", lambda tf, x, y: tf.concat([x[:, 1:], y], 1), lambda n: _f32(4096, n) * 2, **COLUMNS),
    SizeCase(
        "dense bf16, rows",
        _dense,
        lambda n: (Draw((n, 768), BF16), Draw((768, 3072), BF16, scale=0.03), Draw((3072,), BF16)),
        **TOKENS,
    ),
    SizeCase(
        "weight gradient bf16, rows",
        lambda tf, x, g: tf.matmul(x, g, transpose_a=True),
        lambda n: (Draw((n, 768), BF16), Draw((n, 768), BF16)),
        **TOKENS,
    ),
    SizeCase(
        "product bf16, columns",
        lambda tf, x, y: x @ y,
        lambda n: (Draw((2048, n), BF16), Draw((n, 2048), BF16)),
        (512, 2048),
        (2048, 1024),
        ulps=16,
    ),
    SizeCase(
        "product bf16, square",
        lambda tf, x, y: x @ y,
        lambda n: (Draw((n, n), BF16),) * 2,
        (512, 2048),
        (2048, 4096),
        ulps=16,
    ),
    SizeCase(
        "product f32, rows",
        lambda tf, x, y: x @ y,
        lambda n: _f32(n, 512) + _f32(512, 512),
        (512, 4096),
        (4096,),
        ulps=512,
        exact=True,
    ),
    SizeCase(
        "products of batches, rows",
        lambda tf, x, y: x @ y,
        lambda n: (Draw((n, 128, 64), BF16), Draw((n, 64, 128), BF16)),
        (64, 256),
        (512,),
        ulps=16,
    ),
    SizeCase(
        "attention with mask, batch",
        _attention("mask", False),
        lambda n: (*_heads(3, n, 12, 512, 64), Draw((n, 1, 1, 512), BF16)),
        (16, 32),
        (64,),
        (2, 3, 5),
        ulps=16,
    ),
    SizeCase(
        "attention with mask, gradient, batch",
        _attention("mask", True),
        lambda n: (*_heads(4, n, 12, 512, 64), Draw((n, 1, 1, 512), BF16)),
        (16, 32),
        (64,),
        (2, 3),
        ulps=64,
    ),
    SizeCase("attention, length", _attention("", False), lambda n: _heads(3, 16, 12, n, 64), **LENGTHS),
    SizeCase(
        "attention, gradient, length",
        _attention("", True),
        lambda n: _heads(4, 16, 12, n, 64),
        (128, 512),
        (512, 256, 1024),
        (2, 7, 31, 48, 97, 128),
        ulps=128,
    ),
    SizeCase(
        "causal attention, length",
        _attention("causal", False),
        lambda n: _heads(3, 16, 12, n, 64),
        **{**LENGTHS, "checked": (2, 7, 31, 48, 97)},
    ),
    SizeCase("sort of n", lambda tf, x: tf.sort(x), _f32, (100_000, 300_000), (1_000_000,), ulps=0),
    SizeCase("sort of rows", lambda tf, x: tf.sort(x, 1), lambda n: _f32(n, 256), (256, 1024), (4096,), ulps=0),
    SizeCase("sort of rows of n", lambda tf, x: tf.sort(x, 1), lambda n: _f32(64, n), (256, 1024), (2048,), ulps=0),
    SizeCase(
        "top 10", lambda tf, x: tf.math.top_k(x, 10)[0], lambda n: _f32(n, 5000), (256, 512), (1024,), (2, 3, 7), ulps=0
    ),
    SizeCase(
        "scatter, rows",
        lambda tf, g, i: tf.math.unsorted_segment_sum(g, i, 3000),
        lambda n: (Draw((n, 256)), Draw((n,), "s32", 3000)),
        (4096, 16384),
        (65536,),
        ulps=512,
    ),
    SizeCase(
        "gather, rows",
        lambda tf, x, i: tf.gather(x, i),
        lambda n: (Draw((3000, 1024)), Draw((n,), "s32", 3000)),
        (4096, 16384),
        (65536,),
        ulps=0,
    ),
    SizeCase("convolution, batch", _window, _images, (32, 64), (256,), (2, 3, 7, 16), ulps=16),
    SizeCase("convolution, image", _window, _image, (32, 64), (56, 128), (2, 3, 7, 16, 31), ulps=16),
    SizeCase("convolution, gradient, batch", _window_gradient, _images, (32, 64), (256,), (2, 3, 7), ulps=128),
    SizeCase("convolution, gradient, image", _window_gradient, _image, (32, 64), (56,), (2, 3, 7, 16), ulps=128),
    *(
        SizeCase(
            f"{name} of few rows", function, inputs, (300, 1000), (), SPANS[:-3] if name == "cumsum" else SPANS, ulps
        )
        for name, function, inputs, ulps in (
            ("x+b", lambda tf, x, b: x + b, lambda n: _f32(40, n) + _f32(n), 0),
            ("softmax", lambda tf, x: tf.nn.softmax(x), lambda n: _f32(40, n), 64),
            ("layer norm", gpu_rows._norm_tf, lambda n: _f32(40, n) + _f32(n) * 2, 512),
            ("sum", lambda tf, x: tf.reduce_sum(x, 1), lambda n: _f32(40, n), 1 << 14),
            ("sum of pairs", lambda tf, x: tf.reduce_sum(x, [1, 2]), lambda n: _f32(40, n, 3), 1 << 14),
            ("argmax", lambda tf, x: tf.argmax(x, 1, tf.int32), lambda n: _f32(40, n), 0),
            ("cumsum", lambda tf, x: tf.cumsum(x, 1), lambda n: _f32(40, n), 1 << 14),
            ("transpose", lambda tf, x: tf.transpose(x * 2), lambda n: _f32(40, n), 0),
            ("concat", lambda tf, x, y: tf.concat([x[:, 1:], y], 1), lambda n: _f32(40, n) * 2, 0),
            ("product", lambda tf, x, y: x @ y, lambda n: (Draw((40, n), BF16), Draw((n, 72), BF16)), 16),
            ("product of columns", lambda tf, x, y: x @ y, lambda n: (Draw((40, 64), BF16), Draw((64, n), BF16)), 16),
        )
    ),
]
