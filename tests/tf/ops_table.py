"""Some 150 TensorFlow ops: how to call each on hostile values, for which dtypes, how close results must be."""

# ruff: noqa: B008  (rows stay whole, and bind what they call)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

F32, FLOATS, WIDE = ("float32",), ("float32", "float16", "bfloat16", "float64"), ("float32", "float64")
INTS, COMPLEX = ("int32", "int64", "uint8"), ("complex64",)
NUMBERS = ("float32", "bfloat16", "int32")
HOSTILE = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, 1e-3, 1e4, -88.0, 1e-30]


@dataclass(frozen=True)
class Row:
    """`fn(*args)`; args are made for a dtype by `make`. tolerance: in units of precision of
    the result, or of 1 where that is larger (0: equal but for the sign of zero)."""

    name: str
    fn: Callable[..., Any]
    make: Callable[[str], list[Any]]
    dtypes: tuple[str, ...] = F32
    tolerance: float = 0


@dataclass
class Table:
    rows: list[Row] = field(default_factory=list)

    def add(
        self,
        name: str,
        fn: Callable[..., Any],
        make: Callable[[str], list[Any]],
        dtypes: tuple[str, ...] = F32,
        tolerance: float = 0,
    ) -> None:
        self.rows.append(Row(name, fn, make, dtypes, tolerance))


TABLE = Table()
add = TABLE.add


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


def _elementwise() -> None:
    m = tf.math
    for name in ("abs", "negative", "sign", "square"):
        add(name, getattr(m, name), one, FLOATS + INTS[:2])
    add("rint", m.rint, one, WIDE)
    for name in ("floor", "ceil", "round", "is_nan", "is_inf", "is_finite"):
        add(name, getattr(m, name), one, FLOATS)
    exact_ish = {"sqrt": 1, "rsqrt": 3, "reciprocal": 2}
    for name in (
        "sqrt",
        "rsqrt",
        "reciprocal",
        "exp",
        "expm1",
        "log",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "sigmoid",
        "softplus",
    ):
        more = ("float64",) if name in ("exp", "log", "sin", "tanh", "erf", "sqrt", "sigmoid", "expm1") else ()
        add(name, getattr(m, name), one, ("float32", "bfloat16", *more), exact_ish.get(name, 24))
    for name in ("lgamma", "digamma"):
        add(name, getattr(m, name), one, WIDE, 24)
    for name in ("erfinv", "ndtri", "bessel_i0e", "bessel_i1e"):
        add(name, getattr(m, name), one, F32, 64)
    for name in ("relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "softsign"):
        add(name, getattr(tf.nn, name), one, ("float32", "bfloat16"), 16)
    for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "angle", "conj", "real", "imag", "square"):
        add(f"complex_{name}", getattr(m, name), lambda d: [normal(d, 4, 5)], COMPLEX, 16)


