"""Marks of sizes (tfxla_cluster.mark_dynamic and relatives) on functions whose trace reads its sizes, and on those that
are compiled in part: clusters, must-compile functions that a plain one calls."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tests.tf.test_marks import MAKERS, Function, counted, first_dynamic, ours, unread, values
from tfxla_cluster import flags
from tfxla_cluster.size_spec import How, Mark
from tfxla_cluster.tf.functions import marks, traces

__all__ = ["ours"]  # a fixture of all tests here


# --- traces that read their sizes ---
def branching(x: Any) -> Any:
    """Python reads the size."""
    y = tf.tanh(x)
    if x.shape[0] == 5:
        y = y + 1.0  # at 5 alone
    return y


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("sizes", [(5, 9, 11), (9, 5, 11), (8, 24, 5)])
def test_a_trace_that_reads_its_size_is_told_at_the_first_size_of_another_program(
    make: Function, sizes: tuple[int, ...]
) -> None:
    """Each time it comes; sizes of the first program run on."""
    function, line = make(branching), branching.__code__.co_firstlineno + 4
    is_first = lambda n: (n == 5) == (sizes[0] == 5)
    for n in (*sizes, *sizes):
        x = values(n, 6)
        first_dynamic(x)
        if is_first(n):
            assert_near(function(x), branching(x), 2e-6)
            continue
        with pytest.raises(tf.errors.InvalidArgumentError) as told:
            function(x)
        assert f"{__file__}:{line}: dimension 0 of argument 'x' is marked dynamic" in str(told.value)
        assert "'add/y' is in it at 5, not at" in str(told.value)


def test_what_a_trace_is_up_to_its_sizes() -> None:
    """The same for sizes that Python reads as numbers alone, of functions that are called and branches too."""

    @tf.function
    def inner(x: Any) -> Any:
        return x * float(x.shape[0])

    @tf.function
    def function(x: Any) -> Any:
        return tf.cond(x[0, 0] > 0.0, lambda: inner(x) + 1.0, lambda: x) if x.shape[0] != 7 else inner(x)

    def trace(n: int) -> Any:
        concrete = function.get_concrete_function(tf.TensorSpec([n, 2]))
        assert traces.of(concrete.function_def.signature.name, 0) is None
        return traces.of(concrete.function_def.signature.name, 3)

    assert trace(4) == trace(5)
    assert {of for of, _ in trace(4).nodes} == {0, 1, 2, 3}
    assert trace(7).nodes.keys() != trace(5).nodes.keys()


def test_a_trace_that_reads_its_size_may_be_marked_as_one_that_may_vary() -> None:
    function = tfxla_cluster.jit(branching)
    for n in (5, 9, 11):
        x = values(n, 6)
        tfxla_cluster.maybe_mark_dynamic(x, 0)
        assert_near(function(x), branching(x), 2e-6)


def test_marked_functions_that_differ_in_more_than_sizes() -> None:
    """Another Python value, dtype, unmarked size or function of the same code is another program, and no mark's."""

    def made(activation: Function) -> Any:
        def layer(x: Any, times: int = 1) -> Any:
            y = activation(x) if times == 1 else activation(activation(x) + 1.0)
            return y * tf.cast(x.shape[0], y.dtype) if x.dtype == tf.float64 else y + float(x.shape[1] == 5)

        return tfxla_cluster.jit(layer)

    one, other = made(tf.tanh), made(tf.exp)
    calls: list[tuple[Any, Any, tuple[Any, ...]]] = [
        (one, values(5, 6), ()),
        (other, values(9, 6), ()),
        (one, values(7, 6), (2,)),
        (one, tf.cast(values(11, 6), tf.float64), ()),
        (one, values(12, 5), ()),
        (one, values(13, 6), ()),
    ]
    for function, x, more in calls:
        first_dynamic(x)
        assert_near(function(x, *more), function.original(x, *more), 2e-6)


