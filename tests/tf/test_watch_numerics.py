"""--tfxla_watch_numerics: planted wrong kernels and NaNs are named by op and line; right programs are left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests import fresh
from tfxla_cluster import flags, trace
from tfxla_cluster.codegen.llvm import math
from tfxla_cluster.tf.watch import locate, op_by_op
from tfxla_cluster.tf.watch.difference import between, has_no_number, shake
from tfxla_cluster.tf.watch.watched import Watched, array
from tfxla_cluster.tf.watch.watcher import Watcher
from tfxla_cluster.tf2xla.function_def import library

ours = pytest.fixture(autouse=True)(fresh.compiler)
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What was said so far, while functions are watched."""
    monkeypatch.setattr(trace, "_said", set())

    def records() -> list[dict[str, Any]]:
        lines = [line for path in tmp_path.glob("trace.*.jsonl") for line in path.read_text().splitlines()]
        return [r for r in map(json.loads, lines) if r["kind"] == "numerics"]

    with flags.patch(tfxla_watch_numerics=True, xla_dump_to=str(tmp_path)):
        yield records


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels' tanh is the identity's."""
    monkeypatch.setitem(math.FLOAT_FUNCTIONS, "tanh", lambda asm, x: x)


def line_of(words: str) -> str:
    """`file:line` of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {words}")]
    return f"{__file__}:{number}"


def chain(x: Any) -> Any:
    y = tf.exp(x * 0.5)
    y = tf.tanh(y)  # in a chain
    return tf.reduce_sum(y * 3.0 + x, -1)


def looped(x: Any) -> Any:
    for _ in tf.range(3):
        x = tf.tanh(x)  # in a loop
        x = x * 2.0
    return x


def branched(x: Any) -> Any:
    if tf.reduce_sum(x) > -100.0:
        return tf.tanh(x) + 1.0  # in a branch
    return x


PROGRAMS = {"chain": (chain, "in a chain"), "loop": (looped, "in a loop"), "branch": (branched, "in a branch")}