def _binary() -> None:
    m = tf.math
    for name in ("add", "subtract", "multiply", "maximum", "minimum"):
        add(name, getattr(m, name), two, FLOATS + INTS)
    for name in ("divide", "divide_no_nan", "multiply_no_nan"):
        add(name, getattr(m, name), two, WIDE, 1)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        add(name, getattr(m, name), two, ("float32", "int32", "bfloat16"))
    for name in ("floordiv", "floormod", "truncatediv", "truncatemod"):
        fn = {"truncatediv": tf.truncatediv, "truncatemod": tf.truncatemod}.get(name) or getattr(m, name)
        add(name, fn, lambda d: [normal(d, 40) - 4, normal(d, 40, seed=2) + 1], ("int32", "int64", "float32"))
    add("integer_division_by_zero", tf.math.floordiv, lambda d: [normal(d, 40), normal(d, 40, seed=2)], ("int32",))
    add("pow", m.pow, two, WIDE, 64)
    add("pow_int", m.pow, lambda d: [normal(d, 20) - 4, normal(d, 20, seed=2)], ("int32", "int64"))
    for name in ("atan2", "squared_difference", "xlogy", "xdivy", "xlog1py"):
        add(name, getattr(m, name), two, F32, 16)
    add("nextafter", m.nextafter, two, WIDE)
    for name in ("igamma", "igammac", "betainc", "zeta", "polygamma"):
        args = {
            "betainc": lambda d: [
                tf.abs(normal(d, 9)) + 1,
                tf.abs(normal(d, 9, seed=2)) + 1,
                tf.sigmoid(normal(d, 9, seed=3)),
            ],
            "polygamma": lambda d: [tf.constant([1.0, 2.0, 3.0], d), tf.constant([0.5, 1.5, 7.0], d)],
            "zeta": lambda d: [tf.abs(normal(d, 9)) + 2, tf.abs(normal(d, 9, seed=2)) + 1],
        }
        add(
            name,
            getattr(m, name),
            args.get(name, lambda d: [tf.abs(normal(d, 9)) + 0.1, tf.abs(normal(d, 9, seed=2))]),
            F32,
            512,
        )
    b = tf.bitwise
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        add(name, getattr(b, name), two, INTS)
    for name in ("left_shift", "right_shift"):
        add(name, getattr(b, name), lambda d: [hostile(d), normal(d, 5, 7) % 8], INTS)
        add(
            f"{name}_any",
            lambda x, y, f=getattr(b, name): (f(x, y), f(x, tf.cast(3, x.dtype)), f(x, tf.cast(99, x.dtype))),
            two,
            (*INTS, "int8", "uint16", "uint64"),
        )
    add("invert", b.invert, one, INTS)
    add("population_count", lambda x: tf.raw_ops.PopulationCount(x=x), lambda d: [hostile(d)], ("int32", "uint8"))
    for name in ("logical_and", "logical_or", "logical_xor"):
        add(name, getattr(m, name), lambda d: [hostile(d) > 0, hostile(d, seed=3) > 0])
    add("complex", tf.complex, lambda d: [normal(d, 4), normal(d, 4, seed=2)])
    add(
        "complex_multiply",
        lambda x, y: (x * y, x / y, x - y),
        lambda d: [normal(d, 9), normal(d, 9, seed=2)],
        COMPLEX,
        8,
    )


def _reductions() -> None:
    m = tf.math
    for name in ("reduce_max", "reduce_min"):
        add(name, lambda x, f=getattr(m, name): (f(x), f(x, 0), f(x, 1)), one, FLOATS + INTS)
    for name in ("reduce_sum", "reduce_mean", "reduce_prod"):
        add(
            name,
            lambda x, f=getattr(m, name): (f(x), f(x, 0), f(x, 1)),
            lambda d: [normal(d, 5, 7)],
            ("float32", "float64", "int32"),
            16,
        )
    add(
        "reduce_mean_int",
        lambda x: (m.reduce_mean(x), m.reduce_mean(x, 0), m.reduce_mean(x, 1, True)),
        one,
        (*INTS, "int8", "int16", "uint16", "uint32"),
    )
    add("reduce_sum_hostile", lambda x: tf.reduce_sum(x, 1), one, F32, 16)
    for name in ("reduce_logsumexp", "reduce_euclidean_norm", "reduce_variance", "reduce_std"):
        add(name, lambda x, f=getattr(m, name): f(x, 1), lambda d: [normal(d, 5, 7)], F32, 32)
    for name in ("reduce_all", "reduce_any"):
        add(name, lambda x, f=getattr(m, name): f(x, 0), lambda d: [hostile(d) > 0])
    for name in ("argmax", "argmin"):
        add(name, lambda x, f=getattr(m, name): (f(x, 0), f(x, 1, output_type=tf.int32)), one, NUMBERS)
    for name in ("cumsum", "cumprod", "cumulative_logsumexp"):
        f = getattr(m, name)
        add(
            name,
            lambda x, f=f: (f(x), f(x, 1, exclusive=True), f(x, 0, reverse=True)),
            lambda d: [normal(d, 5, 7)],
            F32,
            64,
        )
    add("cumsum_int", m.cumsum, one, ("int32",))
    add("bincount", lambda x: m.bincount(x, minlength=9, maxlength=9), lambda d: [normal(d, 20)], ("int32",))
    add("segment_sum_sorted", lambda x: m.segment_sum(x, [0, 0, 1, 1, 3]), lambda d: [normal(d, 5, 7)], F32, 8)
    for name in ("sum", "max", "min", "prod", "mean"):
        add(
            f"unsorted_segment_{name}",
            lambda x, f=getattr(m, f"unsorted_segment_{name}"): f(x, [2, 0, 2, -1, 1], 4),
            lambda d: [normal(d, 5, 7)],
            NUMBERS if name != "mean" else F32,
            8,
        )
    add("softmax", tf.nn.softmax, one, ("float32", "bfloat16"), 16)
    add("log_softmax", tf.nn.log_softmax, lambda d: [normal(d, 5, 7)], ("float32", "float64"), 16)
    add("top_k", lambda x: tf.nn.top_k(x, 3), lambda d: [normal(d, 5, 7)], ("float32", "int32"))
    add("sort", lambda x: (tf.sort(x), tf.sort(x, 0, "DESCENDING")), lambda d: [normal(d, 5, 7)], NUMBERS)
    add("argsort", lambda x: tf.argsort(x, stable=True), lambda d: [normal(d, 5, 7)], NUMBERS)
    add("in_top_k", lambda x: m.in_top_k([1, 2, 3, 0, 6], x, 2), lambda d: [normal(d, 5, 7)])
    add("searchsorted", lambda x, y: tf.searchsorted(tf.sort(x), y), lambda d: [normal(d, 9), normal(d, 5, seed=2)])
    add(
        "searchsorted_hostile",
        lambda x, y: (tf.searchsorted(tf.sort(x, 1), y, "right"), tf.searchsorted(tf.sort(x, 1), y)),
        lambda d: [normal(d, 5, 7), hostile(d)],
        ("float32", "float64", "int32"),
    )
    add("norm", lambda x: (tf.norm(x), tf.norm(x, 1, 0), tf.norm(x, np.inf, 1)), lambda d: [normal(d, 5, 7)], F32, 16)
    add("moments", lambda x: tf.nn.moments(x, [0]), lambda d: [normal(d, 5, 7)], F32, 32)


