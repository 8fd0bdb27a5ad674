"""--tfxla_dynamic_verify: which sizes run where nothing was proven, and that what is another program there does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.test_dynamic import AUTO, check, compiled, enabled, values
from tfxla_cluster import flags


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    with enabled():
        yield


def rounded(x: Any) -> Any:
    """To the next multiple of 8."""
    return tf.pad(x, [[0, -tf.shape(x)[0] % 8], [0, 0]]) * 2.0


def halved(x: Any) -> Any:
    """Twice below 50."""
    return tf.where(tf.shape(x)[0] < 50, x * 2.0, x)


@pytest.mark.parametrize("verify", ["first", "off"])
@pytest.mark.parametrize("function", [rounded, halved])
def test_what_is_another_program_at_other_sizes_is_not_trusted(function: Callable[[Any], Any], verify: str) -> None:
    """All first sizes leave the rest that the sample has, and are on its side of 50."""
    with flags.patch(tfxla_dynamic_verify=verify):
        jitted = tf.function(function, input_signature=[tf.TensorSpec([None, 3], tf.float32)], jit_compile=True)
        for size in (32, 40, 16, 24, 8, 9, 33, 49, 50, 64, 63):
            x = values((size, 3), size)
            check(jitted(x), function(x), f"{size}")


MULTIPLES_FIRST = (16, 32, 24, 8, 9, 33, 49, 64, 63)


@pytest.mark.parametrize("verify", ["first", "off"])
def test_each_trace_is_trusted_for_itself(verify: str) -> None:
    """The second trace is the first's program where the size is even."""

    @tf.function(jit_compile=True)
    def cut(x: Any, every: int) -> Any:
        return tf.tanh(x[: tf.shape(x)[0] // every * every])

    with flags.patch(tfxla_dynamic_verify=verify):
        for every in (1, 2):
            traced = cut.get_concrete_function(tf.TensorSpec([None, 3], tf.float32), every)
            for size in MULTIPLES_FIRST:
                x = values((size, 3), size)
                check(traced(x), tf.tanh(x[: size // every * every]), f"{every}, {size}")


@pytest.mark.parametrize("verify", ["first", "off"])
def test_each_value_that_is_lowered_is_trusted_for_itself(verify: str) -> None:
    """For 1 it is what it is for 8 where that divides the size."""
    padded = lambda x, k: tf.pad(x, [[0, -tf.shape(x)[0] % k], [0, 0]]) * 2.0  # noqa: E731
    spec = [tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32)]
    with flags.patch(tfxla_dynamic_verify=verify):
        jitted = tf.function(padded, input_signature=spec, jit_compile=True)
        for k in (1, 8):
            for size in MULTIPLES_FIRST:
                x = values((size, 3), size)
                check(jitted(x, tf.constant(k)), padded(x, tf.constant(k)), f"{k}, {size}")


@pytest.mark.parametrize("verify", ["first", "off"])
def test_sizes_of_an_unknown_rank_are_open(verify: str) -> None:
    """The first executable is for all of them, where it is another program at other sizes it is not trusted."""
    with flags.patch(tfxla_dynamic_verify=verify):
        for function, most in ((lambda x: tf.nn.softmax(x) * 3.0, 1), (rounded, len(MULTIPLES_FIRST))):
            jitted = tf.function(function, input_signature=[tf.TensorSpec(None, tf.float32)], jit_compile=True)
            before = compiled()
            for size in MULTIPLES_FIRST:
                x = values((size, 3), size)
                check(jitted(x), function(x), f"{size}")
            assert compiled() - before <= most


@pytest.mark.parametrize("verify", ["first", "off"])
def test_a_cluster_of_which_the_graph_tells_no_sizes_is_probed_too(verify: str) -> None:
    with flags.patch(**AUTO, tfxla_dynamic_verify=verify):
        tfxla_cluster.enable()
        parsed = tf.function(lambda text: rounded(tf.io.parse_tensor(text, tf.float32)))
        for size in MULTIPLES_FIRST:
            x = values((size, 3), size)
            check(parsed(tf.io.serialize_tensor(x)), rounded(x), f"{size}")
