"""tf.where's prefix sums as windows: the module computes the same, in one form at all sizes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfxla_cluster.ir import evaluator, proto, text
from tfxla_cluster.ir.node import Module
from tfxla_cluster.tf2xla import prefix_sums


def lowered(size: int) -> bytes:
    where = tf.function(lambda x: tf.where(x > 0), jit_compile=True)
    found: bytes = where.experimental_get_compiler_ir(tf.zeros([size]))(stage="hlo_serialized")
    return found


def opcodes(module: Module) -> list[str]:
    return sorted(instr.opcode for instr in module.entry.instrs)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 65, 256, 1000])
def test_one_form_at_all_sizes(size: int) -> None:
    before = proto.read(lowered(size))
    after = proto.read(prefix_sums.in_windows(lowered(size)))
    assert opcodes(after) == opcodes(proto.read(prefix_sums.in_windows(lowered(9))))
    assert opcodes(after).count("reduce-window") == 1
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    for values in (x, -abs(x), abs(x) + 1):
        (want,), (got,) = (evaluator.evaluate(module, [values]) for module in (before, after))
        np.testing.assert_array_equal(got, want)


def test_what_is_no_prefix_sum_stays() -> None:
    """Of none; and a tree in which one number is another."""
    none = lowered(0)
    assert prefix_sums.in_windows(none) is none
    written = text.render(proto.read(lowered(5)))
    assert "padding=2_1_3" in written
    other = text.parse(written.replace("padding=2_1_3", "padding=1_2_3"))
    assert prefix_sums.replaced(other) is other
