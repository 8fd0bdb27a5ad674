"""TFXLA_LOGS: topics, '+' for more of one, '-' for none of it; each topic prints what a program makes."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest

from tests.programs_in_child import AUTO, run
from tfxla_cluster import trace
from tfxla_cluster.dump import schema

PROGRAM = """
import tensorflow as tf
@tf.function
def f(x):
    y = tf.nn.softmax(x * 2.0 + 1.0) * tf.tanh(x)
    return tf.reduce_sum(y), tf.strings.as_string(y)
@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
def g(x):
    return tf.reduce_sum(tf.exp(x) * x)
for n in (3, 1):  # size 1 has an executable of its own
    f(tf.ones([n, 5]))
    g(tf.ones([n]))
"""
README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_topics", None)
    monkeypatch.setattr(trace, "_said", set())


def kinds(monkeypatch: pytest.MonkeyPatch, text: str) -> dict[str, bool]:
    monkeypatch.setenv(trace.LOGS_ENV, text)
    return dict(trace.logged_kinds())


def printed(logs: str) -> list[str]:
    done = run(PROGRAM, AUTO, TFXLA_LOGS=logs)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stderr.splitlines() if line.startswith("[tfxla ")]


def test_the_line_of_the_readme_prints_each_of_its_topics() -> None:
    (text,) = re.findall(r"TFXLA_LOGS=(\S+?)`", README)
    lines = printed(text)
    for word in text.split(","):
        normal, _ = trace.TOPICS[word.lstrip("+-")]
        for kind in set(normal) - {"fallback", "limit"}:  # nothing falls back here
            assert any(line.startswith(f"[tfxla {kind}]") for line in lines), (word, kind)
    assert any(line.startswith("[tfxla unclustered]") for line in lines)  # of +clustering
    assert all("ok=true" in line for line in lines if line.startswith("[tfxla fusion]"))


def test_levels(logged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kinds(monkeypatch, "") == {}
    assert kinds(monkeypatch, "cache") == {"cache": False}
    assert kinds(monkeypatch, " + cache ") == {"cache": True, "store": True}
    others = ",".join(f"-{topic}" for topic in trace.TOPICS if topic != "cache")
    assert kinds(monkeypatch, f"all,{others}") == {"cache": False}
    assert kinds(monkeypatch, "+all,-fusion").keys() == {k for t in trace.TOPICS.values() for p in t for k in p} - {
        "fusion"
    }


def test_a_record_is_one_line(
    logged: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(trace.LOGS_ENV, "+autotune")
    trace.record("autotune", event="tuned", fusion="{\n  ROOT a = f32[] add(x, y)\n}")
    assert capsys.readouterr().err == "[tfxla autotune] event=tuned fusion={ ROOT a = f32[] add(x, y) }\n"


def test_a_compilation_is_told_in_short(
    logged: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for logs, has_key in (("recompiles", False), ("guards", False), ("guards,+recompiles", True)):
        monkeypatch.setenv(trace.LOGS_ENV, logs)
        fields = {"remedies": [], "reason": "why", "native": 0, "key": "long", "structure": "0ab1"}
        trace.record("compile", cluster="f", id=None, hit="", **fields)
        line = capsys.readouterr().err
        if has_key:
            assert line == "[tfxla compile] cluster=f reason=why native=0 key=long\n"
            continue
        assert line == "[tfxla compile] cluster=f reason=why native=0\n"
    for named in (trace._BRIEF, trace._FOR_PROGRAMS):
        assert all(fields <= schema.RECORD_KINDS[kind].fields.keys() for kind, fields in named.items())


def test_a_closed_stderr_ends_nothing(logged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`program 2>&1 | head` closes it early."""
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setenv(trace.LOGS_ENV, "cache")
    with os.fdopen(writer, "wb", buffering=0) as closed:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(closed, write_through=True))
        with pytest.raises(BrokenPipeError):
            print("a line", file=sys.stderr, flush=True)
        trace.record("cache", cache="memory", hit=True)
        monkeypatch.undo()


def test_refusals_need_a_plus(
    logged: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for logs, count in (("fusion", 1), ("+fusion", 2), ("+fusion,-fusion", 0), ("cache", 0)):
        monkeypatch.setenv(trace.LOGS_ENV, logs)
        trace.record("fusion", a="x", b="y", ok=True)
        trace.record("fusion", a="x", b="z", ok=False)
        assert capsys.readouterr().err.count("[tfxla fusion]") == count, logs


@pytest.mark.parametrize(("word", "nearest"), [("fuzion", "fusion"), ("+recompile", "recompiles"), ("-zzz", "")])
def test_an_unknown_topic_is_said_once(
    word: str, nearest: str, logged: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kinds(monkeypatch, f"{word},cache") == {"cache": False}
    assert kinds(monkeypatch, f"{word}") == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert f"unknown topic '{word.lstrip('+-')}'" in line
    assert ("did you mean" in line) == bool(nearest)
    assert f"did you mean '{nearest}'" in line or not nearest


def test_topics_print_kinds_of_the_schema() -> None:
    assert {kind for topic in trace.TOPICS.values() for part in topic for kind in part} <= set(schema.RECORD_KINDS)


@pytest.mark.usefixtures("logged")
def test_what_is_said_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace.once("a", "it fails:\n  one reason\n\n    and another\n")
    assert capsys.readouterr().err == "tfxla_cluster: it fails: one reason and another\n"


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(("topic", "has"), [("autotune", False), ("+autotune", True)])
def test_lines_of_tuning_hold_each_form_only_where_more_is_asked_for(
    topic: str, has: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(trace.LOGS_ENV, topic)
    trace.record("autotune", event="tuned", instr="f", choice={"tile": 64}, ms=0.0529, candidates=[{"ms": 0.5}])
    line = capsys.readouterr().err
    assert line.startswith('[tfxla autotune] event=tuned instr=f choice={"tile": 64} ms=0.0529')
    assert ("candidates=" in line) == has
