"""Must-compile functions through the hooks, against stock TensorFlow; the compiler is the stand-in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.close import assert_near
from tests.tf import double
from tests.tf.programs import PROGRAMS
from tfxla_cluster import counters, flags


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    """Stock XLA, which runs what the double compiles, knows no check of data."""
    with flags.patch(tfxla_check_data=False):
        yield


@pytest.fixture
def ours() -> Iterator[double.Ours]:
    made = double.Ours()
    made.enable()
    yield made
    made.disable()


def _run(name: str) -> list[Any]:
    tf.keras.utils.set_random_seed(1)
    return tf.nest.flatten(PROGRAMS[name]())


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_program_is_as_stock(name: str) -> None:
    want = _run(name)
    ours, stock_before = double.Ours(), len(_fallbacks())
    with flags.patch(tfxla_must_compile_fallback="raise"):
        ours.enable()
        try:
            have = _run(name)
        finally:
            ours.disable()
    assert ours.compiler.runs > 0, "nothing ran natively"
    assert len(_fallbacks()) == stock_before
    assert len(have) == len(want)
    for a, b in zip(have, want):
        if a is None or b is None:
            assert a is b
            continue
        assert_near(a, b, 1e-6)


def _fallbacks() -> dict[str, int]:
    return dict(counters.snapshot()["fallback_reasons"])


def test_functions_traced_before_are_covered_and_restored() -> None:
    f = tf.function(lambda x: x * 3, jit_compile=True)
    x = tf.ones([2])
    f(x)
    ours = double.Ours()
    ours.install_hooks()
    f(x)
    assert ours.compiler.runs == 1
    ours.remove_hooks()
    f(x)
    assert ours.compiler.runs == 1
    assert not ours.hook.everything


def _line_of(marker: str) -> int:
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(marker))


def test_py_function_is_refused_with_line_and_remedy(ours: double.Ours) -> None:
    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        return tf.py_function(lambda y: y, [x], tf.float32)  # MARK 1

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        f(tf.ones([2]))
    text = str(caught.value)
    line = _line_of("# MARK " + "1")
    assert f"test_must_compile.py:{line}" in text
    assert "EagerPyFunc" in text
    assert "outside the compiled function" in text
    assert "tfxla_0" not in text


def test_shape_from_a_loop_is_refused(ours: double.Ours) -> None:
    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        while tf.reduce_sum(x) < 9.0:
            x += 1.0
        return tf.zeros([tf.cast(x[0], tf.int32)])  # MARK 2

    line = _line_of("# MARK " + "2")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"test_must_compile.py:{line}.*compile-time constant"):
        f(tf.ones([2]))


def test_string_argument_is_refused(ours: double.Ours) -> None:
    f = tf.function(lambda x, s: x + 1, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="dtype string"):
        f(tf.ones([2]), tf.constant("a"))


def test_shape_change_of_variable_is_refused_and_changes_nothing(ours: double.Ours) -> None:
    v, w = tf.Variable([1.0], shape=tf.TensorShape(None)), tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def f(x: Any) -> None:
        w.assign_add(1.0)
        v.assign(tf.concat([v, x], 0))

    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be changed after initialization"):
        f(tf.ones([2]))
    assert w.numpy() == 1.0
    assert v.numpy().tolist() == [1.0]


def test_uninitialised_variable(ours: double.Ours) -> None:
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="tests_uninitialised")
    read = tf.function(lambda x: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) + x, jit_compile=True)

    @tf.function(jit_compile=True)
    def write(x: Any) -> Any:
        tf.raw_ops.AssignVariableOp(resource=handle, value=x)
        return x + 1

    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        read(tf.ones([2]))
    assert write(tf.ones([2])).numpy().tolist() == [2, 2]
    assert read(tf.ones([2])).numpy().tolist() == [2, 2]


def test_unsupported_falls_back_once_or_raises(ours: double.Ours, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes that depend on data: stock XLA ends the process on such a cumsum, so the ops run uncompiled."""
    f = tf.function(lambda x: tf.cumsum(tf.unique(x).y), jit_compile=True)
    x = tf.constant([1, 2, 1])
    for _ in range(3):
        assert f(x).numpy().tolist() == [1, 3]
    assert capsys.readouterr().err.count("runs uncompiled") == 1
    g = tf.function(lambda x: tf.unique(x).y, jit_compile=True)
    refused = pytest.raises(tf.errors.InvalidArgumentError, match="must_compile_fallback")
    with flags.patch(tfxla_must_compile_fallback="raise"), refused:
        g(x)


