"""Direct calls: machine code from Python's arguments to its results gives what TensorFlow's path gives, and declines
where that path would do something else."""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation, context, executor  # pylint: disable=no-name-in-module
from tensorflow.python.framework import op_callbacks
from tensorflow.python.saved_model import save_context, save_options

import tfxla_cluster
from tests.tf import double
from tfxla_cluster.tf.must_compile import thread_state
from tfxla_cluster.tf.native_op import direct

X = tf.constant([1.0, 2.0])


@pytest.fixture
def ours() -> Iterator[double.Ours]:
    made = double.Ours()
    made.install_hooks()
    yield made
    made.remove_hooks()


@pytest.fixture
def real() -> Iterator[None]:
    """This package itself, whoever's hooks were there before."""
    tfxla_cluster.disable()
    with tfxla_cluster.enable():
        yield
    tfxla_cluster.disable()


def served(f: Any) -> int:
    """How many calls of a function machine code served."""
    plans = getattr(f, "function", f).__dict__["_tfxla_plans"]
    slots = [plans.slot, *(plan.slot for plan in plans.values() if plan)]
    return sum(slot.calls for slot in slots if slot is not None)


def warmed(fn: Callable[..., Any], *args: Any) -> Any:
    """A function whose calls with these arguments are direct."""
    f = tf.function(fn, jit_compile=True)
    for _ in range(3):
        f(*args)
    assert served(f) >= 1
    return f


def _structure(x: tf.Tensor, y: tf.Tensor) -> Any:
    return {"sum": x + y, "rest": [x * y, (x, tf.shape(y))], "none": None}


FUNCTIONS: list[Callable[..., Any]] = [
    lambda x, y: x * y + 1,
    lambda x, y: (x - y, y),
    lambda x, y: [x + x, y],
    lambda x, y: x,
    lambda x, y: tf.concat([x, x], 0) if x.shape.rank else x + y,
    _structure,
]


def _drawn(rng: random.Random, shape: list[int], dtype: tf.DType) -> tf.Tensor:
    hostile = [0, 1, -1, 3] if dtype.is_integer else [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 1e-42]
    values = np.array(rng.choices(hostile, k=int(np.prod(shape))), dtype.as_numpy_dtype)
    return tf.constant(values.reshape(shape))


@pytest.mark.parametrize("dtype", [tf.float32, tf.int8, tf.bfloat16])
def test_results_are_those_of_eager(real: None, dtype: tf.DType) -> None:
    rng = random.Random(dtype.as_datatype_enum)
    for fn in FUNCTIONS:
        f = tfxla_cluster.jit(fn)
        for shape in ([4], [], [0], [2, 0, 3]):
            for turn in range(4):
                before = served(f)
                x, y = _drawn(rng, shape, dtype), _drawn(rng, shape, dtype)
                found, wanted = f(x, y), fn(x, y)
                tf.nest.assert_same_structure(found, wanted)
                for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(wanted)):
                    if b is not None:
                        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
                        np.testing.assert_array_equal(a.numpy().astype("f8"), b.numpy().astype("f8"))
                assert served(f) == before + (turn > 1), "the second call makes the direct form"


def test_sizes_that_the_data_decides(real: None) -> None:
    f = tfxla_cluster.jit(lambda x: (tf.boolean_mask(x, x > 0), x + 1))
    for turn in range(4):
        x = tf.constant([1.0, -1.0, 2.0, -2.0][turn:] + [5.0] * turn)
        kept, more = f(x)
        assert kept.numpy().tolist() == [v for v in x.numpy() if v > 0]
        assert more.numpy().tolist() == (x.numpy() + 1).tolist()
    assert served(f) == 2


def test_results_are_tensors_like_others(ours: double.Ours) -> None:
    f = warmed(lambda x: x * 3.0, X)
    y = f(X)
    with tf.GradientTape() as tape:
        tape.watch(y)
        z = tf.reduce_sum(y * y)
    assert tape.gradient(z, y).numpy().tolist() == [6.0, 12.0]
    v = tf.Variable(y)
    assert v.assign_add(f(y)).numpy().tolist() == [12.0, 24.0]
    assert tf.function(lambda t: t + 1.0)(f(X)).numpy().tolist() == [4.0, 7.0]


def test_captured_tensors_and_python_values(ours: double.Ours) -> None:
    weights = tf.constant([10.0, 20.0])
    f = warmed(
        lambda x, k, name, parts: x * weights * k + parts["a"] * parts["b"][1], X, 2.0, "n", {"a": X, "b": [X, X]}
    )
    before = served(f)
    for factor in (2.0, 3.0, 3.0, 3.0):
        parts = {"a": X, "b": [X, X]}
        assert f(X, factor, "n", parts).numpy().tolist() == [10 * factor + 1, 40 * factor + 4]
    assert served(f) == before + 3, "the first call with another number is another trace"


