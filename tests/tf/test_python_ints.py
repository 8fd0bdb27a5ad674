"""Python integers as sizes (tfxla_cluster.tf.functions.python_ints): by compilations and values, and
what stays a number; sizes of variables and captured constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests import fresh
from tests.close import assert_near
from tfxla_cluster import counters, flags
from tfxla_cluster.profiles import store
from tfxla_cluster.tf.functions import python_ints

ours = pytest.fixture(autouse=True)(fresh.compiler)


def compiled() -> int:
    return int(counters.snapshot()["compilations"])


X = tf.constant(np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32))


def taken(x: Any, n: int, scale: float = 1.0) -> Any:
    """The integer is a bound, a size, an integer and a float."""
    return tf.nn.softmax(x[:n] * float(n)) / n + tf.ones([n, 1]) * scale + tf.cast(tf.range(n)[:, None] + n, tf.float32)


def branching(x: Any, n: int) -> Any:
    """Python reads the integer."""
    return x * 2.0 if n == 7 else x + float(n) if n % 2 else tf.tanh(x[: len(range(n))])


@pytest.mark.parametrize("verify", ["always", "off"])
def test_one_executable_for_many_values(verify: str) -> None:
    with flags.patch(tfxla_dynamic_python_ints=True, tfxla_dynamic_verify=verify):
        function, before = tfxla_cluster.jit(taken), compiled()
        for n in (5, 9, 31, 12, 9, 40):
            assert_near(function(X, n), taken(X, n), 2e-6, f"value {n}")
        assert compiled() - before == 2
        for n in (1, 0, 2):
            assert_near(function(X, n), taken(X, n), 2e-6, f"value {n}")


def test_a_table_of_which_rows_are_taken() -> None:
    """One executable is for all that the table has, as positions of a sequence; also where a size says how many."""
    table = tf.Variable(X)

    def positions(x: Any) -> Any:
        return x + table[: x.shape[0]]

    function, before = tf.function(positions, jit_compile=True), compiled()
    for n in (5, 9, 31, 39):
        assert_near(function(X[:n] * 2.0), positions(X[:n] * 2.0), 2e-6, f"size {n}")
    assert compiled() - before == 2


def test_a_range_of_an_integer() -> None:
    with flags.patch(tfxla_dynamic_python_ints=True):
        function, before = tfxla_cluster.jit(lambda x, n: x * float(n), dynamic="n=rows[2..10]"), compiled()
        for n in (5, 9, 10, 11, 12):
            assert_near(function(X, n), X * float(n), 2e-6)
        assert compiled() - before <= 4


def test_each_value_has_its_own_without_the_flag() -> None:
    function, before = tfxla_cluster.jit(taken), compiled()
    for n in (5, 9, 31):
        assert_near(function(X, n), taken(X, n), 2e-6, f"value {n}")
    assert compiled() - before == 3


def test_what_python_reads_of_a_value_is_never_wrong() -> None:
    with flags.patch(tfxla_dynamic_python_ints=True):
        function = tfxla_cluster.jit(branching)
        for n in (4, 6, 7, 8, 9, 3, 7, 11, -3, 2**40):
            assert_near(function(X, n), branching(X, n), 2e-6, f"value {n}")


def test_values_and_sizes_vary_together() -> None:
    def function(x: Any, shift: int, *, rows: int, flag: bool = True) -> Any:
        return tf.concat([x * float(shift), tf.zeros([rows, 3])], 0) + (1.0 if flag else 0.0)

    with flags.patch(tfxla_dynamic_python_ints=True):
        made, before = tfxla_cluster.jit(function, dynamic="x:0"), compiled()
        for size, shift, rows in ((5, 5, 5), (7, 9, 12), (8, 4, 6), (20, 30, 31)):
            assert_near(made(X[:size], shift, rows=rows), function(X[:size], shift, rows=rows), 2e-6)
        assert compiled() - before <= 3


def test_named_by_the_list() -> None:
    with flags.patch(tfxla_dynamic_python_ints=True, tfxla_static_sources="n"):
        function, before = tfxla_cluster.jit(taken), compiled()
        for n in (5, 9, 31):
            function(X, n)
        assert compiled() - before == 3


def test_gradients_and_direct_calls() -> None:
    """Backward functions do not get the integer: each value has one."""
    with flags.patch(tfxla_dynamic_python_ints=True):
        function = tfxla_cluster.jit(lambda x, n: tf.reduce_sum(x[:n] ** 2) * n)
        for n in (5, 9, 12):
            with tf.GradientTape() as tape:
                tape.watch(X)
                y = function(X, n)
            wanted = tf.concat([2.0 * n * X[:n], tf.zeros([40 - n, 3])], 0)
            assert_near(tape.gradient(y, X), wanted, 2e-6)
            for _ in range(3):
                assert_near(function(X, n), tf.reduce_sum(X[:n] ** 2) * n, 4e-6)
        plans = function.function.__dict__["_tfxla_plans"]
        assert plans.calls >= 3, "they go directly to the executable"


def test_what_a_trace_takes() -> None:
    with flags.patch(tfxla_dynamic_python_ints=True):
        concrete = tfxla_cluster.jit(lambda x, n, m: x + n + m[0]).get_concrete_function(X, 5, (6, True, 1))
    definition = concrete.function_def
    assert python_ints.of_definition(definition) == {1, 2}
    names = [definition.arg_attr[k].attr["_user_specified_name"].s for k in (1, 2)]
    assert names == [b"n", b"m"]


def test_profiles_have_integers_apart_from_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFXLA_JOB_ID", "integers")
    with flags.patch(tfxla_dynamic_python_ints=True, tfxla_pgo=str(tmp_path)):
        function = tfxla_cluster.jit(lambda x, n: x * float(n))
        for n in (5, 9):
            function(X, n)
    (profile,) = store.read(store.path(str(tmp_path), "integers")).functions.values()
    assert profile.numbers["n"].common == [5, 9]
    assert profile.inputs.keys() == {"x"}


# --- variables and constants ---
@pytest.mark.parametrize(("dynamic", "count"), [(False, 3), (True, 2)])
def test_sizes_of_variables_and_of_captured_constants(dynamic: bool, count: int) -> None:
    with flags.patch(tfxla_dynamic_variables=dynamic):
        for make in (tf.Variable, tf.constant):
            tfxla_cluster.clear_cache()
            before = compiled()
            for rows in (45, 50, 61):
                held = make(np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32))
                x = tf.ones([2, 4])
                assert_near(_closing(held)(x), x @ tf.transpose(held), 4e-6)
            assert compiled() - before == count, make


@pytest.mark.parametrize(("dynamic", "count"), [(False, 4), (True, 2)])
def test_sizes_of_a_variable_beside_open_sizes(dynamic: bool, count: int) -> None:
    """The trace leaves the argument's size open, and is for one of the variable's."""
    held = tf.Variable(tf.ones([45, 4]), shape=tf.TensorShape([None, 4]))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 4])])
    def closed(x: Any) -> Any:
        return x @ tf.transpose(held)

    with flags.patch(tfxla_dynamic_variables=dynamic):
        before = compiled()
        for n, rows in ((3, 45), (7, 50), (9, 61), (9, 80), (5, 45)):
            held.assign(np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32))
            x = tf.random.stateless_normal([n, 4], [n, rows])
            assert_near(closed(x), x @ tf.transpose(held), 4e-6)
        assert compiled() - before == count


def _closing(held: Any) -> Any:
    @tf.function(jit_compile=True)
    def closed(x: Any) -> Any:
        return x @ tf.transpose(held)

    return closed
