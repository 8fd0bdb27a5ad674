"""--tfxla_recompile_limit: how many executables a function gets (tfxla_cluster.recompile_limit), and what runs where
there are no more."""

from __future__ import annotations

import gc
import json
import re
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.close import assert_near
from tfxla_cluster import flags, trace
from tfxla_cluster.errors import RecompileLimitError, UnsupportedError
from tfxla_cluster.profiles import store
from tfxla_cluster.recompile_limit import RecompileLimit
from tfxla_cluster.tf.compiler_port import CompileRequest

LIMIT = 3
SIZES = range(3, 9)
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 2}


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    tf.get_logger().setLevel("ERROR")  # it counts retraces
    tfxla_cluster.clear_cache()
    trace._said.clear()
    limited = flags.patch(tfxla_recompile_limit=LIMIT, tfxla_dynamic="off", tfxla_must_compile_fallback="xla")
    with limited, tfxla_cluster.enable():
        yield


def step(x: Any) -> Any:
    return tf.nn.softmax(x * 2.0) + tf.reduce_mean(x, 0)


def named(name: str) -> Any:
    """`step` of another name: a function of its own."""
    return types.FunctionType(step.__code__, globals(), name)


def values(size: int) -> Any:
    return tf.constant(np.random.default_rng(size).standard_normal((size, 6)).astype(np.float32))


def compiled(function: Callable[[Any], Any], sizes: Any = SIZES, same: Callable[[Any], Any] = step) -> list[int]:
    """Compilations at each size; the values are eager's of `same`."""
    found = []
    for size in sizes:
        before = tfxla_cluster.stats()["compilations"]
        assert_near(function(values(size)), same(values(size)), 2e-6, f"size {size}")
        found.append(tfxla_cluster.stats()["compilations"] - before)
    return found


def said(capfd: Any) -> list[str]:
    return [
        line
        for line in capfd.readouterr().err.splitlines()
        if line.startswith("tfxla_cluster:") and "tfxla_recompile_limit" in line
    ]


MUST = {
    "must": lambda f: tf.function(f, jit_compile=True),
    "one_trace": lambda f: tf.function(f, jit_compile=True, input_signature=[tf.TensorSpec([None, 6])]),
    "jit": tfxla_cluster.jit,
    "nested": lambda f: tf.function(tf.function(f, jit_compile=True)),
}


@pytest.mark.parametrize("name", MUST)
def test_sizes_beyond_it_are_stock_xlas(name: str, capfd: Any) -> None:
    function = MUST[name](named(f"step_{name}"))
    fallbacks = tfxla_cluster.stats()["fallback_reasons"]
    assert compiled(function) == [1, 1, 1, 0, 0, 0]
    before = tfxla_cluster.stats()
    assert compiled(function, [*SIZES, *SIZES]) == [0] * 12
    after = tfxla_cluster.stats()
    assert after["executions"] - before["executions"] == 2 * LIMIT, "the executables there are serve"
    assert after["lowerings"] == before["lowerings"], "what is refused is not looked at again"
    (line,) = said(capfd)
    assert f"function step_{name} has 3 executables, all that --tfxla_recompile_limit={LIMIT} allows" in line
    assert "(the last one: argument 'x': dim 0 was 4, is 5)" in line
    assert "For fewer: --tfxla_dynamic=on: one executable for many sizes; or raise the limit (0: none)" in line
    assert re.search(rf"{Path(__file__).name}:{step.__code__.co_firstlineno}: function step_{name}", line)
    new = {reason: n for reason, n in after["fallback_reasons"].items() if n != fallbacks.get(reason)}
    assert [bool("tfxla_recompile_limit" in reason) for reason in new] == [True]


@pytest.mark.parametrize("name", MUST)
def test_raise(name: str) -> None:
    function = MUST[name](named(f"step_{name}"))
    with flags.patch(tfxla_must_compile_fallback="raise"):
        assert compiled(function, [3, 4, 5]) == [1, 1, 1]
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="has 3 executables, all that"):
                function(values(6))
        assert compiled(function, [3, 4, 5]) == [0, 0, 0]


@pytest.mark.parametrize("spec", [None, [tf.TensorSpec([None, 6])]])
@flags.patch(**AUTO)
def test_clusters_run_their_ops(spec: Any, capfd: Any) -> None:
    function = tf.function(step, input_signature=spec)
    assert compiled(function) == [1, 1, 1, 0, 0, 0]
    before = tfxla_cluster.stats()["executions"]
    assert compiled(function, [*SIZES, *SIZES]) == [0] * 12
    assert tfxla_cluster.stats()["executions"] - before == 2 * LIMIT
    found = said(capfd)
    assert len(found) == 1, "\n".join(found)
    (line,) = found
    assert "runs TensorFlow's ops" in line
    assert "a cluster of function step has 3 executables" in line
    assert "or raise the limit (0: none)" in line


