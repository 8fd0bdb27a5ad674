"""Records speak of a function's inputs by the user's names, and know the Python values, the call and the cost of its
traces (tf.functions.origins, tf.clustering.given)."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import flags
from tfxla_cluster.tf.clustering.given import Given
from tfxla_cluster.tf.functions import origins

AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}


class Pair(NamedTuple):
    left: Any
    right: Any


class Scale:
    """A Python object that a function is called with."""

    factor = 2.0


@pytest.fixture(autouse=True)
def records(tmp_path: Path) -> Iterator[Any]:
    """The records `compile` that were written so far."""

    def read() -> list[dict[str, Any]]:
        (path,) = (tmp_path / "dump").glob(f"trace.{os.getpid()}.jsonl")
        found = [json.loads(line) for line in path.read_text().splitlines()]
        return [record for record in found if record["kind"] == "compile"]

    tfxla_cluster.clear_cache()
    with flags.patch(xla_dump_to=str(tmp_path / "dump")), tfxla_cluster.enable():
        yield read


def variable(name: str, *shape: int) -> tf.Variable:
    return tf.Variable(tf.ones(shape), name=name)


def test_variables_have_their_names(records: Any) -> None:
    """Captured ones, one that is passed, and two of one name."""
    kernel, one, other = variable("model/dense/kernel", 4, 4), variable("same", 4), variable("same", 4)

    @tf.function(jit_compile=True)
    def layer(x: Any, given: Any) -> Any:
        return x @ kernel + one * other + given

    layer(tf.ones([8, 4]), variable("passed", 4))
    named = {f"variable '{name}'" for name in ("model/dense/kernel", "same", "same (2)", "given")}
    assert set(records()[0]["inputs"]) == {"argument 'x'", *named}


def test_names_in_functions_that_functions_call(records: Any) -> None:
    kernel = variable("dense/kernel", 4)
    inner = tf.function(lambda y: tf.tanh(y) * kernel, jit_compile=True)
    tf.function(lambda x: tf.reduce_sum(inner(x)))(tf.ones([4]))
    assert records()[0]["inputs"] == ["argument 'y'", "variable 'dense/kernel'"]


def test_names_under_a_tape(records: Any) -> None:
    kernel = variable("dense/kernel", 4)
    step = tf.function(lambda x, k: tf.tanh(x * kernel) * k, jit_compile=True)
    for k in (2, 3):
        with tf.GradientTape() as tape:
            y = step(tf.ones([4]), k)
        tape.gradient(y, kernel)
    forward = [r for r in records() if "forward" in r["cluster"]]
    assert forward[0]["inputs"] == ["argument 'x'", "variable 'dense/kernel'"]
    assert "Python value 'k': was 2, is 3" in forward[1]["reason"]


def test_parts_of_an_argument_are_told_apart(records: Any) -> None:
    @tf.function(jit_compile=True)
    def step(batch: Any, more: Any) -> Any:
        return batch["b"][0] + batch["b"][1] * batch["a"] - more.left * more.right

    one = tf.ones([3])
    step({"b": [one, one], "a": one}, Pair(one, one))
    words = ["batch['a']", "batch['b'][0]", "batch['b'][1]", "more.left", "more.right"]
    assert sorted(records()[0]["inputs"]) == [f"argument '{word}'" for word in words]


def test_python_values(records: Any) -> None:
    @tf.function(jit_compile=True)
    def step(x: Any, scale: Any, how: Any, unused: Any = None) -> Any:
        return x * scale.factor * how["times"][0]

    def call(how: Any) -> None:
        step(tf.ones([3]), scale, how)

    scale = Scale()
    for how in ({"times": (2, "a")}, {"times": (float("nan"), "a")}, {"times": ("b" * 200, "a")}):
        try:
            call(how)
        except (TypeError, ValueError):  # text times a tensor: a trace that failed leaves nothing behind
            continue
    first, second = records()
    assert first["reason"] == "first compilation of this function"
    assert [(c["kind"], c["of"], c["was"], c["now"]) for c in second["changed"]] == [
        ("python", "Python value 'how['times'][0]'", "2", "nan")
    ]
    scale = Scale()
    scale.factor = 5.0
    call({"times": (2, "a")})
    (changed,) = records()[2]["changed"]
    assert changed["of"] == "Python value 'scale'"
    assert changed["now"] == f"Scale at 0x{id(scale):x}"


def test_names_of_what_is_given() -> None:
    """The function's own names outweigh the graph's, also where a name is missing."""
    assert Given("matmul_resource", "variable", 1).named({1: "dense/kernel"}) == "dense/kernel"
    assert Given("x", "argument", 0).named({1: "dense/kernel"}) == "x"
    assert Given("m/add", "value").named({0: "x", -2: "y"}) == "m/add"


@flags.patch(**AUTO)
def test_inputs_of_clusters(records: Any) -> None:
    """An argument, a variable that is read, and what an op outside computes."""
    kernel = variable("dense/kernel", 4)

    @tf.function
    def step(x: Any) -> Any:
        y = tf.tanh(x * kernel)
        read = tf.strings.to_number(tf.strings.as_string(y), name="read")
        return tf.reduce_sum(tf.exp(read) * x)

    step(tf.ones([4]))
    given = {word for record in records() for word in record["inputs"]}
    assert given == {"argument 'x'", "variable 'dense/kernel'", "value 'read'"}


def test_traces_from_before_and_from_other_threads(records: Any) -> None:
    """A function that was traced while the package was off has its names too; one thread's stack is its own."""
    tfxla_cluster.disable()
    kernel = variable("early/kernel", 4)
    step = tf.function(lambda x: x * kernel, jit_compile=True)
    step(tf.ones([4]))
    tfxla_cluster.enable()
    thread = threading.Thread(target=lambda: step(tf.ones([4])))
    thread.start()
    thread.join()
    assert records()[0]["inputs"] == ["argument 'x'", "variable 'early/kernel'"]


