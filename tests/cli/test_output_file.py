"""Where commands write: through devices and pipes, along links, never over what they read, files as a whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.inspect import sample
from tests.programs_in_child import ROOT
from tfxla_cluster import output_file
from tfxla_cluster.cli import common, opt
from tfxla_cluster.errors import OutputError
from tfxla_inspect import cli as inspect_cli

MODULE = "HloModule m\nENTRY e {\n x = f32[2]{0} parameter(0)\n ROOT r = f32[2] negate(x)\n}\n"


def test_a_file_keeps_its_mode_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    output_file.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    (tmp_path / "dangling").symlink_to("made")
    output_file.write(tmp_path / "dangling", b"new")
    assert (tmp_path / "made").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "link", "made", "real"]


def test_devices_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    output_file.write(tmp_path / "null", b"x")
    output_file.write("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "fifo")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "fifo").read_bytes()))
    reader.start()
    output_file.write(tmp_path / "fifo", b"x" * 200_000)
    reader.join()
    assert read == [b"x" * 200_000]
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)


@pytest.mark.parametrize("name", ["", "missing/below", "/dev/full", "n" * 300, "a\0b", "loop"])
def test_what_cannot_be_written_is_one_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="cannot be written"):
        output_file.write(os.path.join(tmp_path, name), b"x")


@pytest.mark.parametrize("linked", ["itself", "symbolic", "hard"])
def test_what_is_read_is_not_written(linked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = out = tmp_path / "m.hlo"
    path.write_text(MODULE)
    if linked == "symbolic":
        out = tmp_path / "link"
        out.symlink_to(path)
    elif linked == "hard":
        out = tmp_path / "link"
        out.hardlink_to(path)
    assert common.run("tfxla-opt", opt.main, [str(path), "-o", str(out)]) == 6
    assert path.read_text() == MODULE
    assert capsys.readouterr().err.count("\n") == 1


def test_the_report_spares_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = sample.write(tmp_path / "dump")
    for file in [p for p in dump.iterdir() if not p.name.startswith(".")][:6]:
        before = file.read_bytes()
        assert inspect_cli.main(["report", str(dump), "-o", str(file)]) == 6
        assert file.read_bytes() == before
    for _ in range(2):  # its own report may be written again
        assert inspect_cli.main(["report", str(dump), "-q", "-o", str(dump / "report.html")]) == 0
    assert inspect_cli.main(["report", str(dump), "-q", "-o", "/dev/null"]) == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_into_a_file(name: str, tmp_path: Path) -> None:
    """The shell's file gets the page and nothing else, behind what stands there."""
    dump = sample.write(tmp_path / "dump")
    with (tmp_path / "out").open("wb") as out:
        out.write(b"before")
        out.flush()
        command = [sys.executable, "-m", "tfxla_inspect", "report", str(dump), "-o", name]
        path = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}"}
        subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=path, check=True, timeout=100)
    text = (tmp_path / "out").read_text()
    assert text.startswith("before<!")
    assert text.rstrip().endswith("</html>")