@pytest.mark.parametrize(("first", "second"), [(2, 3), ("a", "b"), (None, 0), (0.5, 2.5)])
def test_another_python_value_is_another_trace(ours: double.Ours, first: Any, second: Any) -> None:
    f = tf.function(lambda x, k: x + ord(repr(k)[0]), jit_compile=True)
    for _ in range(4):
        for k in (first, second):
            assert f(X, k).numpy().tolist() == [1.0 + ord(repr(k)[0]), 2.0 + ord(repr(k)[0])]


def test_other_numbers_of_arguments_and_kinds_decline(ours: double.Ours) -> None:
    f = warmed(lambda x, y=None: x if y is None else x + y, X)
    before = served(f)
    assert f(X, X).numpy().tolist() == [2, 4]
    assert f(np.array([3.0, 4.0], np.float32)).numpy().tolist() == [3, 4]
    assert f(tf.Variable([5.0, 6.0])).numpy().tolist() == [5, 6]
    with pytest.raises(TypeError):
        f()
    assert served(f) == before
    assert f(X).numpy().tolist() == [1, 2]
    assert served(f) == before + 1


class Callback:
    """An op callback that lets everything be."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        return None


def _states(name: str, folder: Any) -> AbstractContextManager[Any]:
    """A state of the thread in which calls are TensorFlow's."""
    return {
        "tape": tf.GradientTape,
        "accumulator": lambda: tf.autodiff.ForwardAccumulator(X, X),
        "device": lambda: tf.device("CPU:0"),
        "strategy": lambda: tf.distribute.OneDeviceStrategy("CPU:0").scope(),
        "cancellation": lambda: cancellation.CancellationManagerContext(cancellation.CancellationManager()),
        "callback": WithCallback,
        "saving": lambda: save_context.save_context(save_options.SaveOptions()),
        "profiler": lambda: tf.profiler.experimental.Profile(str(folder)),
    }[name]()


class WithCallback:
    """An op callback is there inside the block."""

    def __enter__(self) -> None:
        self.callback = Callback()
        op_callbacks.add_op_callback(self.callback)

    def __exit__(self, *_: Any) -> None:
        op_callbacks.remove_op_callback(self.callback)


@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize(
    "name", ["tape", "accumulator", "device", "strategy", "cancellation", "callback", "saving", "profiler"]
)
def test_states_in_which_it_declines(
    ours: double.Ours, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, name: str, fields: bool
) -> None:
    if not fields:  # a TensorFlow whose thread's data lies elsewhere: Python's attributes tell
        monkeypatch.setattr(direct, "_has_fields", lambda *_: False)
    monkeypatch.setattr(thread_state._Known, "state", None)
    f = warmed(lambda x: x * 2.0, X)
    before = served(f)
    with _states(name, tmp_path):
        assert f(X).numpy().tolist() == [2, 4]
        assert served(f) == before
    assert f(X).numpy().tolist() == [2, 4]
    assert served(f) == before + 1


def test_places_of_the_threads_data_are_proven() -> None:
    ctx = context.context()
    assert direct._has_fields(ctx, ctx._thread_local_data)


def test_wrong_places_of_the_threads_data_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context.context()
    for name, (offset, kind) in direct._FIELDS.items():
        monkeypatch.setitem(direct._FIELDS, name, (offset + 16, kind))
        assert not direct._has_fields(ctx, ctx._thread_local_data), name
        monkeypatch.setitem(direct._FIELDS, name, (offset, kind))


def test_eagerly_run_functions_and_graphs(ours: double.Ours) -> None:
    f = warmed(lambda x: x * 2.0, X)
    before = served(f)
    tf.config.run_functions_eagerly(True)
    try:
        assert f(X).numpy().tolist() == [2, 4]
    finally:
        tf.config.run_functions_eagerly(False)
    assert tf.function(lambda x: f(x) + 1.0)(X).numpy().tolist() == [3, 5]
    with tf.Graph().as_default():
        assert not tf.executing_eagerly()
        y = f(tf.ones([2]))
        assert not hasattr(y, "numpy")
    traced = []

    @tf.function
    def traces(x: tf.Tensor) -> tf.Tensor:
        with tf.init_scope():
            traced.append(f(X).numpy().tolist())
        return x

    traces(X)
    assert traced == [[2, 4]]
    assert served(f) <= before + 1, "in the scope TensorFlow may run eagerly"


def test_results_of_an_executor_that_has_not_come_yet(ours: double.Ours) -> None:
    f = warmed(lambda x: x * 2.0, X)
    before = served(f)
    slow = lambda: tf.py_function(lambda: X + 1.0, [], tf.float32)
    with context.executor_scope(executor.new_executor(enable_async=True)):
        pending = tf.ensure_shape(slow(), [2])
        assert f(pending).numpy().tolist() == [4, 6]
        bad = tf.gather(X, [0, 7])
        with pytest.raises(tf.errors.InvalidArgumentError):
            f(bad).numpy()
        context.async_clear_error()
    assert served(f) == before + 1