def test_marked_images_take_turns() -> None:
    """Strides make other windows at even and odd sizes, though the program is the same."""

    def images(x: Any) -> Any:
        return tf.nn.max_pool2d(tf.nn.relu(x), 3, 2, "SAME") * x.shape[1]

    function = tfxla_cluster.jit(images)
    for n in (8, 9, 12, 15):
        x = values(2, n, 6, 3)
        tfxla_cluster.mark_dynamic(x, 1)
        assert_near(function(x), images(x), 2e-6, f"size {n}")


def test_variables_that_the_first_trace_makes() -> None:
    """It initialises them, which no later trace does."""
    kept: list[tf.Variable] = []

    @tf.function(jit_compile=True)
    def layer(x: Any) -> Any:
        if not kept:
            kept.append(tf.Variable(tf.ones([6]), name="w"))
        return x * kept[0] + float(x.shape[0])

    for n in (5, 9, 12):
        x = values(n, 6)
        first_dynamic(x)
        assert_near(layer(x), x + float(n), 2e-6)


# --- in what is compiled in part ---
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
MARKS = [
    (tfxla_cluster.mark_dynamic, [1, 1, 1]),
    (tfxla_cluster.maybe_mark_dynamic, [1, 1, 1]),
    (tfxla_cluster.mark_static, [1, 2, 3]),
]


@pytest.mark.parametrize("nested", [False, True], ids=["cluster", "nested"])
@pytest.mark.parametrize(("mark", "want"), MARKS, ids=["dynamic", "maybe", "static"])
def test_marks_of_a_plain_functions_arguments(nested: bool, mark: Function, want: list[int]) -> None:
    """They reach its clusters and the must-compile functions that it calls: from the tensor, and from the trace."""

    def made(marked: bool) -> Any:
        inner = tf.function(unread, jit_compile=True) if nested else unread

        @tf.function
        def outer(x: Any) -> Any:
            if marked:
                mark(x, 0)
            return inner(x)

        return outer

    with flags.patch(**({} if nested else AUTO)):
        assert counted(made(True), (5, 9, 31)) == want
        tfxla_cluster.clear_cache()
        assert counted(made(False), (5, 9, 31), lambda x: mark(x, 0)) == want


def test_marks_in_a_nested_function_that_are_not_kept() -> None:
    @tf.function(jit_compile=True)
    def inner(x: Any) -> Any:
        first_dynamic(x)
        return branching(x)

    outer = tf.function(lambda x: inner(x) * 2.0)
    assert_near(outer(values(9, 6)), branching(values(9, 6)) * 2.0, 2e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="dimension 0 of argument 'x' is marked dynamic") as told:
        outer(values(5, 6))
    assert f"{__file__}:{branching.__code__.co_firstlineno + 4}: " in str(told.value)


def test_marks_that_a_cluster_does_not_keep(capfd: Any) -> None:
    """Clustering breaks no program: it runs TensorFlow's operations, and says why."""

    @tf.function(input_signature=[tf.TensorSpec([None, 6])])
    def function(x: Any) -> Any:
        first_dynamic(x)
        return tf.tanh(x) + tf.ones([4, 1])

    with flags.patch(**AUTO):
        x = values(4, 6)
        assert_near(function(x), tf.tanh(x) + 1.0, 2e-6)
    said = capfd.readouterr().err
    assert "runs TensorFlow's ops, because it could not be compiled" in said
    assert "dimension 0 of argument 'x' is marked dynamic, but the program is another one at other sizes" in said


def test_marks_go_with_the_plain_function() -> None:
    function = tf.function(lambda x: x * 2.0)
    x = values(4, 6)
    first_dynamic(x)
    function(x)
    (name,) = (c.name.decode() for c in function._list_all_concrete_functions())
    assert marks.handed_on(name, [-1, 0]) == {(1, 0): Mark(How.DYNAMIC)}
    del function
    gc.collect()
    tf.function(lambda x: x + 1.0)(x)  # what was dropped goes at a call
    assert marks.handed_on(name, [-1, 0]) == {}
