"""Why a function is compiled again, and which variables without a value are refused before it is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from tfxla_cluster import flags
from tfxla_cluster.errors import UninitializedError, UnsupportedError
from tfxla_cluster.tf.functions import function_compiler, uninitialised
from tfxla_cluster.tf.functions.variables import Interface
from tfxla_cluster.tf.native_op import op as native_op
from tfxla_cluster.tf.native_op.library import InputView
from tfxla_cluster.tf.native_op.records import Entry

FLOAT = tf.float32.as_datatype_enum
INTERFACE = Interface("f", (FLOAT, FLOAT), frozenset({1}), (FLOAT,), (), ("x", "v"))


def view(*dims: int) -> InputView:
    return InputView(FLOAT, dims, 0, 0)


def entry(*dims: int) -> Entry:
    return Entry(tuple(native_op.exact([view(*dims), view(2)])))


def recompile_records(directory: Path, entries: list[Entry], *dims: int) -> list[dict[str, object]]:
    with flags.patch(xla_dump_to=str(directory)):
        function_compiler.report_recompile(INTERFACE, entries, [view(*dims), view(2)], "f")
    lines = [line for path in directory.glob("trace.*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_the_guards_of_the_nearest_executable_that_fail(tmp_path: Path) -> None:
    (record,) = recompile_records(tmp_path, [entry(8, 9), entry(4, 3)], 5, 3)
    assert (record["kind"], record["function"], record["executables"]) == ("recompile", "f", 2)
    (failed,) = record["failed"]
    assert "x" in failed
    assert "4" in failed
    assert "5" in failed


def test_a_first_compilation_is_no_recompilation(tmp_path: Path) -> None:
    assert recompile_records(tmp_path, [], 5, 3) == []


@pytest.mark.parametrize(("branches", "error"), [(False, UninitializedError), (True, UnsupportedError)])
def test_a_variable_without_a_value_is_refused_by_name(branches: bool, error: type[Exception]) -> None:
    check = uninitialised.checked(INTERFACE, branches)
    with pytest.raises(error, match="variable 'v' is uninitialized"):
        check([view(4), view(0)])


def test_an_empty_argument_is_no_variable() -> None:
    uninitialised.checked(INTERFACE)([view(0), view(2)])


def test_what_tensorflow_itself_says() -> None:
    assert uninitialised.is_said_by(tf.errors.FailedPreconditionError(None, None, "no value"))
    assert uninitialised.is_said_by(tf.errors.InvalidArgumentError(None, None, "expected float got INVALID"))
    assert not uninitialised.is_said_by(tf.errors.InvalidArgumentError(None, None, "shapes differ"))
