"""Elementwise opcodes."""

from __future__ import annotations

from tests.fuzz.draft import Draft
from tfxla_cluster.ir.dtype import DTYPES


def binary(d: Draft) -> None:
    x = d.pick()
    kind, b = x.shape.element_type.kind, d.b
    names = ["add", "subtract", "multiply", "maximum", "minimum"]
    if kind in ("int", "uint"):
        names += [
            "and",
            "or",
            "xor",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
            "divide",
            "remainder",
        ]
    if kind == "pred":
        names = ["and", "or", "xor", "maximum", "minimum"]
    name = d.rng.choice(names)
    pair = [x, d.like(x)]
    d.rng.shuffle(pair)
    value = b.add_op(name, *pair)
    d.keep(d.limit(value) if name in ("add", "subtract", "multiply", "shift-left") else value)


def unary(d: Draft) -> None:
    x = d.pick()
    dtype = x.shape.element_type
    names = {
        "float": ["abs", "negate", "sign", "floor", "ceil", "round-nearest-even", "is-finite"],
        "pred": ["not"],
    }.get(dtype.kind, ["negate", "not", "popcnt", "count-leading-zeros", "abs", "sign"])
    if dtype.kind == "uint":
        names = ["not", "popcnt"]
    d.keep(d.b.add_op(d.rng.choice(names), x))


def compare(d: Draft) -> None:
    x = d.pick()
    test = d.keep(d.b.compare(x, d.like(x), d.rng.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))))
    if d.rng.random() < 0.7:
        y = d.pick()
        chosen = test if y.shape.dims == x.shape.dims else d.parameter("pred", y.shape.dims)
        d.keep(d.b.select(chosen, y, d.like(y)))


def convert(d: Draft) -> None:
    x = d.pick()
    d.keep(d.limit(d.b.convert(x, DTYPES[d.kind()])))
