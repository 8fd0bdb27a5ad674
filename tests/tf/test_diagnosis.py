"""Why a function was compiled again, walked through on planted cases: what records and log lines say of each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import compile_records, dynamic_records, flags, trace
from tfxla_cluster.ir import guard

Records = Callable[[str], list[dict[str, Any]]]
AUTO = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}


@pytest.fixture(autouse=True)
def records(tmp_path: Path) -> Iterator[Records]:
    """The records of a kind that were written so far."""

    def read(kind: str) -> list[dict[str, Any]]:
        lines = (tmp_path / "dump" / f"trace.{os.getpid()}.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    tfxla_cluster.clear_cache()
    with flags.patch(xla_dump_to=str(tmp_path / "dump"), tfxla_must_compile_fallback="raise"), tfxla_cluster.enable():
        yield read


def must(function: Callable[..., Any]) -> Any:
    return tf.function(function, jit_compile=True, reduce_retracing=False)


def ones(*dims: int, dtype: Any = tf.float32) -> Any:
    return tf.ones(dims, dtype)


def line_of(text: str) -> str:
    """`file:line` of the line of this file that ends so."""
    found = [n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(f"  # {text}")]
    assert len(found) == 1
    return f"{__file__}:{found[0]}"


def again(records: Records) -> dict[str, Any]:
    """The last compilation."""
    return [r for r in records("compile") if not r["hit"]][-1]


def changed(record: dict[str, Any]) -> list[tuple[str, str, int, str, str]]:
    return [tuple(c[k] for k in ("kind", "of", "axis", "was", "now")) for c in record["changed"]]  # type: ignore[misc]


def events(records: Records) -> list[str]:
    return [record["event"] for record in records(dynamic_records.KIND)]


def test_a_python_if_on_a_size(records: Records) -> None:
    @must
    def step(x: Any) -> Any:
        y = tf.tanh(x)
        if x.shape[0] == 33:
            y = y + 1.0  # the planted branch
        return tf.reduce_sum(y, axis=1)

    for size in (8, 16, 33, 40):
        np.testing.assert_allclose(step(ones(size, 4)), 4 * (np.tanh(1) + (size == 33)), rtol=1e-6)
    record = again(records)
    assert changed(record) == [("equal", "argument 'x'", 0, "16", "33")]
    assert record["apart"]["where"] == line_of("the planted branch")
    assert f"make {line_of('the planted branch')} the same program at each size" in record["remedies"][0]
    stack = record["apart"]["stack"]
    assert [f"{f['file']}:{f['line']}" for f in stack if f["user"]][-1] == line_of("the planted branch")
    assert {f["user"] for f in stack} == {True, False}, "frames of the framework are there too, as such"
    assert events(records) == ["symbol", "guard", "refused", "specialised", "proven"]
    refused, special, proven = records("dynamic")[2:]
    assert (refused["ok"], special["ok"]) == (False, True)
    assert special["where"] == line_of("the planted branch")
    assert special["sizes"] == {"argument 'x'": ["33", "4"]}
    assert proven["sizes"] == {"s0": 40}


def op_first(x: Any) -> Any:
    if x.shape[0] == 33:
        x = x + 1.0  # an op before all others
    return tf.reduce_sum(tf.tanh(x) * 2.0, axis=1)


def op_between(x: Any) -> Any:
    y = tf.tanh(x) * 2.0
    if x.shape[0] == 33:
        y = tf.exp(y)  # an op between
    return tf.reduce_sum(y, axis=1)


@pytest.mark.parametrize(("function", "text"), [(op_first, "an op before all others"), (op_between, "an op between")])
@flags.patch(**AUTO)
def test_a_python_if_in_a_cluster(function: Callable[..., Any], text: str, records: Records) -> None:
    """Wherever the other op stands, the clusters of the traces are one, named by the function and its first op."""
    step = tf.function(function, reduce_retracing=False)
    for size in (8, 16, 33):
        step(ones(size, 4))
    record, line = again(records), line_of(text)
    assert {r["family"] for r in records("compile")} == {f"__inference_{function.__name__} from Tanh"}
    assert changed(record) == [("equal", "argument 'x'", 0, "16", "33")]
    assert record["apart"]["where"] == line
    assert record["remedies"] == [f"make {line} the same program at each size (tf.shape(x) in place of x.shape)"]
    (special,) = [r for r in records("dynamic") if r["event"] == "specialised"]
    assert special["where"] == line


@pytest.mark.parametrize("jit_compile", [True, None])
@flags.patch(**AUTO)
def test_a_constant_of_a_trace(jit_compile: bool | None, records: Records) -> None:
    def made(factor: float) -> Any:
        def step(x: Any) -> Any:
            y = tf.tanh(x) + 1.0
            return tf.nn.softmax(y * factor)  # the constant

        return tf.function(step, jit_compile=jit_compile)

    for factor in (0.5, 2.5):
        made(factor)(ones(8, 4))
    record = again(records)
    assert record["apart"]["where"] == line_of("the constant")
    assert record["apart"]["what"] == "no size of an argument differs, but this constant does"
    assert record["apart"]["values"] == ["0.5", "2.5"]
    assert "pass what the function reads from outside" in record["remedies"][0]


def test_a_size_gets_a_name(records: Records) -> None:
    @must
    def step(x: Any, y: Any) -> Any:
        return tf.nn.softmax(x * 2.0) + y

    for size in (8, 16):
        step(ones(size, 4), ones(size, 4))
    symbol, *guards = records("dynamic")
    assert (symbol["event"], symbol["size"], symbol["of"], symbol["axis"]) == ("symbol", "s0", "argument 'x'", 0)
    assert symbol["range"][0] == 2
    assert symbol["reason"].endswith(": 8, 16")
    assert [(g["event"], g["of"], g["axis"]) for g in guards] == [
        ("guard", "argument 'x'", 0),
        ("guard", "argument 'y'", 0),
    ]
    assert guards[1]["reason"] == "dim 0: dim 0 of argument 'x'"
    inputs = again(records)["serves"]["inputs"]
    assert [(i["of"], i["dtype"], i["dims"]) for i in inputs] == [
        ("argument 'x'", "float32", [None, 4]),
        ("argument 'y'", "float32", [None, 4]),
    ]
    assert inputs[1]["guards"] == ["dim 0: dim 0 of argument 'x'"]


def test_what_is_asked_of_a_size() -> None:
    asked = [guard.in_range((0, 1), 2, 9), guard.in_range((1, 0), 2, guard.LARGEST), guard.divisible((0, 0), 8)]
    asked.append(guard.Guard("same", (1, 0), (0, 1)))
    assert [compile_records.size_guard(one, ["argument 'x'", "argument 'y'"]) for one in asked] == [
        "dim 1: 2 to 9",
        "dim 0: at least 2",
        "dim 0: a multiple of 8",
        "dim 0: dim 1 of argument 'x'",
    ]


def test_a_constant_that_specialises(records: Records) -> None:
    @must
    def step(x: Any, sizes: Any) -> Any:
        return tf.reshape(x, sizes)

    for sizes in ([4, 8], [2, 16]):
        step(ones(8, 4), tf.constant(sizes))
    record = again(records)
    assert changed(record) == [("value", "argument 'sizes'", -1, "[4, 8]", "[2, 16]")]
    assert [i.get("value") for i in record["serves"]["inputs"]] == [None, "[2, 16]"]


def test_a_mark_that_is_missed(records: Records) -> None:
    """What is advised works: with it, one executable."""

    def traced() -> Any:
        def summed(x: Any) -> Any:
            return tf.reduce_sum(tf.exp(x), 1)

        return must(summed)

    def compilations() -> int:
        return len([record for record in records("compile") if not record["hit"]])

    plain = traced()
    for size in (8, 16):
        plain(ones(size, 4))
    (remedy,) = again(records)["remedies"]
    assert remedy.startswith("mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources=x:0 or jit")
    assert compilations() == 2
    tfxla_cluster.clear_cache()
    marked = traced()
    for size in (8, 16):
        x = ones(size, 4)
        tfxla_cluster.mark_dynamic(x, 0)
        marked(x)
    assert compilations() == 3
    tfxla_cluster.clear_cache()
    with flags.patch(tfxla_dynamic_sources="x:0"):
        listed = traced()
        for size in (8, 16):
            listed(ones(size, 4))
    assert compilations() == 4


def test_functions_of_one_name(records: Records) -> None:
    """Another function of the same name is no earlier compilation; the same one made anew is."""

    def made(factor: float) -> Any:
        def same_name(x: Any) -> Any:
            return tf.tanh(x) * factor

        return must(same_name)

    def other() -> Any:
        def same_name(x: Any) -> Any:
            return tf.exp(x)

        return must(same_name)

    for function in (made(1.0), other(), made(2.0)):
        function(ones(8))
        del function
    reasons = [record["reason"] for record in records("compile")]
    assert reasons[:2] == ["first compilation of this function"] * 2
    assert reasons[2].startswith("the function changed")
    assert again(records)["closest"] == records("compile")[0]["id"]


def test_jit_functions_of_one_name(records: Records) -> None:
    """They are wrapped, and still begin at lines of their own."""
    tfxla_cluster.jit(lambda x: tf.tanh(x) * 3.0)(ones(8))
    tfxla_cluster.jit(lambda x: tf.exp(x) * 2.0)(ones(9))
    assert [record["reason"] for record in records("compile")] == ["first compilation of this function"] * 2


def test_a_dtype(records: Records) -> None:
    step = must(lambda x: tf.tanh(x) * 2.0)
    for dtype in (tf.float32, tf.float64):
        step(ones(8, dtype=dtype))
    record = again(records)
    assert changed(record) == [("dtype", "argument 'x'", -1, "float32", "float64")]
    assert record["remedies"] == ["cast 'x' to float32 before the call"]


def test_a_python_value(records: Records) -> None:
    @must
    def step(x: Any, k: int) -> Any:
        return tf.tanh(x) * k

    for k in (2, 3):
        step(ones(8), k)
    record = again(records)
    assert changed(record) == [("python", "Python value 'k'", -1, "2", "3")]
    assert "pass 'k' as a tensor" in record["remedies"][0]
    assert record["serves"]["python"] == {"k": "3"}


def test_the_shape_of_a_variable(records: Records) -> None:
    """What is advised works: with it, the second executable is for all shapes."""
    kernel = tf.Variable(ones(4), shape=tf.TensorShape([None]), name="model/dense/kernel")

    def scaled(x: Any) -> Any:
        return x * tf.reduce_sum(kernel)

    def called() -> None:
        step = must(scaled)
        for size in (4, 7, 9):
            kernel.assign(ones(size))
            np.testing.assert_array_equal(step(ones(8)), np.full(8, size, np.float32))

    called()
    record = again(records)
    assert changed(record) == [("equal", "variable 'model/dense/kernel'", 0, "7", "9")]
    assert records("recompile")[0]["failed"] == ["variable 'model/dense/kernel': dim 0 was 4, is 7"]
    (remedy,) = record["remedies"]
    assert remedy == "--tfxla_dynamic_variables"
    before = len(records("compile"))
    tfxla_cluster.clear_cache()
    with flags.patch(tfxla_dynamic_variables=True):
        called()
    assert len([r for r in records("compile")[before:] if not r["hit"]]) == 2


def test_a_flag(records: Records) -> None:
    def traced() -> Any:
        return must(lambda x: tf.tanh(x) + 1.0)(ones(8))

    traced()
    with tfxla_cluster.config.patch(xla_disable_hlo_passes="cse"):
        traced()
    record = again(records)
    assert [(kind, of) for kind, of, *_ in changed(record)] == [("flag", "passes_off")]
    assert record["remedies"] == ["set the flags once, before the first call"]


def test_a_limit(records: Records) -> None:
    @must  # the limited function
    def step(x: Any) -> Any:
        return tf.tanh(x) + 1.0

    with flags.patch(tfxla_recompile_limit=1, tfxla_dynamic="off"):
        step(ones(8))
        with pytest.raises(tf.errors.InvalidArgumentError):
            step(ones(9))
    (record,) = records("limit")
    assert record["family"] == again(records)["family"]
    assert record["where"] == line_of("the limited function")
    assert record["limit"] == 1
    assert "has 1 executables" in record["reason"]
    assert "or raise the limit" in record["remedy"]


@flags.patch(**AUTO)
def test_a_cluster(records: Records) -> None:
    kernel = tf.Variable(ones(4), name="dense/kernel")
    step = tf.function(lambda x: tf.reduce_sum(tf.tanh(x * kernel), 1))
    for size in (8, 9):
        step(ones(size, 4))
    record = again(records)
    assert changed(record) == [("equal", "argument 'x'", 0, "8", "9")]
    assert record["remedies"][0].startswith("mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources=x:0: the")
    assert {i["of"] for i in record["serves"]["inputs"]} == {"argument 'x'", "variable 'dense/kernel'"}


def test_costs_and_calls(records: Records) -> None:
    """A trace is paid once; what is found compiled has cost its trace, lowering and proof."""

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 4])])
    def step(x: Any) -> Any:
        return tf.exp(x)

    with flags.patch(tfxla_dynamic="off"):
        for size in (8, 9):
            step(ones(size, 4))  # where it is called
    first, second = records("compile")
    assert first["costs"].keys() == {"trace", "lowering", "generic", "compile"}
    assert second["costs"].keys() == {"lowering", "generic", "compile"}
    assert first["costs"]["compile"] == pytest.approx(first["ms"], abs=1e-3)
    assert [f"{f['file']}:{f['line']}" for f in first["called"] if f["user"]][-1] == line_of("where it is called")
    tfxla_cluster.clear_cache()
    plain = must(lambda x: tf.exp(x) * 2.0)
    for size in (8, 9, 10):
        plain(ones(size, 4))
    found = records("compile")[-1]
    assert found["hit"] == "memory"
    assert found["costs"].keys() == {"trace", "lowering", "generic"}


def test_modules_that_could_be_one_have_one_structure(records: Records) -> None:
    one = must(lambda x: tf.tanh(x) * 2.0)
    two = must(lambda data: tf.tanh(data) * 3.0)
    other = must(lambda x: tf.tanh(x) + 2.0)
    with flags.patch(tfxla_dynamic="off"):
        for function, size in ((one, 3), (one, 4), (two, 5), (other, 3)):
            function(ones(size))
    assert len({r["structure"] for r in records("compile")}) == 2
    for size in (3, 4):
        two(ones(size + 10))
    assert {r["structure"] for r in records("compile") if r["generic"]} < {r["structure"] for r in records("compile")}


def test_log_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as lines, without a dump: `dynamic` prints what was done, `+dynamic` also what was not."""

    def printed(logs: str, name: str) -> list[str]:
        monkeypatch.setenv(trace.LOGS_ENV, logs)
        capsys.readouterr()

        def step(x: Any) -> Any:
            return tf.exp(x) if x.shape[0] == 33 else tf.tanh(x)  # read by Python

        step.__name__ = name
        function = must(step)
        for size in (8, 16, 33):
            function(ones(size))
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("[tfxla dynamic]")]

    with flags.patch(xla_dump_to=""):
        lines = printed("dynamic", "one")
        assert [line.split()[2] for line in lines] == ["event=symbol", "event=guard", "event=specialised"]
        assert f"where={line_of('read by Python')}" in lines[-1]
        assert "event=refused" in " ".join(printed("+dynamic,recompiles", "two"))
        assert printed("recompiles", "three") == []
