from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tfxla_cluster import flag_options, flags
from tfxla_cluster.dump import files, sink
from tfxla_cluster.errors import FlagError


@pytest.fixture(autouse=True)
def _fresh():
    files.reset_failures()
    yield
    files.reset_failures()


def current() -> sink.Sink:
    """The sink that the flags ask for."""
    return sink.Sink(flag_options.dump_options())


def names(directory: Path) -> list[str]:
    return sorted(n for n in os.listdir(directory) if not n.startswith("."))


def test_no_directory_writes_nothing_and_renders_nothing():
    dump = current().module("m")
    dump.text("before_optimizations.txt", lambda: pytest.fail("rendered for nothing"))
    dump.bytes("x.pb", lambda: pytest.fail("rendered for nothing"))
    assert not dump
    assert dump.id == -1
    assert current().graph("g", "") is None


def test_names_are_xla_s(tmp_path):
    with flags.patch(xla_dump_to=str(tmp_path), xla_dump_hlo_pass_re=".*"):
        dump = current().module("a/b[0] c\\d.2")
        dump.text("before_optimizations.txt", "hlo")
        dump.bytes("before_optimizations.hlo.pb", b"pb")
        dump.pass_dump("opt", "cse", "dce", lambda: "text")
        dump.pass_dump("opt", "dce", "pipeline-end", "text")
        assert current().module("second").id == 1
    assert names(tmp_path) == [
        "module_0000.a_b_0__c_d.2.0000.opt.after_cse.before_dce.txt",
        "module_0000.a_b_0__c_d.2.0001.opt.after_dce.before_pipeline-end.txt",
        "module_0000.a_b_0__c_d.2.before_optimizations.hlo.pb",
        "module_0000.a_b_0__c_d.2.before_optimizations.txt",
    ]


@pytest.mark.parametrize("name", ["x" * 400, "é" * 300, "", "\x00\n\x1b", "../../etc/passwd", "."])
def test_hostile_module_names_stay_in_the_directory(tmp_path, name):
    with flags.patch(xla_dump_to=str(tmp_path / "d")):
        current().module(name).text("before_optimizations.txt", "t")
    (written,) = names(tmp_path / "d")
    assert len(os.fsencode(written)) <= 255
    assert written.endswith(".before_optimizations.txt")
    assert names(tmp_path) == ["d"]


@pytest.mark.parametrize(
    ("changes", "module", "after", "expected"),
    [
        ({"xla_dump_hlo_module_re": "foo"}, "bar", "cse", []),
        ({"xla_dump_hlo_module_re": "o+"}, "foo", "cse", ["t.txt"]),
        ({"xla_dump_hlo_pass_re": "cs"}, "foo", "cse", ["0000.p.after_cse.before_x.txt", "t.txt"]),
        ({"xla_dump_hlo_pass_re": "dce"}, "foo", "cse", ["t.txt"]),
        ({"xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_pipeline_re": "q"}, "foo", "cse", ["t.txt"]),
        ({"xla_enable_dumping": False}, "foo", "cse", []),
        ({"xla_dump_max_hlo_modules": 0}, "foo", "cse", []),
    ],
)
def test_filters(tmp_path, changes, module, after, expected):
    with flags.patch(xla_dump_to=str(tmp_path), **changes):
        dump = current().module(module)
        dump.pass_dump("p", after, "x", "t")
        dump.text("t.txt", "t")
    assert [n.removeprefix(f"module_0000.{module}.") for n in names(tmp_path)] == expected


def test_max_modules_keeps_all_files_of_a_kept_module(tmp_path):
    with flags.patch(xla_dump_to=str(tmp_path), xla_dump_max_hlo_modules=1):
        first, second = current().module("a"), current().module("b")
        second.text("t", "")
        first.text("t", "")
    assert names(tmp_path) == ["module_0000.a.t"]


def test_formats_timestamp_and_compression(tmp_path):
    with flags.patch(
        xla_dump_to=str(tmp_path),
        xla_dump_hlo_as_text=False,
        xla_dump_compress_protos=True,
        xla_dump_include_timestamp=True,
    ):
        current().module("m").hlo("before_optimizations", "text", b"proto")
    (name,) = names(tmp_path)
    assert re.fullmatch(r"\d{16}\.module_0000\.m\.before_optimizations\.hlo\.pb\.gz", name)


def test_stdout(capsys):
    with flags.patch(xla_dump_to="-"):
        dump = current().module("m")
        dump.text("before_optimizations.txt", "one\ntwo")
        dump.bytes("before_optimizations.hlo.pb", b"\0")
    name = f"module_{dump.id:04d}.m.before_optimizations.txt"
    assert capsys.readouterr().out == f"*** Begin {name} ***\none\ntwo\n*** End {name} ***\n"


def test_test_outputs_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path))
    with flags.patch(xla_dump_to="sponge"):
        current().text("x.txt", "x")
    assert names(tmp_path) == ["x.txt"]


def test_bad_pattern_names_the_flag(tmp_path):
    with (
        pytest.raises(FlagError, match="module_re"),
        flags.patch(xla_dump_to=str(tmp_path), xla_dump_hlo_module_re="("),
    ):
        current().module("m")


@pytest.mark.parametrize("kind", ["file in the way", "full disk"])
def test_write_failure_is_said_once_and_the_program_goes_on(tmp_path, capsys, monkeypatch, kind):
    target = tmp_path / "d"
    if kind == "file in the way":
        target.write_text("no directory")
    else:

        def full(self: Path, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
    with flags.patch(xla_dump_to=str(target)):
        for _ in range(3):
            dump = current().module("m")
            dump.text("a.txt", "a")
            assert current().graph("g", "g") is None
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert str(target) in lines[0]
    assert "goes on" in lines[0]
    assert kind == "file in the way" or names(target) == []


def test_graphs_are_numbered_and_never_overwritten(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", str(tmp_path / "graphs"))
    with flags.patch(xla_dump_to=str(tmp_path / "d")):
        paths = [current().graph("mark_for_compilation", str(n)) for n in range(3)]
    assert [p.name for p in paths] == [
        "mark_for_compilation.pbtxt",
        "mark_for_compilation_1.pbtxt",
        "mark_for_compilation_2.pbtxt",
    ]
    assert [p.read_text() for p in paths] == ["0", "1", "2"]


def test_numbers_go_on_in_a_used_directory_without_the_counter(tmp_path):
    (tmp_path / "module_0041.x.ptx").write_text("")
    assert files.next_module_id(tmp_path) == 42
    assert files.next_module_id(tmp_path) == 43


def _many() -> None:
    for n in range(40):
        dump = current().module(f"p{os.getpid()}_{n}")
        dump.text("t.txt", str(dump.id))


def test_threads_and_forked_processes_share_a_directory(tmp_path):
    context = multiprocessing.get_context("fork")
    with flags.patch(xla_dump_to=str(tmp_path)):
        workers = [
            *(context.Process(target=_many) for _ in range(3)),
            *(threading.Thread(target=_many) for _ in range(3)),
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    ids = [int(n.split(".")[0][7:]) for n in names(tmp_path)]
    assert sorted(ids) == list(range(240))


def test_a_kill_leaves_whole_files_only(tmp_path):
    script = (
        "import sys; from tfxla_cluster.dump.sink import Sink; from tfxla_cluster.options import DumpOptions\n"
        "sink = Sink(DumpOptions(sys.argv[1]))\n"
        "for n in range(10**6): sink.module('m').text('t.txt', 'x' * 100_000 + 'END')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    while len(names(tmp_path)) < 20:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all((tmp_path / n).read_text().endswith("END") for n in names(tmp_path))