def test_invalid_data_is_said_as_by_tensorflows_path(real: None) -> None:
    f = tfxla_cluster.jit(tf.math.floordiv)
    one, none = tf.constant([4, 6]), tf.constant([2, 0])
    with pytest.raises(tf.errors.InvalidArgumentError) as first:
        f(one, none)
    for _ in range(3):
        assert f(one, tf.constant([2, 3])).numpy().tolist() == [2, 2]
    before = served(f)
    with pytest.raises(tf.errors.InvalidArgumentError) as later:
        f(one, none)
    assert str(later.value) == str(first.value)
    assert served(f) == before
    assert f(one, one).numpy().tolist() == [1, 1]


def test_an_executable_that_is_gone_is_made_again(real: None) -> None:
    f = tfxla_cluster.jit(lambda x: x * 5.0)
    for _ in range(3):
        f(X)
    tfxla_cluster.tf.native_op.op.clear()
    before = served(f)
    assert f(X).numpy().tolist() == [5, 10]
    assert served(f) == before
    assert f(X).numpy().tolist() == [5, 10]
    assert served(f) == before + 1


def test_a_removed_function_is_not_called(ours: double.Ours) -> None:
    f = warmed(lambda x: x * 2.0, X)
    before = served(f)
    for name in [name for name, route in ours.hook.routes.items() if route]:
        context.context().remove_function(name)
        context.context().add_function_def(f.get_concrete_function(X).function_def)
    assert f(X).numpy().tolist() == [2, 4]
    assert served(f) == before


def test_nothing_is_kept(ours: double.Ours) -> None:
    big = 2.5e7
    f = warmed(lambda x, k: {"a": x * k, "b": x}, X, big)
    plans = f.__dict__["_tfxla_plans"]
    counted = [X, big, NotImplemented, plans.slot.plans[0], plans.slot._words.keep]
    gc.collect()
    before = [sys.getrefcount(o) for o in counted]
    kept = []
    for _ in range(300):
        out = f(X, big)
        kept.append(weakref.ref(out["a"]))
        with tf.device("CPU:0"):
            f(X, big)
    del out
    gc.collect()
    assert [abs(sys.getrefcount(o) - n) <= 2 for o, n in zip(counted, before)] == [True] * len(counted)
    assert not any(ref() is not None for ref in kept)


def test_what_packs_the_results_may_raise(ours: double.Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    f = warmed(lambda x: (x, x + 1.0), X)
    slot = f.__dict__["_tfxla_plans"].slot

    def fail(results: list[Any]) -> Any:
        raise KeyError(len(results))

    plan = next(p for p in f.__dict__["_tfxla_plans"].values() if p)
    failing = direct.DirectPlan(plan.route.program, plan.route.live, [(1, (2,))], [], fail)
    slot.publish([failing], slot.state)
    with pytest.raises(KeyError):
        f(X)


def test_threads_share_a_function_while_hooks_come_and_go(ours: double.Ours) -> None:
    f = tf.function(lambda x: x * 2.0 + 1.0, jit_compile=True)
    wrong: list[Any] = []
    stop = threading.Event()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        while not stop.is_set():
            x = np.arange(rng.choice([1, 2, 5]), dtype=np.float32)
            found = f(tf.constant(x)).numpy()
            if not np.array_equal(found, x * 2 + 1):
                wrong.append((x, found))
                return

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        stop.wait(0.1)
        ours.remove_hooks()
        stop.wait(0.02)
        ours.install_hooks()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    for _ in range(4):
        f(tf.ones([7]))
    assert served(f) >= 1


def test_many_signatures(ours: double.Ours) -> None:
    f = tf.function(tf.reduce_sum, jit_compile=True)
    for turn in range(4):
        for n in range(1, 8):
            assert f(tf.ones([n])).numpy() == n
            assert served(f) == max(0, (turn - 2) * 7 + n)


def test_more_arguments_than_the_stack_holds(ours: double.Ours) -> None:
    f = tf.function(lambda *xs: tf.add_n(xs), jit_compile=True)
    for _ in range(3):
        assert f(*[X] * 300).numpy().tolist() == [300, 600]
    assert served(f) == 0


def test_without_what_direct_calls_need(ours: double.Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_state, "is_available", lambda: False)
    monkeypatch.setattr(thread_state._Known, "state", None)
    f = tf.function(lambda x: x * 2.0, jit_compile=True)
    for _ in range(4):
        assert f(X).numpy().tolist() == [2, 4]
    assert served(f) == 0
    assert f.__dict__["_tfxla_plans"].calls == 3
    monkeypatch.undo()
    thread_state._Known.state = None
