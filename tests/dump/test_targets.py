"""--xla_dump_to or TF_DUMP_GRAPH_PREFIX is no directory that can be written: one line, and the program goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs_in_child import AUTO, ours, run
from tfxla_cluster import trace
from tfxla_cluster.dump import files

Make = Callable[[Path], "Path | str"]


def a_file(base: Path) -> Path:
    (base / "file").write_text("mine")
    return base / "file"


def below_a_file(base: Path) -> Path:
    return a_file(base) / "dump"


def a_fifo(base: Path) -> Path:
    os.mkfifo(base / "fifo")
    return base / "fifo"


def a_dangling_link(base: Path) -> Path:
    (base / "link").symlink_to(base / "nowhere")
    return base / "link"


def a_link_to_itself(base: Path) -> Path:
    (base / "loop").symlink_to(base / "loop")
    return base / "loop"


def a_long_name(base: Path) -> Path:
    return base / ("n" * 300)


def a_long_path(base: Path) -> str:
    return str(base) + "/d" * 3000


def not_writable(base: Path) -> Path:
    """Root may write everywhere but here."""
    return Path("/proc/sys/kernel/dump")


TARGETS: dict[str, Make] = {
    "a file": a_file,
    "below a file": below_a_file,
    "a fifo": a_fifo,
    "a device": lambda base: "/dev/null",
    "a full device": lambda base: "/dev/full",
    "a dangling link": a_dangling_link,
    "a link to itself": a_link_to_itself,
    "a long name": a_long_name,
    "a long path": a_long_path,
    "not writable": not_writable,
    "a null character": lambda base: f"{base}/a\0b",
}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trace, "_said", set())
    files.reset_failures()
    yield
    files.reset_failures()


@pytest.mark.parametrize("name", TARGETS)
def test_every_way_of_writing_gives_up(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(TARGETS[name](tmp_path))
    assert files.write_numbered(Path(target), "graph", ".pbtxt", b"x") is None
    assert files.next_module_id(Path(target)) == 0
    assert not files.write(Path(target) / "module_0000.m.txt", b"x")
    trace._Writer().write(target, "{}\n")
    (line,) = capsys.readouterr().err.splitlines()
    assert f"cannot write the dump in {target}" in line
    assert "the program goes on" in line


PROGRAM = """
import json, sys, tensorflow as tf, tfxla_cluster
results = []
for target in json.loads(sys.stdin.read()):
    with tfxla_cluster.config.patch(xla_dump_to=target):
        tfxla_cluster.clear_cache()
        f = tf.function(lambda x: tf.reduce_sum(tf.tanh(x) * 2.0 + tf.exp(x)))
        g = tf.function(lambda x: tf.sin(x) + 1.0, jit_compile=True)
        results.append([float(f(tf.zeros([4]))), float(g(tf.zeros([])))])
print(json.dumps([results, tfxla_cluster.stats()["executions"]]))
"""


def test_a_program_with_each_of_them(tmp_path: Path) -> None:
    targets = [str(make(tmp_path)) for name, make in TARGETS.items() if name != "below a file"]
    done = run(PROGRAM, AUTO, stdin=json.dumps(targets))
    assert done.returncode == 0, done.stderr[-2000:]
    results, executions = json.loads(done.stdout.splitlines()[-1])
    assert results == [[4.0, 1.0]] * len(targets)
    assert executions == 2 * len(targets)
    said = [line for line in ours(done.stderr) if "cannot write the dump" in line]
    assert len(said) == len(targets), said
    assert "Traceback" not in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_graphs_to_a_file(tmp_path: Path) -> None:
    done = run(PROGRAM, AUTO + " --tf_xla_clustering_debug", stdin='[""]', TF_DUMP_GRAPH_PREFIX=str(a_file(tmp_path)))
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "file").read_text() == "mine"
    assert len([line for line in ours(done.stderr) if "cannot write" in line]) == 1