def _moves() -> None:
    every = ("float32", "bfloat16", "int32", "bool")

    def x(d: str) -> list[Any]:
        return [hostile("int32") > 3] if d == "bool" else [hostile(d)]

    add("transpose", tf.transpose, x, every)
    add("reshape", lambda v: tf.reshape(v, [7, -1]), x, every)
    add("reverse", lambda v: tf.reverse(v, [0, 1]), x, every)
    add("roll", lambda v: tf.roll(v, [2, -3], [0, 1]), x, every)
    add("tile", lambda v: tf.tile(v, [2, 3]), x, every)
    add("pad", lambda v: tf.pad(v, [[1, 2], [0, 3]]), x, every)
    add("mirror_pad", lambda v: tf.pad(v, [[1, 2], [0, 3]], "REFLECT"), x, every[:3])
    add("concat", lambda v: tf.concat([v, v[:, :0], v[:, 1:3]], 1), x, every)
    add("stack_unstack", lambda v: tf.stack(tf.unstack(v)[::-1], 1), x, every)
    add("split", lambda v: tf.split(v, [3, 0, 4], 1), x, every)
    add("strided_slice", lambda v: (v[::-2, 1:6:2], v[..., tf.newaxis, -1], v[3]), x, every)
    add("broadcast_to", lambda v: tf.broadcast_to(v[:, :1], [2, 5, 4]), x, every)
    add("where_select", lambda v: tf.where(tf.range(7) > 3, v, v[:1]), x, every)
    add("gather", lambda v: (tf.gather(v, [4, 0, 2]), tf.gather(v, [[1, 1], [6, 0]], axis=1)), x, every)
    add("gather_nd", lambda v: tf.gather_nd(v, [[4, 6], [0, 0]]), x, every)
    add("batch_gather", lambda v: tf.gather(v, [[1], [0], [2], [6], [3]], batch_dims=1), x, every)
    add(
        "scatter_nd",
        lambda v: tf.scatter_nd([[3], [1], [3], [0], [7]], v, [9, 7]),
        lambda d: [normal(d, 5, 7)],
        NUMBERS,
        4,
    )
    for name in ("update", "add", "max", "min"):
        op = getattr(tf, f"tensor_scatter_nd_{name}")
        add(f"tensor_scatter_nd_{name}", lambda v, f=op: f(v, [[3], [1]], v[:2]), lambda d: [normal(d, 5, 7)], NUMBERS)
    add(
        "one_hot",
        lambda v: (tf.one_hot(v, 6), tf.one_hot(v, 4, 2.5, -1.0, 0)),
        lambda d: [normal(d, 5) - 2],
        ("int32",),
    )
    add(
        "diag",
        lambda v: (tf.linalg.diag(v), tf.linalg.diag_part(v), tf.linalg.diag(v, k=1)),
        lambda d: [normal(d, 4, 4)],
        ("float32", "int32"),
    )
    add("band_part", lambda v: tf.linalg.band_part(v, 1, 2), x, every[:3])
    add("trace_eye", lambda v: tf.linalg.trace(v) + tf.eye(3, 4), lambda d: [normal(d, 5, 5)], F32, 4)
    add(
        "space_to_depth",
        lambda v: (tf.nn.space_to_depth(v, 2), tf.nn.depth_to_space(v, 2)),
        lambda d: [normal(d, 2, 4, 4, 8)],
        ("float32", "int32"),
    )
    add("space_to_batch", lambda v: tf.space_to_batch(v, [2, 2], [[0, 0], [2, 0]]), lambda d: [normal(d, 1, 4, 6, 3)])
    add("meshgrid_range", lambda v: tf.meshgrid(v, tf.range(3, dtype=v.dtype)), lambda d: [normal(d, 4)])
    add("linspace", lambda v: tf.linspace(v[0], v[1], 7), lambda d: [normal(d, 4)], F32, 8)
    add("sequence_mask", lambda v: tf.sequence_mask(v, 9), lambda d: [normal(d, 5)], ("int32",))
    add(
        "clip",
        lambda v: (tf.clip_by_value(v, -1.0, 2.0), tf.clip_by_norm(v, 2.0)),
        lambda d: [normal(d, 5, 7)],
        F32,
        16,
    )
    add("fill_zeros_ones", lambda v: (tf.zeros_like(v), tf.ones_like(v), tf.fill([2, 3], v[0, 0])), one, NUMBERS)
    for source, target in (
        ("float32", "int32"),
        ("float32", "bfloat16"),
        ("float32", "float16"),
        ("bfloat16", "float32"),
        ("int32", "float32"),
        ("int64", "int32"),
        ("int32", "uint8"),
        ("float64", "float32"),
        ("float32", "bool"),
        ("bool", "float32"),
        ("float32", "complex64"),
    ):
        add(
            f"cast_to_{target}",
            lambda v, t=target: tf.cast(v, t),
            (lambda d: [normal(d, 40) * 9]) if target == "int32" else x,
            (source,),
        )
    add("bitcast", lambda v: tf.bitcast(v, tf.int32), one)
    add("float_to_int_out_of_range", lambda v: tf.cast(v, tf.int32), one)
    add("gather_out_of_range", lambda v: tf.gather(v, [9]), one)
    add("fake_quant", tf.quantization.fake_quant_with_min_max_args, lambda d: [normal(d, 5, 7)], F32, 4)