def test_decorated_functions_begin_at_their_own_line() -> None:
    """A decorator's wrapper has one line for all that it wraps, which would make one function of them."""

    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    def own(x: Any) -> Any:
        return x + 1.0

    line = f"{__file__}:{own.__code__.co_firstlineno}"
    assert origins.definition(own) == line
    assert origins.definition(decorated(decorated(own))) == line
    assert origins.definition(tf.autograph.experimental.do_not_convert(decorated(own))) == line
    assert origins.definition(functools.partial(own, 1.0)) == line
    assert origins.definition(functools.partial(decorated(own), 1.0)) == line
    assert origins.definition(3) == ""


def test_what_is_known_goes_with_the_function() -> None:
    step = tf.function(lambda x: tf.exp(x) * 2.0, jit_compile=True)
    step(tf.ones([4]))
    (name,) = (c.name.decode() for c in step._list_all_concrete_functions())
    known = origins.of(name)
    mine = [f for f in known.stack if f["user"]]
    assert mine[-1]["file"] == __file__
    assert mine[-1]["text"] == "step(tf.ones([4]))"
    assert not known.stack[-1]["user"], "TensorFlow's own are there too"
    del step
    tf.function(lambda x: x, jit_compile=True)(tf.ones([4]))  # what was dropped goes at a call
    assert origins.of(name) is origins.UNKNOWN


def test_a_restored_function(records: Any, tmp_path: Path) -> None:
    module = tf.Module()
    module.kernel = variable("saved/kernel", 4)
    module.step = tf.function(lambda x: x * module.kernel, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    restored = tf.saved_model.load(str(tmp_path / "saved"))
    restored.step(tf.ones([4]))
    (inputs,) = {tuple(r["inputs"]) for r in records()}
    assert inputs[0] == "argument 'x'"
