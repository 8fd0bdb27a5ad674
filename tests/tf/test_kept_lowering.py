"""What a function lowered to is found again by what the function is, and by nothing less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf import double
from tfxla_cluster.tf.functions import kept_lowering
from tfxla_cluster.tf2xla import bridge

F32, I32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum


class Keeping(double.Compiler):
    """Keeps in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, Mapping[str, bytes]] = {}

    def recall(self, key: Any, device: str) -> Any:
        return self.kept.get(key)

    def keep(self, key: Any, device: str, sections: Mapping[str, bytes], about: Mapping[str, str]) -> None:
        self.kept[key] = sections


@pytest.fixture
def lower() -> Any:
    """lower(function, args): (what it lowers to, whether the bridge had to)."""
    compiler, traces = Keeping(), []

    def lower(function: Callable[..., Any], args: list[bridge.Arg]) -> tuple[bridge.Lowered, bool]:
        specs = [tf.TensorSpec([None] * len(a.dims), tf.dtypes.as_dtype(a.dtype)) for a in args]
        traced = tf.function(function).get_concrete_function(*specs)
        traces.append(traced)
        name, made = traced._inference_function.name.decode(), []

        def make(args: Any) -> bridge.Lowered:
            made.append(args)
            return bridge.lower(name, args)

        return kept_lowering.lower(compiler, name, args, "CPU", make), bool(made)

    lower.compiler = compiler
    return lower


def arg(*dims: int, value: Any = None, dtype: int = F32) -> bridge.Arg:
    return bridge.Arg(dtype, dims, value=None if value is None else lambda: np.asarray(value))


def test_a_function_traced_again_is_not_lowered_again(lower) -> None:
    first, made = lower(lambda x: tf.sin(x) * 2.0, [arg(3, 4)])
    assert made
    again, made = lower(lambda x: tf.sin(x) * 2.0, [arg(3, 4)])
    assert not made
    assert again == first


@pytest.mark.parametrize(
    "other",
    [
        (lambda x: tf.sin(x) * 3.0, [arg(3, 4)]),
        (lambda x: tf.sin(x) * 2.0, [arg(4, 3)]),
        (lambda x: tf.sin(x) * 2.0, [arg(3, 4, dtype=tf.float64.as_datatype_enum)]),
    ],
)
def test_what_differs_is_lowered(lower, other) -> None:
    function, args = other
    lower(lambda x: tf.sin(x) * tf.cast(2.0, x.dtype), [arg(3, 4)])
    lower(lambda x: tf.sin(x) * 2.0, [arg(3, 4)])
    if args[0].dtype != F32:
        function = lambda x: tf.sin(x) * tf.cast(2.0, x.dtype)
    assert lower(function, args)[1]


def test_values_that_lowering_uses_are_part_of_the_key(lower) -> None:
    def shaped(x: Any, shape: Any) -> Any:
        return tf.reshape(x, shape)

    def args(*shape: int) -> list[bridge.Arg]:
        return [arg(12), arg(2, value=np.array(shape, np.int32), dtype=I32)]

    first, _ = lower(shaped, args(3, 4))
    other, made = lower(shaped, args(4, 3))
    assert made
    assert first.proto != other.proto
    again, made = lower(shaped, args(3, 4))
    assert not made
    assert again == first
    assert again.constants == {1: np.array([3, 4], np.int32).tobytes()}


def test_values_of_which_lowering_takes_more_than_it_must(lower) -> None:
    """What the first attempt lacks, and the next takes, is found by both."""
    used = [0, 2]

    def make(value: int) -> bridge.Lowered:
        return bridge.Lowered(f"proto {value}".encode(), "m", (1,), {i: _bytes(value) for i in used}, (0,), ((1, 0),))

    traced = tf.function(lambda a, b, c: a + b + c).get_concrete_function(*[tf.TensorSpec([], tf.int32)] * 3)
    name, count = traced._inference_function.name.decode(), []

    def ask(value: int) -> bridge.Lowered:
        args = [arg(value=np.int32(value), dtype=I32) for _ in range(3)]
        return kept_lowering.lower(lower.compiler, name, args, "CPU", lambda args: count.append(value) or make(value))

    for value in (5, 6, 5, 6):
        assert ask(value) == make(value)
    assert count == [5, 6]


def _bytes(value: int) -> bytes:
    return np.int32(value).tobytes()


def test_each_value_is_read_once(lower) -> None:
    """A value on a device is waited for; and what is kept under a value was lowered with it."""
    reads = []

    def value() -> np.ndarray:
        reads.append(1)
        return np.array([3, 4], np.int32)

    lower(tf.reshape, [arg(12), bridge.Arg(I32, (2,), value=value)])
    assert len(reads) == 1


@pytest.mark.parametrize("damage", [{}, {"proto": b""}, {"more": b"[7]"}, {"more": b"x"}, {"lowered": b"{}"}])
def test_what_cannot_be_read_is_lowered_again(lower, damage: dict[str, bytes]) -> None:
    lower(tf.sin, [arg(3)])
    for key in lower.compiler.kept:
        lower.compiler.kept[key] = damage
    second, made = lower(tf.sin, [arg(3)])
    assert made
    assert lower(tf.sin, [arg(3)]) == (second, False)


def test_in_a_program_a_second_trace_lowers_and_compiles_nothing() -> None:
    def build() -> Any:
        weights = tf.Variable(tf.reshape(tf.range(12.0), [3, 4]))

        @tf.function(jit_compile=True)
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(tf.tanh(x @ weights))
            weights.assign_sub(tape.gradient(y, weights))
            return y

        return step, weights

    x = tf.random.stateless_normal([5, 3], [1, 2])
    with tfxla_cluster.enable():
        results, counts = [], []
        for _ in range(2):
            step, weights = build()
            before = tfxla_cluster.stats()
            results.append((step(x).numpy(), step(x).numpy(), weights.numpy()))
            after = tfxla_cluster.stats()
            counts.append([after[name] - before[name] for name in ("lowerings", "compilations", "internal_errors")])
    assert counts[1] == [0, 0, 0]
    for first, second in zip(*results):
        np.testing.assert_array_equal(first, second)