def test_values_beyond_it() -> None:
    """Executables for other values at the same sizes still serve."""

    @tfxla_cluster.jit
    def rolled(x: Any, by: Any) -> Any:
        return tf.reshape(x, [by, -1]) * 2.0

    x = tf.range(24.0)
    for by in (1, 2, 3, 4, 6, 1, 2, 3, 8):
        assert_near(rolled(x, tf.constant(by)), tf.reshape(x, [by, -1]) * 2.0, 0.0, f"by {by}")
    before = tfxla_cluster.stats()["executions"]
    for by in (1, 2, 3):
        rolled(x, tf.constant(by))
    assert tfxla_cluster.stats()["executions"] - before == 3


def test_no_limit_and_one_that_is_raised(capfd: Any) -> None:
    with flags.patch(tfxla_recompile_limit=0):
        assert compiled(tfxla_cluster.jit(step)) == [1] * 6
    tfxla_cluster.clear_cache()
    function = tf.function(step, jit_compile=True)
    assert compiled(function, [3, 4, 5]) == [1, 1, 1]
    with flags.patch(tfxla_recompile_limit=LIMIT + 1):
        assert compiled(function, [6, 7]) == [1, 0]
    tfxla_cluster.clear_cache()
    assert compiled(function, [10, 11, 12, 13]) == [1, 1, 1, 0], "the executables are gone, so there is room"
    assert len(said(capfd)) == 1


def test_one_for_all_sizes_never_comes_to_it(capfd: Any) -> None:
    with flags.patch(tfxla_dynamic="on"):
        assert compiled(tfxla_cluster.jit(step)) == [1, 1, 0, 0, 0, 0]
    assert not said(capfd)


def test_what_python_reads_is_named(capfd: Any) -> None:
    """And the module for all that would come next is refused as such, not taken for one that does not compile."""

    def unrolled(x: Any) -> Any:
        for _ in range(x.shape[0]):
            x = x * 1.5
        return x

    with flags.patch(tfxla_dynamic="on"):
        assert compiled(tfxla_cluster.jit(unrolled), same=unrolled) == [1, 1, 1, 0, 0, 0]
    found = said(capfd)
    assert len(found) == 1, "\n".join(found)
    (line,) = found
    assert "for these alone" in line
    assert not trace.wants("compile"), "it is said without logs too"
    at = f"{Path(__file__).name}:{unrolled.__code__.co_firstlineno + 2}"
    assert re.search(rf"For fewer: make \S*{at} the same program at each size \(tf.shape\(x\) in place of", line)


@pytest.mark.parametrize("kind", ["must", "jit", "before", "clusters"])
def test_retraces_of_one_python_function_count_together(kind: str, capfd: Any) -> None:
    """Whatever its first op is, and where traces were made before anybody looked."""

    def branching(x: Any) -> Any:
        if x.shape[0] in (4, 5, 8):
            x = tf.sin(x)
        if x.shape[0] % 2:
            x = tf.exp(x) * 0.5
        return step(x)

    function = {"jit": tfxla_cluster.jit, "must": MUST["must"], "before": MUST["must"], "clusters": tf.function}[kind](
        branching
    )
    if kind == "before":
        tfxla_cluster.disable()
        function.get_concrete_function(tf.TensorSpec([3, 6]))
        tfxla_cluster.enable()
    with flags.patch(**(AUTO if kind == "clusters" else {}), tfxla_dynamic="on"):
        assert compiled(function, same=branching) == [1, 1, 1, 0, 0, 0]
    (line,) = said(capfd)
    assert f"{Path(__file__).name}:{branching.__code__.co_firstlineno}: " in line


def test_functions_of_one_name_are_told_apart() -> None:
    """By their lines; those that are gone leave room."""
    double, triple = (
        tf.function(lambda x: x * 2.0 + tf.sin(x), jit_compile=True),
        tf.function(lambda x: x * 3.0 + tf.cos(x), jit_compile=True),
    )
    assert compiled(double, same=lambda x: x * 2.0 + tf.sin(x)) == [1, 1, 1, 0, 0, 0]
    assert compiled(triple, same=lambda x: x * 3.0 + tf.cos(x)) == [1, 1, 1, 0, 0, 0]

    def made(factor: float) -> Any:
        return tf.function(lambda x: step(x) * factor, jit_compile=True)

    for factor in (1.5, 2.5, 3.5, 4.5, 5.5):
        assert compiled(made(factor), [5], lambda x, k=factor: step(x) * k) == [1], factor
        gc.collect()
    held = [made(factor) for factor in (6.5, 7.5, 8.5, 9.5)]
    got = [compiled(f, [5], lambda x, k=k: step(x) * k)[0] for f, k in zip(held, (6.5, 7.5, 8.5, 9.5))]
    assert got == [1, 1, 1, 0]


