"""Ops of one and of two tensors, element by element."""

# ruff: noqa: B008  (rows bind what they call)
from __future__ import annotations

import tensorflow as tf

from .row import COMPLEX, F32, FLOATS, INTS, WIDE, Add, hostile, normal, one, two


def elementwise(add: Add) -> None:
    m = tf.math
    for name in ("abs", "negative", "sign", "square"):
        add(name, getattr(m, name), one, FLOATS + INTS[:2])
    add("rint", m.rint, one, WIDE)
    for name in ("floor", "ceil", "round", "is_nan", "is_inf", "is_finite"):
        add(name, getattr(m, name), one, FLOATS)
    tolerances = {"sqrt": 0, "rsqrt": 2, "reciprocal": 1, "sinh": 16, "cosh": 16, "erfc": 16}  # else 4
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
        add(name, getattr(m, name), one, ("float32", "bfloat16", *more), tolerances.get(name, 4))
    for name in ("lgamma", "digamma"):
        add(name, getattr(m, name), one, WIDE, 8, "one")
    add("erfinv", m.erfinv, one, F32, 4, "one")  # eager's own loses all of 1e-30
    for name in ("ndtri", "bessel_i0e", "bessel_i1e"):
        add(name, getattr(m, name), one, F32, 16)
    for name in ("relu", "relu6", "leaky_relu", "softsign"):
        add(name, getattr(tf.nn, name), one, ("float32", "bfloat16"))
    for name in ("elu", "selu", "gelu", "silu"):
        add(name, getattr(tf.nn, name), one, ("float32", "bfloat16"), 4)
    for name in ("exp", "sqrt", "sin", "cos", "tanh", "abs", "angle"):
        add(f"complex_{name}", getattr(m, name), lambda d: [normal(d, 4, 5)], COMPLEX, 4)
    add("complex_log", m.log, lambda d: [normal(d, 4, 5)], COMPLEX, 4, "one")  # the modulus may be near 1
    for name in ("conj", "real", "imag", "square"):
        add(f"complex_{name}", getattr(m, name), lambda d: [normal(d, 4, 5)], COMPLEX)


def binary(add: Add) -> None:
    m = tf.math
    for name in ("add", "subtract", "multiply", "maximum", "minimum"):
        add(name, getattr(m, name), two, FLOATS + INTS)
    for name in ("divide", "divide_no_nan", "multiply_no_nan"):
        add(name, getattr(m, name), two, WIDE)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        add(name, getattr(m, name), two, ("float32", "int32", "bfloat16"))
    for name in ("floordiv", "floormod", "truncatediv", "truncatemod"):
        fn = {"truncatediv": tf.truncatediv, "truncatemod": tf.truncatemod}.get(name) or getattr(m, name)
        add(name, fn, lambda d: [normal(d, 40) - 4, normal(d, 40, seed=2) + 1], ("int32", "int64", "float32"))
    add("integer_division_by_zero", tf.math.floordiv, lambda d: [normal(d, 40), normal(d, 40, seed=2)], ("int32",))
    add("pow", m.pow, two, WIDE, 4)
    add("pow_int", m.pow, lambda d: [normal(d, 20) - 4, normal(d, 20, seed=2)], ("int32", "int64"))
    for name in ("squared_difference", "xdivy"):
        add(name, getattr(m, name), two)
    for name in ("atan2", "xlogy", "xlog1py"):
        add(name, getattr(m, name), two, F32, 4)
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
            32,
        )
    add("complex", tf.complex, lambda d: [normal(d, 4), normal(d, 4, seed=2)])
    add(
        "complex_multiply",
        lambda x, y: (x * y, x / y, x - y),
        lambda d: [normal(d, 9), normal(d, 9, seed=2)],
        COMPLEX,
        4,
        "largest",
    )


def bitwise(add: Add) -> None:
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
        add(name, getattr(tf.math, name), lambda d: [hostile(d) > 0, hostile(d, seed=3) > 0])