def test_internal_error_falls_back(ours: double.Ours) -> None:
    ours.compiler.refusal = ZeroDivisionError("bug")
    v = tf.Variable(1.0)
    f = tf.function(v.assign_add, jit_compile=True)
    assert f(tf.constant(2.0)).numpy() == 3.0
    assert v.numpy() == 3.0


def test_dropped_functions_leave_nothing(ours: double.Ours) -> None:
    from tensorflow.python.eager import context

    def once() -> None:
        v = tf.Variable(1.0)
        f = tf.function(v.assign_add, jit_compile=True)
        f(tf.constant(1.0))

    once()
    gc.collect()
    keep = tf.function(lambda x: x + 1, jit_compile=True)
    keep(tf.ones([1]))
    names = len([n for n in context.context().list_function_names() if b"tfxla" in n.encode()])
    for _ in range(5):
        once()
    gc.collect()
    keep(tf.ones([2]))  # a new trace frees what was dropped
    after = len([n for n in context.context().list_function_names() if b"tfxla" in n.encode()])
    assert after <= names + 1
    assert len([r for r in ours.hook.routes.values() if r]) <= 2


def test_variable_count_of_reads(ours: double.Ours) -> None:
    """Only what is used is read, only what is written is assigned."""
    a, b, c = (tf.Variable(float(i)) for i in range(3))

    @tf.function(jit_compile=True)
    def f() -> Any:
        b.assign_add(a)
        return c.handle, a + 1

    handle, value = f()
    assert handle.dtype == tf.resource
    assert value.numpy() == 1.0
    route = next(r for r in ours.hook.routes.values() if r)
    assert len(route.interface.resources) == 3
    assert len(route.interface.inputs) == 2
    assert len(route.interface.updated) == 1


def test_nested_call_falls_back_where_it_is_not_compiled(ours: double.Ours, capsys: pytest.CaptureFixture[str]) -> None:
    v = tf.Variable(1)
    inner = tf.function(lambda x: (tf.cumsum(tf.unique(x).y), v.assign_add(1)), jit_compile=True)
    outer = tf.function(lambda x: inner(x + 0)[0] * 2)
    for _ in range(3):
        assert outer(tf.constant([1, 2, 1])).numpy().tolist() == [2, 6]
    assert v.numpy() == 4
    assert capsys.readouterr().err.count("runs uncompiled") == 1


def test_stock_compiles_what_only_the_compiler_refuses(ours: double.Ours, capsys: pytest.CaptureFixture[str]) -> None:
    from tfxla_cluster.errors import UnsupportedError

    ours.compiler.refusal = UnsupportedError("opcode x is not compiled yet")
    v = tf.Variable(1.0)
    f = tf.function(v.assign_add, jit_compile=True)
    outer = tf.function(lambda x: f(x) + 1.0)
    assert [f(tf.constant(2.0)).numpy() for _ in range(2)] == [3.0, 5.0]
    assert outer(tf.constant(2.0)).numpy() == 8.0
    assert v.numpy() == 7.0
    assert capsys.readouterr().err.count("is compiled by stock XLA: opcode x is not compiled yet") == 1


def test_eager_tape_around_a_loop(ours: double.Ours, capsys: pytest.CaptureFixture[str]) -> None:
    """Stock XLA refuses it: a tensor list crosses from the forward to the backward function."""

    @tf.function(jit_compile=True)
    def f(x: Any) -> Any:
        y = x
        for _ in tf.range(3):
            y = y * x
        return y

    x = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy() == 16.0
    assert tape.gradient(y, x).numpy() == 32.0
    assert "runs uncompiled: a tensor list crosses its border" in capsys.readouterr().err


def test_nested_call_is_refused_with_line(ours: double.Ours) -> None:
    @tf.function(jit_compile=True)
    def inner(x: Any) -> Any:
        return tf.py_function(lambda y: y, [x], tf.float32)  # MARK 3

    outer = tf.function(lambda x: inner(x) + 1)
    line = _line_of("# MARK " + "3")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"test_must_compile.py:{line}"):
        outer(tf.ones([2]))


def test_nested_call_assigns_in_order(ours: double.Ours) -> None:
    v = tf.Variable([1.0, 1.0])

    @tf.function(jit_compile=True)
    def inner(x: Any) -> Any:
        v.assign(v * x)
        return v.read_value()

    @tf.function
    def outer(x: Any) -> Any:
        v.assign_add([1.0, 1.0])
        first = inner(x)
        v.assign_add(first)
        return inner(x), v.read_value()

    before = ours.compiler.runs
    a, b = outer(tf.constant([2.0, 3.0]))
    assert a.numpy().tolist() == [16.0, 36.0]
    assert b.numpy().tolist() == [16.0, 36.0]
    assert ours.compiler.runs == before + 2
