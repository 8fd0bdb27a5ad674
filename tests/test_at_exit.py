"""What a dump holds of a program that ended, however it ended: counters, the manifest, and a report that says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs_in_child import AUTO, environment, ours, run

COMPILED = """
import tensorflow as tf
f = tf.function(lambda x: tf.reduce_sum(tf.sin(x) * 2.0 + 1.0), jit_compile=True)
for _ in range(3):
    f(tf.ones([4]))
"""
STRINGS = """
import sys, tensorflow as tf
f = tf.function(lambda x: tf.strings.join([tf.strings.upper(x), tf.strings.lower(x)]))
assert f(tf.constant("aB")).numpy() == b"ABab"
"""
# How it ends, exit code, standard error's last line, counters, what the report says.
ENDS = [
    (
        COMPILED + "raise ValueError('the program is wrong')",
        1,
        "ValueError: the program is wrong",
        {"executions": 3, "compilations": 1, "fallbacks": 0},
        "1 module compiled",
    ),
    (
        STRINGS + "sys.exit(7)",
        7,
        "",
        {"executions": 0, "compilations": 0, "clusters": 0, "functions": 1},
        "No module was compiled. Most frequent reasons: string (3 nodes)",
    ),
]


@pytest.mark.parametrize(("program", "code", "error", "counters", "said"), ENDS, ids=["exception", "exit"])
def test_the_counters_are_in_the_dump(
    program: str, code: int, error: str, counters: dict[str, int], said: str, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    done = run(program, f"{AUTO} --xla_dump_to={dump}")
    assert done.returncode == code, done.stderr[-2000:]
    assert not ours(done.stderr)
    assert not error or done.stderr.splitlines()[-1] == error
    (trace,) = dump.glob("trace.*.jsonl")
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [records[0]["kind"], records[-1]["kind"]] == ["run", "stats"]
    assert records[-1]["stats"].items() >= counters.items()
    manifest = json.loads((dump / "manifest.json").read_text())
    assert list(manifest["stats"].values()) == [records[-1]["stats"]]
    page = tmp_path / "report.html"
    report = subprocess.run(
        [sys.executable, "-m", "tfxla_inspect", "report", str(dump), "-o", str(page)],
        env=environment(""),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert report.returncode == 0
    assert not report.stderr
    assert said in page.read_text()


INTERRUPTED = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits "ignore"
import tensorflow as tf
from tfxla_cluster.tf import grappler_plugin
def interrupted(*arguments):
    raise KeyboardInterrupt
grappler_plugin.enable(interrupted)
try:
    tf.function(lambda a: tf.sin(a) * 2.0)(tf.ones([3]))
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_in_the_graph_pass_reaches_the_program() -> None:
    done = run(INTERRUPTED, AUTO)
    assert done.stdout.split() == ["interrupted"], done.stderr
    assert "failed" not in done.stderr
