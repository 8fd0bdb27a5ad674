"""An exception inside the compiler is a bug of this package: the program goes on, and the bug is counted and said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster import compiler, trace
from tfxla_cluster.cli import common
from tfxla_cluster.dump import files
from tfxla_cluster.errors import InternalError, UnsupportedError, VerifierError

BUGS = [
    RecursionError("maximum recursion depth exceeded"),
    KeyError("fusion.7"),
    AssertionError(),
    InternalError("pass cse of optimize made an invalid module: (F2) %cond.6"),
    VerifierError("A3", "%add says f32[2]"),
]
MUST, AUTO, NESTED = "must", "auto", "nested"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trace, "_said", set())
    tfxla_cluster.clear_cache()
    yield
    tfxla_cluster.disable()
    files.reset_failures()


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def compile_module(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(compiler, "compile_module", compile_module)


def run(mode: str) -> Any:
    """A function of three ops, in one of the ways it may be compiled."""

    def body(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x * 2.0) + x, axis=1)

    x = tf.constant([[0.5, -1.0], [2.0, 0.25]])
    if mode == MUST:
        return tf.function(body, jit_compile=True)(x)
    if mode == AUTO:
        return tf.function(body)(x)
    inner = tf.function(body, jit_compile=True)
    return tf.function(lambda y: inner(y) + 1.0)(x)


def want(mode: str) -> Any:
    x = np.array([[0.5, -1.0], [2.0, 0.25]])
    return (np.tanh(x * 2) + x).sum(1) + (mode == NESTED)


@pytest.mark.parametrize("mode", [MUST, AUTO, NESTED])
@pytest.mark.parametrize("error", BUGS, ids=lambda e: type(e).__name__)
def test_the_program_goes_on(
    error: Exception,
    mode: str,
    fresh: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broken(monkeypatch, error)
    before = tfxla_cluster.stats()
    with tfxla_cluster.config.patch(
        xla_dump_to=str(tmp_path),
        tf_xla_auto_jit="2" if mode == AUTO else "",
        tf_xla_cpu_global_jit=mode == AUTO,
        tf_xla_min_cluster_size=1,
    ):
        tfxla_cluster.enable()
        np.testing.assert_allclose(run(mode), want(mode), rtol=1e-6)
    after = tfxla_cluster.stats()
    assert after["internal_errors"] == before["internal_errors"] + 1
    assert after["fallbacks"] == before["fallbacks"] + 1
    begin = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    reason = next(r for r in after["internal_error_reasons"] if r.startswith(begin))
    assert any(r.startswith(f"internal error: {reason}") for r in after["fallback_reasons"])
    said = [line for line in capfd.readouterr().err.splitlines() if "Please report it" in line]
    assert len(said) == 1
    assert str(tmp_path) in said[0]
    assert reason in said[0]
    records = [json.loads(line) for f in tmp_path.glob("trace.*.jsonl") for line in f.read_text().splitlines()]
    bugs = [r for r in records if r["kind"] == "error"]
    assert [r["internal"] for r in bugs] == [True]
    assert "compile_module" in bugs[0]["traceback"]


def test_without_a_dump_the_message_says_how_to_get_one(
    fresh: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, ZeroDivisionError("division by zero"))
    tfxla_cluster.enable()
    np.testing.assert_allclose(run(MUST), want(MUST), rtol=1e-6)
    assert "run again with --xla_dump_to=DIR in TFXLA_FLAGS, and attach DIR" in capfd.readouterr().err


@pytest.mark.parametrize("error", [UnsupportedError("no kernel yet"), MemoryError(), OSError(28, "No space left")])
def test_what_is_not_supported_is_no_bug(
    error: Exception, fresh: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, error)
    before = tfxla_cluster.stats()
    tfxla_cluster.enable()
    np.testing.assert_allclose(run(MUST), want(MUST), rtol=1e-6)
    after = tfxla_cluster.stats()
    assert after["internal_errors"] == before["internal_errors"]
    assert after["fallbacks"] == before["fallbacks"] + 1
    assert "report" not in capfd.readouterr().err


def test_under_raise_the_bug_is_the_reason(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, KeyError("fusion.7"))
    with tfxla_cluster.config.patch(tfxla_must_compile_fallback="raise"):
        tfxla_cluster.enable()
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"internal error: KeyError: 'fusion\.7'"):
            run(MUST)


@pytest.mark.parametrize(("error", "code"), [(KeyError("x"), 70), (RecursionError("too deep"), 70), (MemoryError(), 1)])
def test_commands_end_with_one_line(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def main(argv: Any) -> int:
        raise error

    assert common.run("tfxla-any", main, []) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("tfxla-any: ")
    assert ("internal error" in said) == (code == 70)
