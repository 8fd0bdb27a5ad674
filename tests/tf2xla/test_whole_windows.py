"""Windows over whole dimensions, in steps of 1: the module computes the same, in one form at all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_near
from tests.tf.test_dynamic import check, compiled, enabled
from tfxla_cluster.ir import evaluator, proto
from tfxla_cluster.tf2xla import whole_windows


def _pooled(pool: Callable[..., Any], padding: str) -> Callable[[Any], Any]:
    return lambda x: pool(x * 0.5, x.shape[1:3], x.shape[1:3], padding)


def _gradient(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(of(x) ** 2)
        return tape.gradient(loss, x)

    return function


PLAIN: dict[str, Callable[[Any], Any]] = {
    "mean": _pooled(tf.nn.avg_pool2d, "VALID"),
    "mean, padded as needed": _pooled(tf.nn.avg_pool2d, "SAME"),
    "largest": _pooled(tf.nn.max_pool2d, "VALID"),
    "mean of lines": lambda x: tf.nn.avg_pool2d(x * 0.5, (1, x.shape[2]), (1, x.shape[2]), "VALID"),
}
PROGRAMS = {**PLAIN, **{f"gradient of {name}": _gradient(of) for name, of in PLAIN.items()}}


def images(n: int) -> Any:
    return tf.constant(np.random.default_rng(n).standard_normal((2, n, n + 3, 3)).astype(np.float32))


def lowered(function: Callable[[Any], Any], n: int) -> bytes:
    jitted = tf.function(function, jit_compile=True)
    found: bytes = jitted.experimental_get_compiler_ir(images(n))(stage="hlo_serialized")
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_computes_the_same_in_steps_of_one(name: str) -> None:
    before = lowered(PROGRAMS[name], 5)
    after = whole_windows.in_single_steps(before)
    assert after != before
    assert whole_windows.in_single_steps(after) is after
    x = images(5).numpy()
    (want,), (got,) = (evaluator.evaluate(proto.read(module), [x]) for module in (before, after))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_executable_for_all_sizes(name: str) -> None:
    function = PROGRAMS[name]
    with enabled():
        jitted, before = tf.function(function, jit_compile=True), compiled()
        for n in (12, 16, 20, 9, 31, 2):
            check(jitted(images(n)), function(images(n)), f"{name}, {n}")
        assert compiled() - before <= 2


@pytest.mark.parametrize(
    ("window", "stride", "padding"), [((5, 7), (5, 7), "VALID"), ((6, 8), (2, 2), "VALID"), ((3, 3), (4, 5), "SAME")]
)
def test_windows_that_move_stay(window: tuple[int, int], stride: tuple[int, int], padding: str) -> None:
    """Of 10 by 13 elements; 6 by 8 take a second place, and so do 3 by 3 with what is left over."""
    function = lambda x: tf.nn.max_pool2d(x, window, stride, padding)
    before = lowered(function, 10)
    assert whole_windows.in_single_steps(before) is before
    (got,) = evaluator.evaluate(proto.read(before), [images(10).numpy()])
    assert_near(got, function(images(10)), 0.0)


def test_what_has_no_window_is_not_read() -> None:
    before = lowered(lambda x: tf.tanh(x) * 2.0, 4)
    assert whole_windows.in_single_steps(before) is before
