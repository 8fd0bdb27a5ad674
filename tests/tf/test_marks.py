"""What a program says about sizes (tfxla_cluster.mark_dynamic and relatives, jit's `dynamic`, tf.functions.marks,
kept_marks): by compilations, values, and the errors of what does not hold."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests import fresh
from tests.close import assert_near
from tfxla_cluster import Size, counters, flags
from tfxla_cluster.errors import UsageError
from tfxla_cluster.size_spec import ANY, How, Mark
from tfxla_cluster.tf.functions import marks

Function = Callable[..., Any]
MAKERS: dict[str, Function] = {
    "jit": tfxla_cluster.jit,
    "tf.function": lambda function: tf.function(function, jit_compile=True),
}


ours = pytest.fixture(autouse=True)(fresh.compiler)


def values(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def unread(x: Any) -> Any:
    """A trace that does not read its size."""
    return tf.nn.softmax(x * 2.0) + tf.reduce_mean(x, 0)


def counted(
    function: Function, sizes: tuple[int, ...], mark: Function = lambda x: None, same: Any = unread
) -> list[int]:
    """Compilations after each size; the values are eager's of `same`."""
    start, found = int(counters.snapshot()["compilations"]), []
    for n in sizes:
        x = values(n, 6)
        mark(x)
        assert_near(function(x), same(x), 2e-6, f"size {n}")
        found.append(int(counters.snapshot()["compilations"]) - start)
    return found


def first_dynamic(x: Any) -> None:
    tfxla_cluster.mark_dynamic(x, 0)


# --- on tensors that are passed ---
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_marked_dimension_is_a_size_from_the_first_call_on(make: Function) -> None:
    assert counted(make(unread), (5, 9, 31), first_dynamic) == [1, 1, 1]
    tfxla_cluster.clear_cache()
    assert counted(make(unread), (5, 0, 1, 7), first_dynamic) == [1, 2, 3, 3]


def test_a_number_that_each_trace_makes_of_its_size_takes_two_traces() -> None:
    """TensorFlow folds it while it traces: at other sizes each trace is a program that nobody calls."""
    function = lambda x: unread(x) * tf.cast(tf.shape(x)[0], tf.float32)
    for make in MAKERS.values():
        tfxla_cluster.clear_cache()
        assert counted(make(function), (5, 9, 31, 12), first_dynamic, function) == [1, 2, 2, 2]


def test_only_the_first_needs_the_mark() -> None:
    function = tfxla_cluster.jit(unread)
    assert counted(function, (5,), first_dynamic) == [1]
    assert counted(function, (9, 31)) == [0, 0]


@pytest.mark.parametrize("mark", [tfxla_cluster.mark_dynamic, tfxla_cluster.maybe_mark_dynamic])
def test_sizes_outside_of_the_range_have_executables_of_their_own(mark: Function) -> None:
    function = tfxla_cluster.jit(unread)
    assert counted(function, (5, 9), lambda x: mark(x, 0, min=4, max=16)) == [1, 1]
    assert counted(function, (40, 16)) == [1, 1]
    tfxla_cluster.clear_cache()
    assert counted(tfxla_cluster.jit(unread, dynamic="x:0=[4..16]"), (5, 17, 16, 18, 3)) == [1, 2, 2, 3, 4]


def test_a_static_mark() -> None:
    def static(x: Any) -> None:
        tfxla_cluster.mark_static(x, 0)

    assert counted(tfxla_cluster.jit(unread), (5, 9, 31), static) == [1, 2, 3]
    tfxla_cluster.clear_cache()
    function = tfxla_cluster.jit(unread)
    assert counted(function, (5, 9, 31)) == [1, 2, 2]
    assert counted(function, (33,), tfxla_cluster.mark_static) == [1], "though one for all sizes is there"

    tfxla_cluster.clear_cache()

    def both(x: Any) -> None:
        first_dynamic(x)
        static(x)

    assert counted(tfxla_cluster.jit(unread), (5, 9), both) == [1, 1]