@pytest.mark.parametrize(("program", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_wrong_kernel_is_named(program: Any, words: str, watched: Any, wrong_tanh: None) -> None:
    tf.function(program, jit_compile=True)(X)
    (record,) = watched()
    assert (record["event"], record["op"], record["where"]) == ("parts", "Tanh", line_of(words))
    assert record["function"] == program.__name__
    assert "where eager TensorFlow has" in record["message"]


@pytest.mark.parametrize("calls", [1, 3])
def test_each_is_said_once(calls: int, watched: Any, wrong_tanh: None, capfd: pytest.CaptureFixture[str]) -> None:
    f = tf.function(chain, jit_compile=True)
    for _ in range(calls):
        f(X)
    assert capfd.readouterr().err.count("numerics of chain") == 1
    assert len(watched()) == 1


def test_a_nested_function_too(watched: Any, wrong_tanh: None) -> None:
    inner = tf.function(chain, jit_compile=True)
    tf.function(lambda x: inner(x) + tf.strings.to_number("1"))(X)
    assert [r["where"] for r in watched()] == [line_of("in a chain")]


def test_a_cluster_too(watched: Any, wrong_tanh: None) -> None:
    changes = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
    with tfxla_cluster.config.patch(**changes):
        tf.function(lambda x: chain(x) + tf.strings.to_number("1"))(X)
    (record,) = watched()
    assert (record["op"], record["where"]) == ("Tanh", line_of("in a chain"))


def test_an_update_of_a_variable(watched: Any, wrong_tanh: None) -> None:
    variable = tf.Variable(X)

    @tf.function(jit_compile=True)
    def step(x: Any) -> None:
        variable.assign_add(tf.tanh(x * variable))  # into a variable

    step(X)
    step(X)
    assert [r["where"] for r in watched()] == [line_of("into a variable")]


def test_where_a_nan_appears(watched: Any) -> None:
    def f(x: Any) -> Any:
        y = tf.math.log(x + 1.0)  # not a number
        return tf.reduce_sum(tf.nn.softmax(y))

    assert np.isnan(tf.function(f, jit_compile=True)(X))
    (record,) = watched()
    assert (record["event"], record["op"], record["where"]) == ("nonfinite", "Log", line_of("not a number"))
    assert record["message"].startswith("NaN")


def test_right_programs_say_nothing(watched: Any) -> None:
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(3)]
    model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    model.fit(np.tile(X, (4, 1)), np.arange(12) % 3, batch_size=5, epochs=2, verbose=0)
    generator = tf.random.Generator.from_seed(3)

    @tf.function(jit_compile=True)
    def draws(x: Any) -> Any:
        return x + tf.random.normal([4]), x * generator.uniform([4]), looped(x), branched(x)

    for _ in range(2):
        draws(X)
    assert watched() == []


def test_what_cannot_run_op_by_op_is_said(watched: Any) -> None:
    definition = tf.function(tf.tanh).get_concrete_function(tf.TensorSpec([3, 4])).function_def
    (node,) = [node for node in definition.node_def if node.op == "Tanh"]
    node.op = "Enter"
    look = Watcher("f", definition, [0])
    assert look(X, 2 * X)[0].tolist() == (2 * X).tolist()
    (record,) = watched()
    assert record["event"] == "unwatched"
    assert "op by op in eager TensorFlow: Enter (Tanh) is control flow of TensorFlow 1" in record["message"]


def test_without_the_flag_nothing_is_compared(tmp_path: Path, wrong_tanh: None) -> None:
    with flags.patch(xla_dump_to=str(tmp_path)):
        np.testing.assert_allclose(tf.function(tf.tanh, jit_compile=True)(X), X)  # wrong, as planted
    assert '"kind": "numerics"' not in "".join(path.read_text() for path in tmp_path.glob("trace.*.jsonl"))


@pytest.mark.parametrize("program", [chain, looped, branched])
def test_op_by_op_is_the_function(program: Any) -> None:
    concrete = tf.function(program).get_concrete_function(tf.TensorSpec([3, 4]))
    definition = concrete.function_def
    (got,) = op_by_op.run(definition, [tf.constant(X)], library)
    np.testing.assert_allclose(got, concrete(tf.constant(X)), rtol=1e-6)
    names = {node.name for node in definition.node_def}
    assert len(op_by_op.order(definition)) == len(names)


def test_where_only_the_whole_is_wrong_the_op_is_found_by_bisection(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a wrong fusion: with all values as results nothing is fused, and nothing is wrong."""
    concrete = tf.function(chain).get_concrete_function(tf.TensorSpec([3, 4]))
    definition = concrete.function_def
    compiled = Watched.compiled

    def wrong_from_tanh_on(self: Watched, references: list[str], args: list[Any]) -> list[Any]:
        values = compiled(self, references, args)
        needs = locate.needed(definition, references)
        return [x + 1.0 for x in values] if len(references) == 1 and "Tanh" in needs else values

    monkeypatch.setattr(Watched, "compiled", wrong_from_tanh_on)
    watched = Watched(definition, {}, library, lambda function, node: "")
    results = [definition.ret[out.name] for out in definition.signature.output_arg]
    found = locate.locate(watched, {0: X}, [r for r in results if ":" in r])
    assert found is not None
    assert found.node.name == "Tanh"


HOSTILE = np.array([np.nan, np.inf, -np.inf, -0.0, 1.0, 1e30], np.float32)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i4", "u1", "?"])
def test_equal_values_do_not_part(dtype: str) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        values = HOSTILE.astype(dtype)
    for shape in [(6,), (2, 3), ()]:
        x = values[:1].reshape(()) if shape == () else values.reshape(shape)
        assert between(x, x.copy()) is None
    assert between(values[:0], values[:0]) is None


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("other", [np.nan, np.inf, -5.0])
def test_one_wrong_element_is_found(place: int, other: float) -> None:
    wrong = HOSTILE.copy()
    wrong[place] = other
    found = between(HOSTILE[:5], wrong[:5])
    same = place == 5 or np.array_equal(wrong[place], HOSTILE[place], equal_nan=True)
    assert (found is None) == same
    if found is not None:
        assert found.index == (place,)
        assert (found.count, found.total) == (1, 5)


def test_what_a_last_bit_changes_is_no_difference() -> None:
    x = np.linspace(-1, 1, 1001, dtype=np.float32)
    sums, shaken = np.sum(x, keepdims=True), np.sum(shake(x), keepdims=True)
    assert between(sums, sums + np.float32(1e-6)) is not None
    assert between(sums, sums + np.float32(1e-6), shaken) is None
    assert between(sums, sums + np.float32(0.1), shaken) is not None
    chosen = np.array([3, 4])
    assert between(chosen, np.array([3, 5]), np.array([3, 5])) is None
    assert between(chosen, np.array([2, 5]), np.array([3, 5])) is not None


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.int32])
def test_shaking_is_a_last_bit(dtype: Any) -> None:
    x = np.concatenate([HOSTILE[:5], np.arange(1.0, 40.0, dtype=np.float32)])
    x = (np.arange(44) if dtype is np.int32 else x).astype(dtype)
    shaken = shake(x)
    assert shaken.dtype == x.dtype
    assert between(x, shaken) is None
    assert (x.tobytes() == shaken.tobytes()) == (dtype is np.int32)


def test_integers_are_compared_to_the_bit() -> None:
    assert between(np.array(7), np.array(8)) is not None
    assert between(np.array([2**62, 1]), np.array([2**62 + 1, 1])) is not None
    assert between(np.zeros((2, 3)), np.zeros((3, 2))) is not None


def test_numbers_that_are_none() -> None:
    assert [has_no_number(np.array([x])) for x in (1.0, np.nan, np.inf, 1j, complex(0, np.nan), 3)] == [
        "",
        "NaN",
        "an infinity",
        "",
        "NaN",
        "",
    ]


def test_arrays_of_eager_tensors() -> None:
    assert array(tf.constant([1.5], tf.bfloat16)).astype(float).tolist() == [1.5]