def _with_gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Value and gradients of the squares' sum."""

    def both(*args: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            value = fn(*args)
            loss = tf.reduce_sum(value * value)
        return value, tape.gradient(loss, args)

    return both


def _contractions() -> None:
    nn = tf.nn

    def image(d: str) -> list[Any]:
        return [normal(d, 2, 9, 8, 3), normal(d, 3, 2, 3, 4, seed=2)]

    for padding in ("SAME", "VALID"):
        add(f"conv2d_{padding}", _with_gradient(lambda x, k, p=padding: nn.conv2d(x, k, 2, p)), image, F32, 256)
        add(
            f"max_pool_{padding}",
            _with_gradient(lambda x, p=padding: nn.max_pool2d(x, 3, 2, p)),
            lambda d: [normal(d, 2, 9, 8, 3)],
            F32,
            16,
        )
        add(
            f"avg_pool_{padding}",
            _with_gradient(lambda x, p=padding: nn.avg_pool2d(x, 3, 2, p)),
            lambda d: [normal(d, 2, 9, 8, 3)],
            F32,
            64,
        )
    add("conv2d_dilated", lambda x, k: nn.conv2d(x, k, 1, "SAME", dilations=2), image, WIDE, 128)
    add(
        "conv1d",
        _with_gradient(lambda x, k: nn.conv1d(x, k, 1, "SAME")),
        lambda d: [normal(d, 2, 9, 3), normal(d, 3, 3, 4, seed=2)],
        F32,
        256,
    )
    add(
        "conv3d",
        lambda x, k: nn.conv3d(x, k, [1] * 5, "SAME"),
        lambda d: [normal(d, 1, 4, 5, 4, 2), normal(d, 2, 3, 2, 2, 3, seed=2)],
        F32,
        128,
    )
    add(
        "depthwise",
        _with_gradient(lambda x, k: nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME")),
        lambda d: [normal(d, 2, 7, 6, 3), normal(d, 3, 3, 3, 2, seed=2)],
        F32,
        256,
    )
    add(
        "separable",
        lambda x, k, p: nn.separable_conv2d(x, k, p, [1] * 4, "SAME"),
        lambda d: [normal(d, 2, 7, 6, 3), normal(d, 3, 3, 3, 2, seed=2), normal(d, 1, 1, 6, 4, seed=3)],
        F32,
        128,
    )
    add(
        "conv2d_transpose",
        _with_gradient(lambda x, k: nn.conv2d_transpose(x, k, [2, 8, 8, 5], 2)),
        lambda d: [normal(d, 2, 4, 4, 3), normal(d, 3, 3, 5, 3, seed=2)],
        F32,
        256,
    )
    add(
        "batch_norm",
        _with_gradient(lambda x, s: nn.batch_normalization(x, *nn.moments(x, [0, 1, 2]), s, s, 1e-3)),
        lambda d: [normal(d, 2, 5, 4, 3), normal(d, 3, seed=2)],
        F32,
        2048,
    )
    add(
        "fused_batch_norm",
        lambda x, s: tf.compat.v1.nn.fused_batch_norm(x, s, s)[:3],
        lambda d: [normal(d, 2, 5, 4, 3), normal(d, 3, seed=2)],
        F32,
        128,
    )
    add("lrn", nn.local_response_normalization, lambda d: [normal(d, 1, 3, 3, 9)], F32, 32)
    add("bias_add", nn.bias_add, lambda d: [hostile(d), normal(d, 7)], NUMBERS[:2])
    for name, flags in (("plain", {}), ("transpose_a", {"transpose_a": True}), ("adjoint_b", {"adjoint_b": True})):
        add(
            f"matmul_{name}",
            lambda x, y, flags=flags: tf.linalg.matmul(x, y, **flags),
            lambda d: [normal(d, 3, 5, 5), normal(d, 3, 5, 5, seed=2)],
            ("float32", "float64", "int32", "complex64", "bfloat16"),
            64,
        )
    add("matmul_hostile", tf.linalg.matmul, lambda d: [hostile(d, (5, 7)), hostile(d, (7, 4), 2)], F32, 64)
    add("matmul_broadcast", tf.linalg.matmul, lambda d: [normal(d, 2, 1, 4, 5), normal(d, 3, 5, 6)], F32, 64)
    add("matmul_gradient", _with_gradient(tf.linalg.matmul), lambda d: [normal(d, 9, 5), normal(d, 5, 6)], F32, 256)
    add(
        "einsum",
        lambda x, y: (tf.einsum("bij,bjk->ikb", x, y), tf.einsum("bii->b", x)),
        lambda d: [normal(d, 3, 5, 5), normal(d, 3, 5, 4, seed=2)],
        F32,
        64,
    )
    add(
        "tensordot",
        lambda x, y: tf.tensordot(x, y, [[2, 1], [0, 1]]),
        lambda d: [normal(d, 3, 4, 5), normal(d, 5, 4, 2, seed=2)],
        F32,
        64,
    )
    add("matvec", tf.linalg.matvec, lambda d: [normal(d, 6, 5), normal(d, 5, seed=2)], F32, 64)


def _linear_algebra() -> None:
    la = tf.linalg

    def positive(d: str) -> list[Any]:
        x = normal(d, 2, 5, 5)
        return [la.matmul(x, x, adjoint_b=True) + 5 * tf.eye(5, dtype=d), normal(d, 2, 5, 3, seed=2)]

    kinds = ("float32", "float64", "complex64")
    add(
        "cholesky",
        lambda a, b: _with_gradient(la.cholesky)(a) if a.dtype.is_floating else la.cholesky(a),
        positive,
        kinds,
        4096,
    )
    add(
        "triangular_solve",
        lambda a, b: (la.triangular_solve(a, b), la.triangular_solve(a, b, False, True)),
        positive,
        kinds,
        4096,
    )
    add("cholesky_solve", lambda a, b: la.cholesky_solve(la.cholesky(a), b), positive, F32, 4096)
    add("solve", la.solve, positive, F32, 4096)
    add("inv", lambda a, b: la.inv(a), positive, F32, 4096)
    add("det", lambda a, b: (la.det(a), la.slogdet(a)), positive, F32, 4096)
    add("qr", lambda a, b: tf.abs(la.qr(a)[1]), positive, F32, 4096)
    add("eigh", lambda a, b: la.eigh(a)[0], positive, F32, 4096)
    add("svd", lambda a, b: la.svd(a, compute_uv=False), positive, F32, 4096)
    add("lu", lambda a, b: la.lu(a)[0], positive, F32, 4096)
    add("expm", lambda a, b: la.expm(a / 20), positive, F32, 4096)
    add("cross", la.cross, lambda d: [normal(d, 4, 3), normal(d, 4, 3, seed=2)], F32, 8)
    for name, fn in (("fft", tf.signal.fft), ("ifft", tf.signal.ifft), ("fft2d", tf.signal.fft2d)):
        add(name, fn, lambda d: [normal(d, 3, 4, 6)], COMPLEX, 64)
    add("rfft", lambda x: (tf.signal.rfft(x), tf.signal.irfft(tf.signal.rfft(x))), lambda d: [normal(d, 3, 8)], F32, 64)
    image = tf.image
    for method in ("bilinear", "nearest", "bicubic", "area"):
        add(
            f"resize_{method}",
            lambda x, m=method: image.resize(x, [7, 5], m),
            lambda d: [normal(d, 2, 4, 6, 3)],
            F32,
            64,
        )
    add(
        "resize_gradient",
        _with_gradient(lambda x: image.resize(x, [7, 5])),
        lambda d: [normal(d, 2, 4, 6, 3)],
        F32,
        256,
    )
    add("resize_down", lambda x: image.resize(x, [3, 2]), lambda d: [normal(d, 2, 6, 6, 3)], F32, 64)
    add("rgb_to_hsv", lambda x: image.rgb_to_hsv(tf.sigmoid(x)), lambda d: [normal(d, 4, 4, 3)], F32, 64)
    add("adjust_contrast", lambda x: image.adjust_contrast(x, 1.5), lambda d: [normal(d, 4, 4, 3)], F32, 64)
    add(
        "non_max_suppression",
        lambda x: image.non_max_suppression_padded(
            tf.sort(tf.sigmoid(x), -1), x[:, 0], 4, 0.5, pad_to_max_output_size=True
        )[0],
        lambda d: [normal(d, 9, 4)],
    )
    nn = tf.nn
    add(
        "sparse_cross_entropy",
        _with_gradient(lambda x: nn.sparse_softmax_cross_entropy_with_logits([1, 0, 6, 2, 3], x)),
        lambda d: [normal(d, 5, 7)],
        F32,
        64,
    )
    add(
        "cross_entropy",
        lambda x: nn.softmax_cross_entropy_with_logits(tf.one_hot([1, 0, 6, 2, 3], 7), x),
        lambda d: [normal(d, 5, 7)],
        F32,
        64,
    )
    add("sigmoid_cross_entropy", lambda x: nn.sigmoid_cross_entropy_with_logits(tf.ones_like(x), x), one, F32, 64)
    add("l2_normalize", lambda x: nn.l2_normalize(x, 1), lambda d: [normal(d, 5, 7)], F32, 16)
    add(
        "embedding_gradient",
        lambda x: _with_gradient(lambda t: nn.embedding_lookup(t, [1, 1, 4]))(x)[0],
        lambda d: [normal(d, 5, 7)],
    )


for _fill in (_elementwise, _binary, _reductions, _moves, _contractions, _linear_algebra):
    _fill()
ROWS = TABLE.rows