def test_marks_outweigh_the_lists() -> None:
    with flags.patch(tfxla_static_sources="x"):
        assert counted(tfxla_cluster.jit(unread), (5, 9), first_dynamic) == [1, 1]
        tfxla_cluster.clear_cache()
        assert counted(tfxla_cluster.jit(unread, dynamic=False), (5, 9), first_dynamic) == [1, 1]


def test_marks_with_gradients() -> None:
    """Of the function that a tape calls."""

    @tf.function(jit_compile=True)
    def loss(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x) ** 2)

    start = int(counters.snapshot()["compilations"])
    for n in (5, 9, 31):
        x = values(n, 3)
        first_dynamic(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        assert_near(tape.gradient(y, x), 2 * tf.tanh(x) * (1 - tf.tanh(x) ** 2), 4e-6, f"size {n}")
    assert int(counters.snapshot()["compilations"]) - start <= 3, "forward for all; backward at one and for all"


def test_marks_go_with_their_tensor() -> None:
    x = values(3, 2)
    first_dynamic(x)
    gone = weakref.ref(x)
    assert marks._held(x) == {0: Mark(How.DYNAMIC)}
    assert not marks._held(tf.identity(x))
    del x
    gc.collect()
    assert gone() is None
    assert not any(marks._held(values(3, 2)) for _ in range(100))


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (lambda: tfxla_cluster.mark_dynamic(np.ones([3]), 0), "a ndarray cannot be marked"),
        (lambda: tfxla_cluster.mark_static(tf.Variable([3.0])), "a ResourceVariable cannot be marked"),
        (lambda: tfxla_cluster.mark_dynamic(tf.ones([3]), 1), "1 is no dimension of a tensor of shape"),
        (lambda: tfxla_cluster.mark_dynamic(tf.ones([3]), -2), "-2 is no dimension"),
        (lambda: tfxla_cluster.mark_dynamic(tf.ones([3]), True), "True is no dimension"),
        (lambda: tfxla_cluster.mark_dynamic(tf.ones([3]), 0, max=2), r"dimension 0 is 3, outside of \[..2\]"),
        (lambda: tfxla_cluster.mark_dynamic(tf.ones([3]), 0, min=5, max=2), "no size is from 5 to 2"),
        (lambda: tfxla_cluster.maybe_mark_dynamic(tf.ones([3]), [0, 3]), "3 is no dimension"),
        (lambda: tfxla_cluster.mark_static(tf.ones([]), 0), "0 is no dimension"),
    ],
)
def test_what_cannot_be_marked(mark: Callable[[], None], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mark()


# --- on arguments, while a function is traced ---
def test_marks_of_arguments() -> None:
    for make in MAKERS.values():

        def function(x: Any) -> Any:
            tfxla_cluster.mark_dynamic(x, 0, max=100)
            return unread(x)

        tfxla_cluster.clear_cache()
        assert counted(make(function), (5, 9, 31)) == [1, 1, 1]


def test_marks_of_arguments_in_a_branch() -> None:
    @tf.function(jit_compile=True)
    def function(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            tfxla_cluster.mark_dynamic(x, 0)
            y = x * 2.0
        else:
            y = x - 1.0
        return y

    eager = lambda x: tf.where(tf.reduce_sum(x) > 0.0, x * 2.0, x - 1.0)
    assert counted(function, (5, 9), same=eager) == [1, 1]


def test_computed_tensors_have_no_marks_of_their_own() -> None:
    def function(mark: Function, x: Any) -> Any:
        mark(x + 1.0, 0)
        return x

    with pytest.raises(UsageError, match="is computed in the function that is being traced"):
        tf.function(lambda x: function(tfxla_cluster.mark_dynamic, x), autograph=False)(values(3, 2))
    tf.function(lambda x: function(tfxla_cluster.maybe_mark_dynamic, x), autograph=False)(values(3, 2))


def test_what_a_function_definition_says() -> None:
    def special(n: int) -> bool:
        return n == 8

    @tf.function
    def function(x: Any, y: Any) -> Any:
        tfxla_cluster.mark_dynamic(x, [0, -1], min=2, max=9, name="n", specialize_on=[special])
        tfxla_cluster.maybe_mark_dynamic(y, 0)
        tfxla_cluster.mark_static(y, 1)
        return x, y

    definition = function.get_concrete_function(tf.ones([3, 4, 5]), tf.ones([6, 7])).function_def
    size = Size("n", 2, 9, (special,))
    assert marks.of_definition(definition) == {
        (0, 0): Mark(How.DYNAMIC, size),
        (0, 2): Mark(How.DYNAMIC, size),
        (1, 0): Mark(How.MAYBE, ANY),
        (1, 1): Mark(How.STATIC, ANY),
    }


# --- jit's specification ---
def product(x: Any, y: Any) -> Any:
    return tf.tanh(x @ y)


@pytest.mark.parametrize("dynamic", ["x:0=n[2..64],y:1=m", {"x": {0: Size("n", 2, 64)}, "y": {1: "m"}}])
def test_a_specification(dynamic: Any) -> None:
    """Sizes of two names are two, though they are equal at first."""
    function, start = tfxla_cluster.jit(product, dynamic=dynamic), int(counters.snapshot()["compilations"])
    for n, m in ((5, 5), (9, 5), (5, 9), (64, 3)):
        x, y = values(n, 4), values(4, m)
        assert_near(function(x, y), product(x, y), 2e-6, f"{n}, {m}")
    assert int(counters.snapshot()["compilations"]) - start == 1


def test_sizes_of_one_name_are_equal() -> None:
    function = tfxla_cluster.jit(lambda x, y: (x * 2.0, y + 1.0), dynamic="x:0=batch,y:0=batch")
    assert function(values(3, 2), values(3, 2))[1].shape == [3, 2]
    said = "'batch' is 3 by dimension 0 of argument 'x' and 4 by dimension 0 of argument 'y'"
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        function(values(3, 2), values(4, 2))
    assert function(values(4, 2), values(4, 2))[0].shape == [4, 2]


def test_nested_arguments_and_methods() -> None:
    class Model:
        @tfxla_cluster.jit(dynamic="batch:0")
        def step(self, batch: Any) -> Any:
            return batch["a"] * 2.0 + tf.reduce_sum(batch["b"], 1, keepdims=True)

    start = int(counters.snapshot()["compilations"])
    for n in (4, 7):
        a, b = values(n, 3), values(n, 5)
        assert_near(Model().step({"a": a, "b": b}), a * 2.0 + tf.reduce_sum(b, 1, keepdims=True), 2e-6)
    assert int(counters.snapshot()["compilations"]) - start == 1


@pytest.mark.parametrize("jit_compile", [None, True])
def test_what_is_wrong_in_a_trace_is_our_error_with_the_users_line(jit_compile: bool | None) -> None:
    """AutoGraph makes a StagingError, which names files of its own, of errors that it does not know."""
    wrong = tfxla_cluster.jit(unread, dynamic="z:0")

    def outer(x: Any) -> Any:
        return wrong(x)

    def marks_no_dimension(x: Any) -> Any:
        tfxla_cluster.mark_dynamic(x, 7)
        return x

    class Layer(tf.keras.layers.Layer):
        def call(self, x: Any) -> Any:
            tfxla_cluster.mark_static(x + 1.0)
            return x

    line = marks_no_dimension.__code__.co_firstlineno + 1
    cases = [
        (outer, "no argument or dimension 'z:0'"),
        (marks_no_dimension, f"{__file__}:{line}: 7 is no dimension of a tensor of shape"),
        (Layer(), "is computed in the function that is being traced"),
    ]
    for function, said in cases:
        with pytest.raises(UsageError, match=said):
            tf.function(function, jit_compile=jit_compile)(values(3, 2))


# --- what does not hold ---
def test_an_open_size_that_has_to_be_a_number() -> None:
    spec = [tf.TensorSpec([None, 6])]
    function = tfxla_cluster.jit(lambda x: x + tf.ones([4, 1]), input_signature=spec, dynamic="x:0")
    with pytest.raises(tf.errors.InvalidArgumentError) as told:
        function(values(4, 6))
    assert "dimension 0 of argument 'x' is marked dynamic, but the program is another one at other sizes" in str(
        told.value
    )
    assert f"{__file__}:" in str(told.value)
    allowed = tfxla_cluster.jit(lambda x: x + tf.ones([4, 1]), input_signature=spec)
    x = values(4, 6)
    tfxla_cluster.maybe_mark_dynamic(x, 0)
    assert_near(allowed(x), x + 1.0, 1e-7)


def test_an_open_size_whose_literals_follow_it_in_no_way() -> None:
    """The bridge computes the literal at each size; its elements are no expression of one, and are handed over."""

    def function(x: Any) -> Any:
        return x * tf.linspace(0.0, 1.0, tf.shape(x)[0])[:, None]

    function_of = lambda: tfxla_cluster.jit(function, input_signature=[tf.TensorSpec([None, 6])])
    assert counted(function_of(), (6, 9, 31, 6, 7), first_dynamic, function) == [1, 1, 1, 1, 1]
    for verify in ("first", "off"):
        with flags.patch(tfxla_dynamic_verify=verify):
            assert counted(function_of(), (6, 9, 31, 6, 7), first_dynamic, function)[-1] <= 1


def test_an_open_size_of_which_a_literal_is_too_large() -> None:
    """Handed over they are kept for each size: beyond a limit each has an executable."""

    def function(x: Any) -> Any:
        return tf.reduce_sum(x) * tf.random.stateless_uniform([40_000, tf.shape(x)[0]], [1, 2])

    x = values(9)
    first_dynamic(x)
    spec = [tf.TensorSpec([None])]
    with pytest.raises(tf.errors.InvalidArgumentError) as told:
        tfxla_cluster.jit(function, input_signature=spec)(x)
    assert "dimension 0 of argument 'x' is marked dynamic, but the program is another" in str(told.value)
    assert "a literal varies that follows no size" in str(told.value)
    assert f"{__file__}:" in str(told.value)
    for mark in (tfxla_cluster.maybe_mark_dynamic, tfxla_cluster.mark_static):
        y = values(9)
        mark(y, 0)
        assert_near(tfxla_cluster.jit(function, input_signature=spec)(y), function(y), 2e-6)


# --- predicates ---
def test_sizes_for_which_a_predicate_is_true_have_an_executable_of_their_own() -> None:
    def mark(x: Any) -> None:
        tfxla_cluster.mark_dynamic(x, 0, specialize_on=[lambda n: n == 8, lambda n: n % 16 == 0])

    for verify in ("always", "off"):
        tfxla_cluster.clear_cache()
        with flags.patch(tfxla_dynamic_verify=verify):
            found = counted(tfxla_cluster.jit(unread), (5, 7, 8, 32, 64, 9, 48, 8), mark)
            assert found == [1, 1, 2, 3, 3, 3, 3, 3], verify


def test_a_predicate_that_fails() -> None:
    def mark(x: Any) -> None:
        tfxla_cluster.mark_dynamic(x, 0, specialize_on=[lambda n: n.size > 3])

    x = values(3, 6)
    mark(x)
    line = f"{__file__}:{mark.__code__.co_firstlineno + 1}"
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{line}: dimension 0 of argument 'x': a predicate .* fails for 3"
    ):
        tfxla_cluster.jit(unread)(x)


def test_without_sizes_that_vary_it_is_said_that_marks_have_no_effect(capfd: Any) -> None:
    with flags.patch(tfxla_dynamic="off"):
        assert counted(tfxla_cluster.jit(unread), (5, 9), first_dynamic) == [1, 2]
    assert "marks of sizes have no effect" in capfd.readouterr().err
