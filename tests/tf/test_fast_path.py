"""The direct call: when it is taken, which guard forbids it, and that nothing observable changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.tf import double
from tfxla_cluster import flags
from tfxla_cluster.tf.must_compile import fast_path


@pytest.fixture
def ours() -> Iterator[double.Ours]:
    made = double.Ours()
    made.install_hooks()
    yield made
    made.remove_hooks()


def _plans(f: Any) -> fast_path.Plans:
    plans: fast_path.Plans = f.__dict__["_tfxla_plans"]
    return plans


X = tf.constant([1.0, 2.0])


def test_second_call_is_direct(ours: double.Ours) -> None:
    v = tf.Variable([1.0, 1.0])
    f = tf.function(lambda x, k: {"y": v.assign_add(x) * k, "z": (x,)}, jit_compile=True)
    for n in range(1, 4):
        out = f(X, 2.0)
        assert out["y"].numpy().tolist() == [2.0 * (1 + n), 2.0 * (1 + 2 * n)]
        assert out["z"][0].numpy().tolist() == [1, 2]
    assert _plans(f).calls == 2
    assert dict(_plans(f).misses) == {"signature": 1}
    f(X, 3.0)
    f(tf.ones([2, 2])[0], 3.0)
    assert _plans(f).misses["signature"] == 2, "another number is another trace"


def _blocked(name: str, f: Any) -> None:
    if name == "tape":
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = f(X)
        assert tape.gradient(y, X).numpy().tolist() == [2, 2]
    elif name == "device":
        with tf.device("CPU:0"):
            f(X)
    elif name == "keywords":
        f(x=X)
    elif name == "strategy":
        with tf.distribute.OneDeviceStrategy("CPU:0").scope():
            f(X)
    elif name == "eager":
        tf.config.run_functions_eagerly(True)
        try:
            f(X)
        finally:
            tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("name", ["tape", "device", "keywords", "strategy", "eager"])
def test_guard_sends_the_call_to_tensorflow(ours: double.Ours, name: str) -> None:
    f = tf.function(lambda x: x * 2, jit_compile=True)
    f(X)
    f(X)
    calls = _plans(f).calls
    _blocked(name, f)
    assert _plans(f).misses[name] == 1
    assert name in fast_path.GUARDS
    assert _plans(f).calls == calls
    f(X)
    assert _plans(f).calls == calls + 1


def test_other_arguments_go_to_tensorflow(ours: double.Ours) -> None:
    f = tf.function(lambda x: x * 2.0, jit_compile=True)
    for _ in range(2):
        assert f(tf.Variable(3.0)).numpy() == 6.0
    assert _plans(f).misses["argument"] == 2
    assert _plans(f).calls == 0


def test_error_is_tensorflows(ours: double.Ours) -> None:
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="tests_fast_path")
    tf.raw_ops.AssignVariableOp(resource=handle, value=1.0)
    g = tf.function(lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), jit_compile=True)
    assert g().numpy() == g().numpy() == 1.0
    tf.raw_ops.DestroyResourceOp(resource=handle)
    with pytest.raises(tf.errors.FailedPreconditionError, match="tests_fast_path"):
        g()
    assert _plans(g).misses["failed"] == 1


def test_flag_turns_it_off(ours: double.Ours) -> None:
    f = tf.function(lambda x: x * 2, jit_compile=True)
    with flags.patch(tfxla_fast_path=False):
        for _ in range(3):
            f(X)
    assert _plans(f).calls == 0


def test_plain_functions_pass_by(ours: double.Ours) -> None:
    f = tf.function(lambda x: x * 2)
    f(X)
    assert "_tfxla_plans" not in f.__dict__


def test_after_removal_no_plan_is_used(ours: double.Ours) -> None:
    f = tf.function(lambda x: x * 2, jit_compile=True)
    f(X)
    f(X)
    ours.remove_hooks()
    before = ours.compiler.runs
    assert f(X).numpy().tolist() == [2, 4]
    assert ours.compiler.runs == before
    ours.install_hooks()
    assert f(X).numpy().tolist() == [2, 4]
    assert ours.compiler.runs == before + 1


def test_plans_copy_and_pickle_as_empty() -> None:
    plans = fast_path.Plans()
    plans[1] = None
    assert copy.deepcopy(plans) == {}
    assert pickle.loads(pickle.dumps(plans)) == {}


class Scaled(tf.Module):
    def __init__(self, jit: Any) -> None:
        self.by, self.scale = tf.Variable(2.0), jit(self.scaled)

    def scaled(self, x: tf.Tensor) -> tf.Tensor:
        return x * self.by


def test_a_deep_copy_has_its_own_variables(ours: double.Ours) -> None:
    module = Scaled(ours.jit)
    for _ in range(2):  # before it is traced and after
        copied = copy.deepcopy(module)
        copied.by.assign(10.0)
        assert copied.scale(X).numpy().tolist() == [10, 20]
        assert module.scale(X).numpy().tolist() == [2, 4]
        assert copy.copy(module.scale)(X).numpy().tolist() == [2, 4]
    function = copy.deepcopy(ours.jit(lambda x: x * 3.0, [tf.TensorSpec([None])], dynamic=True))
    assert function(X).numpy().tolist() == [3, 6]
    assert function.function.input_signature == (tf.TensorSpec([None]),)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ((1,), (True,), False),
        ((1,), (1.0,), False),
        ((X, [X]), (X, (X,)), False),
        (({"a": 1, "b": X},), ({"b": X, "a": 1},), True),
        ((X,), (tf.ones([2]),), True),
        ((X,), (tf.ones([3]),), False),
        ((X,), (tf.constant([1, 2]),), False),
        ((None, "s"), (None, "s"), True),
        (((),), ([],), False),
    ],
)
def test_argument_keys(a: Any, b: Any, same: bool) -> None:
    assert (fast_path.argument_key(a, []) == fast_path.argument_key(b, [])) is same


@pytest.mark.parametrize("arg", [float("nan"), object(), {1: 2, "a": 3}, {1, 2}])
def test_arguments_without_key(arg: Any) -> None:
    assert fast_path.argument_key((arg,), []) is None


def test_jit_without_enable_runs_only_its_functions() -> None:
    ours = double.Ours()
    try:
        f = ours.jit(lambda x, y: tf.reduce_sum(x * y))
        other = tf.function(lambda x: x + 1, jit_compile=True)
        before = ours.compiler.runs
        for _ in range(3):
            assert f(X, X).numpy() == 5.0
        assert ours.compiler.runs == before + 3
        assert f.misses == {"signature": 1}
        other(X)
        assert ours.compiler.runs == before + 3
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = f(X, X)
        assert tape.gradient(y, X).numpy().tolist() == [2, 4]
        assert ours.compiler.runs > before + 3, "forward and backward are ours too"
    finally:
        ours.remove_hooks()


def test_jit_as_method_decorator() -> None:
    ours = double.Ours()

    class Scale:
        factor = 3.0

        @ours.jit
        def apply(self, x: Any) -> Any:
            """Multiply."""
            return x * self.factor

    scale = Scale()
    try:
        assert [scale.apply(X).numpy().tolist() for _ in range(2)] == [[3, 6]] * 2
        assert scale.apply.__doc__ == "Multiply."
    finally:
        ours.remove_hooks()
