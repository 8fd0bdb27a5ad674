"""--tfxla_dynamic_verify: which sizes run where nothing was proven, and that what is another program there does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.test_dynamic import AUTO, check, compiled, enabled, values
from tfxla_cluster import counters, flags


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
    padded = lambda x, k: tf.pad(x, [[0, -tf.shape(x)[0] % k], [0, 0]]) * 2.0
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


# Each is another program at some sizes; which ones is in the name.
DEPENDING: dict[str, Callable[[Any, Any], Any]] = {
    "above 10, by branches": lambda x, y: tf.cond(tf.shape(x)[0] > 10, lambda: x * 2.0, lambda: x + 1.0),
    "above 10": lambda x, y: tf.where(tf.shape(x)[0] > 10, x * 2.0, x + 1.0),
    "equal sizes": lambda x, y: tf.where(tf.shape(x)[0] == tf.shape(y)[0], x * 2.0, x + 1.0),
    "smaller than the other": lambda x, y: tf.where(tf.shape(x)[0] < tf.shape(y)[0], x * 2.0, x + 1.0),
    "together above 40": lambda x, y: tf.where(tf.shape(x)[0] + tf.shape(y)[0] > 40, x * 2.0, x + 1.0),
    "33": lambda x, y: tf.where(tf.shape(x)[0] == 33, x * 2.0, x + 1.0),
    "up to 12": lambda x, y: x + tf.cast(tf.minimum(tf.shape(x)[0], 12), tf.float32),
    "the larger": lambda x, y: x + tf.cast(tf.maximum(tf.shape(x)[0], tf.shape(y)[0]), tf.float32),
    "the first 12": lambda x, y: tf.pad(x[:12] * 2.0, [[1, 0], [0, 0]]),
    "every third": lambda x, y: tf.nn.max_pool2d(x[None, :, :, None], (2, 1), (3, 1), "SAME")[0, :, :, 0],
    "as 24": lambda x, y: tf.image.resize(x[None, :, :, None], [24, 3])[0, :, :, 0],
}
ORDERS = ((8, 16, 24, 9), (16, 32, 24, 40, 33, 9, 8, 2, 3))
OTHERS = {"one": lambda order: [16] * len(order), "the same": list, "backwards": lambda order: order[::-1]}


@pytest.mark.parametrize("verify", ["first", "off"])
@pytest.mark.parametrize("name", DEPENDING)
def test_sizes_that_come_in_any_order(name: str, verify: str) -> None:
    """The sizes at which it ran before need not be the program's at the next."""
    function, spec = DEPENDING[name], [tf.TensorSpec([None, 3])] * 2
    with flags.patch(tfxla_dynamic_verify=verify):
        for order, other in itertools.product(ORDERS, OTHERS.values()):
            jitted = tf.function(function, input_signature=spec, jit_compile=True)
            pairs = [*zip(order, other(order), strict=True), *zip(order, other(order)[::-1], strict=True)]
            for n, m in pairs:
                x, y = values((n, 3), n), tf.ones([m, 3])
                check(jitted(x, y), function(x, y), f"{name}, {n}, {m} of {pairs}")


def lowerings_of(function: Callable[..., Any], sizes: Iterable[tuple[int, int]]) -> list[int]:
    """How many each call takes."""
    jitted = tf.function(function, input_signature=[tf.TensorSpec([None, 3])] * 2, jit_compile=True)
    counts = [int(counters.snapshot()["lowerings"])]
    for n, m in sizes:
        x, y = values((n, 3), n), values((m, 3), m)
        check(jitted(x, y), function(x, y), f"{n}, {m}")
        counts.append(int(counters.snapshot()["lowerings"]))
    return [after - before for before, after in itertools.pairwise(counts)]


def test_sizes_are_trusted_between_those_where_it_is_right() -> None:
    """Up to about twice as large; beyond that it is proven at two more. Of two sizes all pairs of ends are tried."""
    tied = lambda x, y: tf.nn.softmax(x) * 7.0 + y
    with flags.patch(tfxla_dynamic_verify="first"):
        found = lowerings_of(tied, [(n, n) for n in (40, 30, 25, 70, 300, 290, 500)])
        assert found == [2, 3, 0, 0, 3, 0, 0]
        sizes = [(40, 4), (30, 4), (25, 9), (70, 3), (300, 4), (290, 1), (500, 4)]
        assert lowerings_of(lambda x, y: x * 5.0 + tf.reduce_sum(y), sizes) == [2, 5, 0, 0, 5, 2, 0]


def test_a_trace_that_asks_is_proven_at_each_size(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFXLA_LOGS", "+dynamic")
    with flags.patch(tfxla_dynamic_verify="first"), tfxla_cluster.enable():
        found = lowerings_of(DEPENDING["equal sizes"], [(40, 4), (30, 4), (25, 9), (26, 9), (27, 27)])
    assert min(found) == 1
    assert "untrusted" in (said := capfd.readouterr().err)
    assert f"op Equal, {__file__}:" in said


def test_what_does_not_lower_at_a_corner_is_not_trusted() -> None:
    """A write into a list of 40 elements: at the larger ends it is beyond the list, and refused."""

    def listed(x: Any, y: Any) -> Any:
        held = tf.TensorArray(tf.float32, size=40, element_shape=[3])
        read = tf.while_loop(lambda i, h: i < 1, lambda i, h: (i + 1, h.write(tf.shape(x)[0], x[0])), [0, held])[1]
        return read.stack() * 2.0

    with flags.patch(tfxla_dynamic_verify="first"):
        lowerings_of(listed, [(30, 4), (29, 4), (28, 4), (9, 4)])
