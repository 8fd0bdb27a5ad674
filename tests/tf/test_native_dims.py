"""The native op computes sizes as ir.dim says."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.tf.test_native_op import ADDRESS, F32, is_a, program_of
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import make, sym
from tfxla_cluster.tf.native_op.records import Entry, Output, postfix

DIMS = [
    sym("a", 1),
    make("add", sym("a", 1), 3),
    make("mul", make("add", sym("a", 1), sym("b", 1)), 2),
    make("floordiv", make("add", sym("a", 1), -9), 2),
    make("mod", make("add", sym("a", 1), -9), 4),
    make("floordiv", sym("a", 1), sym("b", 1)),
    make("max", sym("a", 1), sym("b", 1)),
    make("min", make("mul", sym("b", 1), 3), 7),
    12,
]


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize(("a", "b"), [(4, 3), (9, 2), (1, 5)])
def test_dims_are_computed_as_ir_says(dim: Any, a: int, b: int) -> None:
    """Checked through an output of that size (negative sizes cannot be: 16 is added)."""
    padded = make("add", dim, 16)
    entry = Entry(
        tuple(is_a(0, F32, 2)), 1, ADDRESS, (0,), (Output(F32, 4, (padded,), 0),), 1, (("a", 0, 0), ("b", 0, 1))
    )
    program = program_of(lambda views, device: entry, [F32], [F32])
    out = program(tf.ones([a, b]))[0]
    assert out.shape[0] == dims.evaluate(padded, {"a": a, "b": b})


def test_postfix_needs_known_sizes() -> None:
    with pytest.raises(KeyError):
        postfix(sym("z", 1), {"a": 0})
