"""Sizes that a run produces of inputs whose sizes vary: one executable, as the bounds follow the inputs' sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests import fresh
from tests.close import assert_near
from tests.dynamic.test_unify import check_at, floats, lowered, unified
from tfxla_cluster import compiler, counters
from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.dynamic import prove
from tfxla_cluster.ir import text
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dim import bounded, bounded_only, capacity, instantiate, make, sym
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.ir.polynomial import bounds, polynomial
from tfxla_cluster.ir.shape import array
from tfxla_cluster.ir.size_proofs import at_most
from tfxla_cluster.runtime import plan_json

SIZES = (5, 8, 13, 0, 1, 2, 31, 64)
FUNCTIONS: dict[str, Any] = {
    "where": lambda x: tf.where(x > 0),
    "mask": lambda x: tf.boolean_mask(x, x > 0) * 2.0,
    "rows": lambda x: tf.boolean_mask(x, x[:, 0] > 0),
    "unique": lambda x: tf.unique(tf.reshape(x, [-1])),
    "partition": lambda x: tf.dynamic_partition(x, tf.cast(x[:, 0] > 0, tf.int32), 2),
    "two": lambda x: (tf.reduce_sum(tf.boolean_mask(x, x > 0)), tf.where(x < 0)),
    "outer": lambda x: tf.boolean_mask(x[:, 0], x[:, 0] > 0)[:, None] * x[:, 1][None],
    "sorted": lambda x: tf.sort(tf.boolean_mask(x, x > 0)),
    "first two": lambda x: tf.boolean_mask(x[:, 0], x[:, 0] > 0)[:2],
    "product": lambda x: tf.boolean_mask(x, x[:, 0] > 0) @ tf.transpose(x),
    "reshaped": lambda x: tf.reshape(tf.boolean_mask(x, x[:, 0] > 0), [-1]),
    "counted": lambda x: tf.range(tf.size(tf.where(x > 0))),
    "scattered": lambda x: tf.tensor_scatter_nd_update(x, tf.where(x > 0), tf.boolean_mask(x, x > 0) * 3.0),
    "loop": lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, x[x > 0]])[1],
    "padded": lambda x: tf.pad(tf.boolean_mask(x, x > 0), [[2, 1]]),
    "joined": lambda x: tf.concat([tf.boolean_mask(x, x[:, 0] > 0), x, tf.boolean_mask(x, x[:, 1] < 0)], 0),
    "sums": lambda x: (
        tf.cumsum(tf.boolean_mask(x, x[:, 0] > 0)),
        tf.cumsum(tf.boolean_mask(x, x[:, 1] > 0), exclusive=True, reverse=True),
    ),
}


ours = pytest.fixture(autouse=True)(fresh.compiler)


def drawn(size: int) -> tf.Tensor:
    values = np.round(np.random.default_rng(size).standard_normal((size, 3)) * 2)
    return tf.constant(values.astype(np.float32) + np.float32(0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_executable_for_all_sizes(name: str) -> None:
    """The first size, all others, 0 and 1."""
    function = FUNCTIONS[name]
    compiled = tf.function(function, jit_compile=True)
    before = counters.snapshot()["compilations"]
    for size in SIZES:
        x = drawn(size)
        for got, want in zip(tf.nest.flatten(compiled(x)), tf.nest.flatten(function(x)), strict=True):
            assert got.dtype == want.dtype
            assert_near(got, want, 1e-6, f"{name} at {size}")
    assert counters.snapshot()["compilations"] - before <= 4


@pytest.mark.parametrize("selected", [lambda x: x < -99.0, lambda x: x > -99.0], ids=["none", "all"])
def test_none_and_all(selected: Any) -> None:
    compiled = tf.function(lambda x: tf.boolean_mask(x, selected(x)), jit_compile=True)
    for size in SIZES:
        x = drawn(size)
        np.testing.assert_array_equal(compiled(x), tf.boolean_mask(x, selected(x)))


# As many elements as the program says of twice as many as it is given, and how many of them are kept.
DOUBLED = """
HloModule m, frontend_attributes={tfxla_sizes="n=4>=2"}
ENTRY e {
  x = f32[4/*n*/] parameter(0)
  n = s32[] parameter(1)
  both = f32[8/*(n*2)*/] concatenate(x, x), dimensions={0}
  kept = f32[<=8/*<=(n*2)*/] set-dimension-size(both, n), dimensions={0}
  count = s32[] get-dimension-size(kept), dimensions={0}
  ROOT r = (f32[<=8/*<=(n*2)*/], s32[]) tuple(kept, count)
}
"""


@pytest.mark.parametrize("backend", [cpu.this_machine, interpreter.this_machine])
@pytest.mark.parametrize("asked", [-3, 0, 1, 5, 6, 99])
def test_a_size_ends_at_its_bound(backend: Any, asked: int) -> None:
    made = compiler.compile_module(text.parse(DOUBLED), backend())
    for size in (2, 3, 50):
        x = np.arange(size, dtype=np.float32)
        kept, count = made.executable.run([x, np.int32(asked)])
        number = min(max(asked, 0), 2 * size)
        assert kept.tolist() == [*x, *x][:number]
        assert count == number
    assert plan_json.loads(plan_json.dumps(made.plan)) == made.plan


def test_sizes_that_are_equal_at_the_first_call() -> None:
    """As many of the largest as half of another size, which in the second call is the first size too."""
    largest = lambda x: tf.math.top_k(x, tf.shape(x)[1] // 2)
    compiled = tf.function(largest, jit_compile=True, input_signature=[tf.TensorSpec([None, None])])
    before = counters.snapshot()["internal_errors"]
    for size in ((5, 5), (3, 7), (7, 3), (2, 2), (11, 4), (8, 12)):
        x = tf.constant(np.random.default_rng(size).integers(-3, 4, size).astype(np.float32))
        for got, want in zip(compiled(x), largest(x), strict=True):
            np.testing.assert_array_equal(got, want, f"{size}")
    assert counters.snapshot()["internal_errors"] == before


def test_a_size_that_is_set_is_that_of_the_part() -> None:
    """At both sizes m // 2 is n too, which the literal then follows: the shape is the part's all the same."""

    def top(b: Builder, n: int, m: int) -> list[Instr]:
        part = b.slice(floats(b, n, m), [(0, n, 1), (0, m // 2, 1)])
        count = b.constant(m // 2)
        kept = b.add_op("set-dimension-size", part, count, shape=array(F32, (n, m // 2)), dimensions=(1,))
        pair = b.tuple(kept, b.negate(kept))
        return [b.get_tuple_element(pair, 1)]

    generic = unified(top, (3, 7), (19, 39))
    check_at(top, generic, 19, 39)
    check_at(top, generic, 5, 11)
    assert not prove.prove(generic, lowered(top, 11, 4))
    check_at(top, unified(top, (3, 7), (19, 39), (11, 4)), 6, 9)


def test_bounds_that_follow_a_size() -> None:
    n = sym("n", 4, 2, 9)
    k, other = bounded("k", n * 3), bounded_only(n)
    assert (k.number, k.high, other.name) == (12, None, "<=n")
    assert capacity(make("add", k, n)) == make("add", n * 3, n)
    assert instantiate(k * 2, {"n": 5}).operands[0].bound == 15  # type: ignore[union-attr]
    assert instantiate(other, {"n": 5}) == bounded_only(5)
    assert bounds(polynomial(k)) == (0, 27)
    assert at_most(k, n * 3)
    assert at_most(k * 2 + 1, n * 6 + 1)
    assert not at_most(k, n * 2)
    assert not at_most(n, k)


def test_they_survive_text() -> None:
    written = text.render(text.parse(DOUBLED))
    assert "f32[<=8/*<=(n*2)*/]" in written
    assert text.render(text.parse(written)) == written