def test_the_last_compilation_is_of_the_function_itself(capfd: Any) -> None:
    """Not of another one of its name."""
    sine = tfxla_cluster.jit(lambda x: tf.sin(x) * 2.0)
    cosine = tfxla_cluster.jit(lambda x: tf.cos(x) * 3.0)
    assert compiled(sine, [3, 4, 5], lambda x: tf.sin(x) * 2.0) == [1, 1, 1]
    assert compiled(cosine, [7], lambda x: tf.cos(x) * 3.0) == [1]
    assert compiled(sine, [6], lambda x: tf.sin(x) * 2.0) == [0]
    (line,) = said(capfd)
    assert "(the last one: argument 'x': dim 0 was 4, is 5" in line


def test_what_left_memory_is_compiled_again() -> None:
    function = tfxla_cluster.jit(step)
    with flags.patch(tfxla_cache_capacity=1):
        assert compiled(function, [3, 4, 5, 3, 6]) == [1, 1, 1, 1, 0]


class Layer(tf.Module):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.scale = tf.Variable(values(5))

    @tf.function(jit_compile=True)
    def layer(self, x: Any) -> Any:
        with self.name_scope:
            return step(x) * self.scale


@pytest.mark.parametrize("evicted", [False, True])
def test_layers_that_compute_the_same_count_once(evicted: bool) -> None:
    """They are one executable, whatever the names of their operations; made again where it had to go."""
    found, counted = [Layer(f"layer{number}") for number in range(6)], []
    with flags.patch(tfxla_cache_capacity=1 if evicted else 100):
        for number, layer in enumerate(found):
            layer.scale.assign_add(tf.fill([5, 6], float(number)))
            counted += compiled(layer.layer, [5], lambda x, s=layer.scale: step(x) * s)
            compiled(tf.function(named("another"), jit_compile=True), [5])
    assert counted == ([1] * 6 if evicted else [1, 0, 0, 0, 0, 0])


def test_trace_and_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFXLA_JOB_ID", "limited")
    with flags.patch(
        xla_dump_to=str(tmp_path / "dump"), tfxla_pgo=str(tmp_path), tfxla_dynamic="on", tfxla_static_sources="x"
    ):
        compiled(tfxla_cluster.jit(step))
    lines = [line for path in tmp_path.glob("dump/trace.*.jsonl") for line in path.read_text().splitlines()]
    records = [r for r in map(json.loads, lines) if r["kind"] == "fallback"]
    assert [r["to"] for r in records] == ["xla"] * 3
    assert all("--tfxla_static_sources names it" in r["reason"] for r in records)
    (function,) = store.read(store.path(str(tmp_path), "limited")).functions.values()
    assert function.limits == {"recompile_limit"}


def test_no_more_where_all_are_compiled_at_once() -> None:
    function = tf.function(lambda x, k: tf.tanh(x) * k, jit_compile=True)
    x, start = tf.constant([0.5, 2.0]), threading.Barrier(2 * LIMIT)
    before = tfxla_cluster.stats()["compilations"]

    def call(k: float) -> np.ndarray:
        start.wait()
        return function(x, k).numpy()

    factors = [k + 0.5 for k in range(2 * LIMIT)]
    with ThreadPoolExecutor(2 * LIMIT) as pool:
        for k, found in zip(factors, pool.map(call, factors)):
            assert_near(found, np.tanh(x.numpy()) * k, 2e-6, str(k))
    assert tfxla_cluster.stats()["compilations"] == before + LIMIT


def test_what_fails_to_compile_counts_not() -> None:
    limit, request = RecompileLimit(), CompileRequest("f", "must")
    for content in "abcd":
        with suppress(UnsupportedError), limit.admitted(request, content):
            raise UnsupportedError("no")
    for content in "abc":
        with limit.admitted(request, content):
            pass
    with suppress(UnsupportedError), limit.admitted(request, "a"):  # it is known
        raise UnsupportedError("no")
    with pytest.raises(RecompileLimitError, match="has 3 executables, all"), limit.admitted(request, "d"):
        pass
