"""From when on a dimension is a size (tfxla_cluster.dynamic_policy): what a function, the flags, a signature and a
profile (tfxla_cluster.profiles.recorder) say, by compilations."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests import fresh
from tests.close import assert_near
from tfxla_cluster import counters, flags
from tfxla_cluster.errors import FlagError, UsageError
from tfxla_cluster.profiles import store

ROOT = Path(__file__).parents[2]


ours = pytest.fixture(autouse=True)(fresh.compiler)


def step(x: Any) -> Any:
    return tf.nn.softmax(x * 2.0) / float(x.shape[0]) + tf.reduce_mean(x, 0)


def unread(x: Any) -> Any:
    """A trace that does not read its size."""
    return tf.nn.softmax(x * 2.0) + tf.reduce_mean(x, 0)


def compilations(function: Any, sizes: tuple[int, ...], same: Any = unread) -> list[int]:
    """So many after each size; the values are eager's of `same`."""
    start, found = int(counters.snapshot()["compilations"]), []
    for n in sizes:
        x = tf.constant(np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32))
        assert_near(function(x), same(x), 2e-6, f"size {n}")
        found.append(int(counters.snapshot()["compilations"]) - start)
    return found


def test_by_itself() -> None:
    assert compilations(tfxla_cluster.jit(unread), (5, 9, 31)) == [1, 2, 2]
    assert compilations(tfxla_cluster.jit(step), (5, 9, 31), step) == [1, 2, 2]


def test_dynamic_true() -> None:
    assert compilations(tfxla_cluster.jit(unread, dynamic=True), (5, 9, 31)) == [1, 1, 1]


def test_dynamic_true_of_a_trace_that_reads_its_size() -> None:
    assert compilations(tfxla_cluster.jit(step, dynamic=True), (5, 9, 31), step)[-1] <= 2


def test_dynamic_of_another_kind() -> None:
    with pytest.raises(UsageError, match=r"dynamic is 1.5, which has to be True, False, None"):
        tfxla_cluster.jit(step, dynamic=1.5)


def test_dynamic_false() -> None:
    assert compilations(tfxla_cluster.jit(unread, dynamic=False), (5, 9, 31)) == [1, 2, 3]


def test_an_open_signature() -> None:
    spec = [tf.TensorSpec([None, 6])]
    for make in (tfxla_cluster.jit, functools.partial(tf.function, jit_compile=True)):
        tfxla_cluster.clear_cache()
        assert compilations(make(unread, input_signature=spec), (5, 9, 31)) == [1, 1, 1]


@pytest.mark.parametrize("dynamic", [None, False])
def test_named_by_the_flag(dynamic: bool | None) -> None:
    with flags.patch(tfxla_dynamic_sources="x:0"):
        assert compilations(tfxla_cluster.jit(unread, dynamic=dynamic), (5, 9, 31)) == [1, 1, 1]


@pytest.mark.parametrize("dynamic", [None, True])
def test_static_by_the_flag(dynamic: bool | None, tmp_path: Path) -> None:
    with flags.patch(tfxla_static_sources="x", xla_dump_to=str(tmp_path)):
        assert compilations(tfxla_cluster.jit(unread, dynamic=dynamic), (5, 9, 31)) == [1, 2, 3]
    records = [json.loads(line) for path in tmp_path.glob("trace.*") for line in path.read_text().splitlines()]
    reasons = [r["reason"] for r in records if r["kind"] == "compile"]
    assert "dimension 0 may not vary (--tfxla_static_sources names it): 5, 9" in reasons[1]


def test_a_trace_that_holds_for_its_own_size_alone() -> None:
    """It does not lower at a sample, so that the second size makes the module for all."""

    def bound(x: Any) -> Any:
        n = x.shape[0]
        return step(x) + tf.reshape(tf.range(6.0 * n), [n, 6]) * 0.0

    with flags.patch(tfxla_dynamic_sources="x:0"):
        assert compilations(tfxla_cluster.jit(bound), (5, 9, 31), step) == [1, 2, 2]


