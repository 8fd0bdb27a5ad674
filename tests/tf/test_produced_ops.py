"""Ops on arrays whose size the run produces, against eager: nothing selected, one element, some, all.

A row is right or refused, in our words; many rows are compiled as one function, for time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tfxla_cluster.tf.rewrites import produced_forms
from tfxla_cluster.tf.rewrites.produced_taint import Taint
from tfxla_cluster.tf2xla.function_def import library

Op = Callable[[Any], Any]

SOURCES: dict[str, Op] = {
    "mask": lambda x: tf.boolean_mask(x, x > 0),
    "where": lambda x: tf.cast(tf.where(x > 0)[:, 1], tf.float32) + 1.5,
    "unique": lambda x: tf.unique(tf.reshape(x + 0.0, [-1])).y,  # of 0.0 and -0.0, XLA keeps the latter
    "partition": lambda x: tf.dynamic_partition(tf.reshape(x, [-1]), tf.cast(tf.reshape(x, [-1]) > 0, tf.int32), 2)[1],
    "mask of a mask": lambda x: tf.boolean_mask(tf.boolean_mask(x, x > -9), tf.boolean_mask(x, x > -9) > 0),
}


def whole(v: Any) -> Any:
    return tf.abs(tf.cast(v, tf.int32))


def table(v: Any) -> Any:
    return v[:, None] * tf.constant([[1.0, -2.0, 3.0]])


PARTS: dict[str, Op] = {
    "[::2]": lambda v: v[::2],
    "[1::3]": lambda v: v[1::3],
    "[::-1]": lambda v: v[::-1],
    "[::-2]": lambda v: v[::-2],
    "[-2::-1]": lambda v: v[-2::-1],
    "[5:1:-2]": lambda v: v[5:1:-2],
    "[:-3:-1]": lambda v: v[:-3:-1],
    "[-1:]": lambda v: v[-1:],
    "[-3:]": lambda v: v[-3:],
    "[-8:]": lambda v: v[-8:],
    "[-20:]": lambda v: v[-20:],
    "[-5:-2]": lambda v: v[-5:-2],
    "[-5:3]": lambda v: v[-5:3],
    "[:-1]": lambda v: v[:-1],
    "[1:]": lambda v: v[1:],
    "[7:]": lambda v: v[7:],
    "[2:-1]": lambda v: v[2:-1],
    "[:2]": lambda v: v[:2],
    "[..., ::-1]": lambda v: table(v)[..., ::-1],
    "[::-1, 1]": lambda v: table(v)[::-1, 1],
    "[None, -2:, ::2]": lambda v: table(v)[None, -2:, ::2],
    "[..., -2:, None, :]": lambda v: table(v)[..., -2:, None, :],
    "last of one more": lambda v: tf.concat([[7.0], v], 0)[-1],
    "slice": lambda v: tf.slice(v, [0], [tf.minimum(2, tf.size(v))]),
    "slice to the end": lambda v: tf.slice(v, [tf.minimum(1, tf.size(v))], [-1]),
    "half": lambda v: v[: tf.size(v) // 2],
    "differences": lambda v: v[1:] - v[:-1],
    "split": lambda v: tf.split(tf.concat([v, v], 0), 2),
    "split columns": lambda v: tf.split(table(v), 3, 1),
    "split sizes": lambda v: tf.split(tf.concat([[1.0, 2.0, 3.0], v], 0), [1, -1, 2]),
    "roll": lambda v: tf.roll(v, 1, 0),
    "roll back": lambda v: tf.roll(table(v), [-2, 1], [0, 1]),
    "mirrored": lambda v: tf.pad(tf.concat([[1.0, 2.0, 3.0], v], 0), [[2, 1]], "REFLECT"),
    "mirrored with the edge": lambda v: tf.pad(table(tf.concat([v, [4.0, 5.0]], 0)), [[2, 1], [0, 1]], "SYMMETRIC"),
    "reverse": lambda v: tf.reverse(v, [0]),
    "tile": lambda v: tf.tile(v, [3]),
    "repeat": lambda v: tf.repeat(v, 2),
    "stack": lambda v: tf.stack([v, v * 2], 1),
    "unstack": lambda v: tf.unstack(v[None]),
    "concat": lambda v: tf.concat([v, [1.0], v * 2], 0),
    "transpose": lambda v: tf.transpose(table(v)),
    "reshape": lambda v: (tf.reshape(table(v), [-1]), tf.reshape(tf.concat([v, v], 0), [2, -1])),
}
NUMBERS: dict[str, Op] = {
    "sort": lambda v: (tf.sort(v), tf.sort(v, direction="DESCENDING"), tf.argsort(v, stable=True)),
    "top_k": lambda v: tf.math.top_k(tf.concat([v, tf.zeros([3])], 0), 2),
    "argmax": lambda v: (tf.argmax(tf.concat([v, [0.0]], 0)), tf.argmin(tf.concat([[0.0], v], 0))),
    "sums": lambda v: [tf.cumsum(v, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)],
    "products": lambda v: [tf.math.cumprod(v, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)],
    "log of sums": tf.math.cumulative_logsumexp,
    "reduced": lambda v: (tf.reduce_mean(v), tf.math.reduce_std(v), tf.reduce_max(v), tf.reduce_prod(v)),
    "normed": lambda v: (tf.norm(v), tf.nn.l2_normalize(v, 0), tf.nn.softmax(v), tf.reduce_logsumexp(v)),
    "product": lambda v: (v[None] @ v[:, None], v[:, None] @ v[None], tf.tensordot(v, v, 1)),
    "einsum": lambda v: tf.einsum("i,jk->ik", v, table(v)),
    "gathered": lambda v: (tf.gather(tf.range(99.0), whole(v)), tf.gather(v, tf.range(tf.size(v)))),
    "segments": lambda v: [
        op(v, whole(v) % 4, 4) for op in (tf.math.unsorted_segment_sum, tf.math.unsorted_segment_max)
    ],
    "segments of the size": lambda v: tf.math.unsorted_segment_sum(tf.ones([3]), [0, 0, 0], tf.size(v) + 1),
    "one_hot": lambda v: tf.one_hot(whole(v), 4),
    "sequence_mask": lambda v: (tf.sequence_mask(whole(v), 5), tf.sequence_mask([0, 1, 2], tf.size(v))),
    "searched": lambda v: (tf.searchsorted(tf.sort(v), [0.0, 1.0, 2.0]), tf.searchsorted([0.0, 1.0, 2.0], v)),
    "scatter_nd": lambda v: tf.scatter_nd(whole(v)[:, None] % 7, v, [7]),
    "scatter_nd of the size": lambda v: tf.scatter_nd([[0]], [2.0], tf.shape(v) + 1),
    "scattered": lambda v: tf.tensor_scatter_nd_add(tf.concat([v, [0.0]], 0), [[0]], [2.0]),
    "diagonal": lambda v: (tf.linalg.diag(v), tf.linalg.diag(table(v), padding_value=5.0), tf.eye(tf.size(v))),
    "band": lambda v: (tf.linalg.band_part(v[:, None] * v, -1, 0), tf.linalg.set_diag(v[:, None] * v, v * 0)),
    "uniform": lambda v: [tf.random.stateless_uniform(tf.shape(v), [1, 2], dtype=k) for k in (tf.float32, tf.float64)],
    "normal": lambda v: [tf.random.stateless_normal(tf.shape(w), [3, 2]) for w in (v, table(v))],
    "integers": lambda v: tf.random.stateless_uniform(tf.shape(table(v)), [1, 2], 0, 10, tf.int32),
    "dropout": lambda v: tf.nn.experimental.stateless_dropout(v, 0.5, [1, 2]),
    "drawn": lambda v: (tf.shape(tf.random.uniform(tf.shape(v))), tf.shape(tf.random.normal(tf.shape(v)))),
    "shuffled": lambda v: tf.sort(tf.random.shuffle(v)),
    "new": lambda v: (tf.ones_like(v), tf.zeros(tf.shape(v)), tf.fill([tf.size(v), 2], 3.0), tf.range(tf.size(v))),
    "spaced": lambda v: (
        tf.linspace(0.0, tf.cast(tf.size(v), tf.float32), 5),
        tf.range(0.0, tf.cast(tf.size(v), tf.float32), 2.0),
    ),
    "loop over it": lambda v: tf.while_loop(lambda i, a: i < tf.size(v), lambda i, a: (i + 1, a + v[i]), [0, 0.0])[1],
    "loop with it": lambda v: tf.while_loop(lambda i, w: i < 3, lambda i, w: (i + 1, w[::-1] * 2.0), [0, v])[1],
    "scan": lambda v: (tf.scan(lambda a, b: a + b, v, initializer=0.0), tf.map_fn(lambda a: a * 2, v)),
    "branch": lambda v: tf.cond(tf.size(v) > 2, lambda: v[::-1], lambda: v + 1),
    "chosen": lambda v: (tf.where(v > 1, v, 0.0), tf.clip_by_norm(v, 1.0), tf.bitcast(v, tf.int32)),
    "spread": lambda v: (tf.broadcast_to(v, [2, tf.size(v)]), tf.meshgrid(v, [1.0, 2.0])),
}

REFUSED: dict[str, Op] = {
    "linspace of the size": lambda v: tf.linspace(0.0, 1.0, tf.size(v)),
    "bincount": lambda v: tf.math.bincount(whole(v), minlength=5, maxlength=5),
    "rot90": lambda v: tf.image.rot90(v[:, None, None]),
    "one_hot of the size": lambda v: tf.one_hot([0, 1], tf.size(v)),
    "diagonal of a product": lambda v: tf.linalg.diag_part(v[:, None] * v),
    "unique of it": tf.unique,
    "conv1d": lambda v: tf.nn.conv1d(v[None, :, None], tf.ones([2, 1, 1]), 1, "SAME"),
    "permutation": lambda v: tf.math.invert_permutation(tf.argsort(v)),
    "stitched": lambda v: tf.dynamic_stitch([tf.range(tf.size(v))], [v]),
    "split of unknown parts": lambda v: tf.split(v, tf.stack([tf.size(v), 0]), num=2),
}

SOME = np.array([[1, -2, 3, 0.5], [-1, 2, 2, -4], [3, 0, -0.0, 1]], np.float32)
INPUTS = {
    "some": SOME,
    "none": -np.ones((3, 4), np.float32),
    "all": abs(SOME) + 0.5,
    "one": np.where(np.arange(12).reshape(3, 4) == 5, 2, -1).astype(np.float32),
}


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    tf.get_logger().setLevel("ERROR")  # it counts retraces
    with tfxla_cluster.enable(), tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        yield


def all_of(ops: dict[str, Op], source: str) -> Callable[[Any], dict[str, list[tf.Tensor]]]:
    def run(x: tf.Tensor) -> dict[str, list[tf.Tensor]]:
        v = SOURCES[source](x)
        return {name: tf.nest.flatten(op(v)) for name, op in ops.items()}

    return run


def check(function: Callable[[Any], dict[str, list[tf.Tensor]]], inputs: dict[str, np.ndarray]) -> None:
    compiled = tf.function(function, jit_compile=True)
    for case, array in inputs.items():
        got, want = (called(tf.constant(array)) for called in (compiled, tf.function(function)))
        for name, values in want.items():
            for a, b in zip(got[name], values, strict=True):
                assert a.dtype == b.dtype
                assert_near(a, b, 1e-5, f"{name}, {case}")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("ops", [PARTS, NUMBERS], ids=["parts", "numbers"])
def test_as_eager(ops: dict[str, Op], source: str) -> None:
    check(all_of(ops, source), INPUTS)


def test_hostile_values() -> None:
    """They are only moved."""
    array = np.array([[np.nan, -2, np.inf, 0.5], [-np.inf, 1e-40, 2, -0.0]], np.float32)

    def parts(x: tf.Tensor) -> dict[str, list[tf.Tensor]]:
        v = tf.boolean_mask(x, tf.logical_or(x != 2.0, x == 0.5))
        return {name: tf.nest.flatten(op(v)) for name, op in PARTS.items()}

    check(parts, {"hostile": array})


def test_of_rows() -> None:
    """The size is not the only dimension, nor the first."""

    def parts(x: tf.Tensor) -> dict[str, list[tf.Tensor]]:
        rows, columns = tf.boolean_mask(x, x[:, 0] > 0), tf.boolean_mask(x, x[0] > 0, axis=1)
        return {
            "rows": [rows[::-1], rows[-2:, 1:], rows[..., -1], rows[1::2, ::-1], tf.roll(rows, 1, 0)],
            "columns": [columns[:, ::-1], columns[:, -2:], columns[..., ::2], columns[-1], tf.roll(columns, 1, 1)],
            "drawn": [tf.random.stateless_normal(tf.shape(rows), [1, 2])],
            "split": [*tf.split(columns, 3, 0), *tf.split(tf.concat([columns, columns], 1), 2, 1)],
        }

    check(parts, INPUTS)


def test_through_functions() -> None:
    """Of an argument of a function that is called, in a loop and in a branch."""
    inner = tf.function(lambda v: (v[-2:], v[::2]))
    outer = tf.function(lambda x: inner(tf.boolean_mask(x, x > 0)))
    check(lambda x: {"inner": list(outer(x)), "of all": list(inner(tf.reshape(x, [-1])))}, INPUTS)


def test_what_no_run_sizes_stays() -> None:
    """Slices of what the run does not size are not rewritten."""
    inner = tf.function(lambda v: v[-2:])

    def function(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return inner(x), tf.boolean_mask(x, x > 0)[-2:], x[::-1]

    made = tf.function(function).get_concrete_function(tf.TensorSpec([4]))
    definitions = {d.signature.name: d for d in map(library, tfxla_names(made)) if d is not None}
    taint = Taint(made.function_def.signature.name, library)
    root = made.function_def
    readers = taint.readers(root)
    slices = [node.name for node in root.node_def if node.op == "StridedSlice"]
    assert len([name for name in slices if name in readers]) == 1
    assert all(not taint.readers(d) for name, d in definitions.items() if name != root.signature.name)
    assert produced_forms.expand(root.node_def, frozenset()) is None


def tfxla_names(made: Any) -> list[str]:
    """The functions that a function calls."""
    return [value.func.name for node in made.function_def.node_def for value in node.attr.values() if value.func.name]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_our_words(name: str) -> None:
    compiled = tf.function(lambda x: REFUSED[name](SOURCES["mask"](x)), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError) as refused:
        compiled(tf.constant(SOME))
    text = str(refused.value)
    assert "cannot be compiled" in text
    assert "file a bug" not in text
    assert "internal error" not in text