def test_a_wrong_list_is_told_at_once() -> None:
    with pytest.raises(FlagError, match="is no regular expression"), flags.patch(tfxla_static_sources="a("):
        tfxla_cluster.enable()


PROGRAM = """
import sys
import tensorflow as tf, tfxla_cluster

@tf.function(jit_compile=True)
def step(x, w):
    return tf.reduce_mean(tf.tanh(x @ w))

with tfxla_cluster.enable(tfxla_must_compile_fallback="raise"):
    for n in map(int, sys.argv[1:]):
        step(tf.ones([n, 4]), tf.ones([4, 3]))
    print("compilations", tfxla_cluster.stats()["compilations"])
"""


def run(tmp_path: Path, program: str, *sizes: int, flag: str = "") -> str:
    file = tmp_path / program
    file.write_text(PROGRAM)
    words = flag or f"--tfxla_pgo={tmp_path / 'profiles'}"
    done = subprocess.run(
        [sys.executable, str(file), *map(str, sizes)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFXLA_JOB_ID": "a job", "TFXLA_FLAGS": words},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.strip().splitlines()[-1]


def test_a_second_run_compiles_for_all_sizes_at_once(tmp_path: Path) -> None:
    """Also a program that lies elsewhere; the profile is the lattice's join of all runs."""
    assert run(tmp_path, "one.py", 5, 9, 9, 31) == "compilations 2"
    profile = store.read(store.path(str(tmp_path / "profiles"), "a job"))
    (function,) = profile.functions.values()
    assert function.dynamic() == {"x": (0,)}
    assert function.inputs["x"].axes[0].common == [5, 9, 31]
    assert run(tmp_path, "other.py", 7, 12, 8) == "compilations 1"
    both = store.read(store.path(str(tmp_path / "profiles"), "a job"))
    assert both == both | profile
    assert both.sources() == ["x:0"]
    assert run(tmp_path, "one.py", 7, 12, flag="--tfxla_pgo=off") == "compilations 2"


# --- what is kept between processes (tfxla_cluster.runtime.kept_modules, tfxla_cluster.code_version) ---
READS = """
import math, sys
import tensorflow as tf, tfxla_cluster

@tf.function(jit_compile=True)
def step(x, w):
    return tf.reduce_sum(tf.tanh(x @ w)) / x.shape[0] + math.log(x.shape[0])

with tfxla_cluster.enable(tfxla_must_compile_fallback="raise"):
    for n in map(int, sys.argv[1:]):
        x, w = tf.random.stateless_normal([n, 4], [n, 1]), tf.ones([4, 3])
        tf.debugging.assert_near(step(x, w), tf.reduce_sum(tf.tanh(x @ w)) / n + math.log(n), 1e-5, 1e-5)
    found = tfxla_cluster.stats()
    print("compilations", found["compilations"], "internal errors", found["internal_errors"])
"""


def read_sizes(tmp_path: Path, *sizes: int) -> str:
    (tmp_path / "reads.py").write_text(READS)
    flag = f"--tf_xla_persistent_cache_directory={tmp_path / 'store'}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TFXLA_FLAGS": flag}
    command = [sys.executable, str(tmp_path / "reads.py"), *map(str, sizes)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.strip().splitlines()[-1]


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Though the trace reads the size: what the executable was made from is kept beside it, and proven at new sizes."""
    assert read_sizes(tmp_path, 5, 9, 31) == "compilations 2 internal errors 0"
    assert read_sizes(tmp_path, 7, 12, 64) == "compilations 0 internal errors 0"
    for path in (tmp_path / "store").glob("*_sizes_*.bin"):
        path.write_bytes(path.read_bytes()[:-3])
    assert read_sizes(tmp_path, 7, 12) == "compilations 2 internal errors 0"
