"""Dumps that do not lie flat in a directory: below it, in archives, in logs, renamed; and what must not happen then."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.inspect import sample
from tfxla_inspect import places, report
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import Directory, scan


def texts(found: Directory) -> dict[str, str]:
    """Kind -> text of the only module's files."""
    (module,) = found.modules
    reader = Reader()
    read = {f.kind: reader.text(f) for f in module.files}
    assert not reader.problems
    return read


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A directory with a module before and after."""
    directory = tmp_path / "small"
    directory.mkdir()
    (directory / "module_0001.m.before_optimizations.txt").write_text(sample.BEFORE)
    (directory / "module_0001.m.cpu_after_optimizations.txt").write_text(sample.AFTER)
    return directory


BOTH = {"before": sample.BEFORE, "after": sample.AFTER}


def _zipped(directory: Path, out: Path) -> Path:
    return Path(shutil.make_archive(str(out), "zip", directory.parent, directory.name))


def _tarred(kind: str) -> Callable[[Path, Path], Path]:
    return lambda directory, out: Path(shutil.make_archive(str(out), kind, directory.parent, directory.name))


def _log(directory: Path, out: Path, line: Callable[[int, bytes], bytes] = lambda n, text: text) -> Path:
    lines = [b"Epoch 1/10", b"loss: 0.5"]
    for file in sorted(directory.iterdir()):
        lines += [b"*** Begin %s ***" % file.name.encode(), *file.read_bytes().split(b"\n")]
        lines += [b"*** End %s ***" % file.name.encode(), b"more of the program"]
    path = out.with_suffix(".log")
    path.write_bytes(b"".join(line(n, text) + b"\n" for n, text in enumerate(lines)))
    return path


def _prefixed(directory: Path, out: Path) -> Path:
    """As launchers of several processes write it, and with a line of another process in between."""
    return _log(directory, out, lambda n, text: b"[1,%04d]<stdout>: %s\nother process" % (n, text))


def _compressed_log(directory: Path, out: Path) -> Path:
    path = _log(directory, out)
    (path.parent / "log.gz").write_bytes(gzip.compress(path.read_bytes()))
    return path.parent / "log.gz"


def _compressed_files(directory: Path, out: Path) -> Path:
    """By gzip, without a name that says so."""
    for file in directory.iterdir():
        file.write_bytes(gzip.compress(file.read_bytes()))
    return directory


def _below(directory: Path, out: Path) -> Path:
    shutil.copytree(directory, out / "m" / "host_7")
    return out


def _zip_below(directory: Path, out: Path) -> Path:
    out.mkdir()
    _zipped(directory, out / "inside")
    return out


WAYS = [_zipped, *map(_tarred, ("tar", "gztar", "bztar", "xztar")), _log, _prefixed, _compressed_log, _compressed_files]
WAYS += [_below, _zip_below]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_the_same_dump_however_it_lies(way: Callable[[Path, Path], Path], small: Path, tmp_path: Path) -> None:
    found = scan(way(small, tmp_path / "out"))
    assert not found.problems
    assert {kind: text.strip("\n") for kind, text in texts(found).items()} == {
        kind: text.strip("\n") for kind, text in BOTH.items()
    }


def test_a_report_of_an_archive_and_of_a_log(small: Path, tmp_path: Path) -> None:
    for made in (_zipped(small, tmp_path / "a"), _log(small, tmp_path / "b")):
        assert "1 module compiled" in report.build(made)


def test_a_log_that_was_cut_off(small: Path, tmp_path: Path) -> None:
    path = _log(small, tmp_path / "cut")
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"ROOT %multiply_reduce_fusion")])
    found = scan(path)
    (module,) = found.modules
    assert [f.kind for f in module.files] == ["before", "after"]
    assert "is missing in the log" in found.problems[0][1]
    assert "ENTRY" in Reader().text(module.one("after"))


def test_renamed_files_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    for name, text in (
        ("bug_report.hlo", sample.BEFORE),
        ("bug_report.opt.txt", "# of a run\n" + sample.AFTER),
        ("kernel.txt", ".version 8.3\n.target sm_90\n.entry k()"),
        ("assignment.log", "BufferAssignment:\nallocation 0: size 8, constant:\n"),
        ("notes.txt", "HLO is a nice language"),
    ):
        (tmp_path / name).write_text(text)
    found = scan(tmp_path)
    assert {m.name: [f.kind for f in m.files] for m in found.modules} == {
        "assignment": ["buffers"],
        "bug_report": ["before", "after"],
        "kernel": ["ptx"],
    }
    assert not any(m.is_numbered for m in found.modules)
    assert [(f.name, f.kind) for f in found.files] == [("notes.txt", "unknown")]


def test_runs_told_apart_by_the_time_in_names(tmp_path: Path) -> None:
    for usec, part in ((1700000000000001, "a"), (1700000000000009, "b")):
        for suffix in ("before_optimizations.txt", "cpu_after_optimizations.txt"):
            (tmp_path / f"{usec}.module_0000.m.{suffix}").write_text(part)
    (tmp_path / "module_0000.m.k.ir-with-opt.ll").write_text("of the last run")
    found = scan(tmp_path).modules
    assert [Reader().text(m.one("before")) for m in found] == ["a", "b"]
    assert [len(m.files) for m in found] == [2, 3]


def test_modules_of_folders_are_not_mixed(small: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    for rank in ("rank0", "rank1"):
        shutil.copytree(small, top / rank)
    assert [(m.folder, m.id, len(m.files)) for m in scan(top).modules] == [("rank0", 1, 2), ("rank1", 1, 2)]


def test_what_a_frontend_keeps_of_a_module_is_part_of_it(small: Path) -> None:
    (small / "module_0001.m").mkdir()
    (small / "module_0001.m" / "module.mlir").write_text("module @m {}")
    (small / "sub" / "module_0002.a").mkdir(parents=True)  # JAX does not mend a name with a slash
    (small / "sub" / "module_0002.a" / "b").mkdir()
    (small / "sub" / "module_0002.a" / "b" / "compile_options.textproto").write_text("x: 1")
    one, two = scan(small).modules
    assert sorted(f.kind for f in one.files) == ["after", "before", "frontend_mlir"]
    assert (two.id, two.name, [f.kind for f in two.files]) == (2, "a/b", ["compile_options"])


# --- what must not happen ---


def test_names_in_archives_lead_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../etc/module_0000.m.before_optimizations.txt", "/abs/x.txt", "..\\..\\y.txt", "a/./b.txt"):
            archive.writestr(name, sample.BEFORE)
        link = zipfile.ZipInfo("module_0000.m.cpu_after_optimizations.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    found = scan(path)
    assert sorted(f.name for f in found.everything) == [
        "a/b.txt",
        "abs/x.txt",
        "etc/module_0000.m.before_optimizations.txt",
        "y.txt",
    ]
    assert found.problems == [("module_0000.m.cpu_after_optimizations.txt", "a link: not followed")]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.zip"]


def test_links_and_devices_in_tar_archives_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in (("a.txt", tarfile.SYMTYPE), ("b.txt", tarfile.LNKTYPE), ("c", tarfile.CHRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        member = tarfile.TarInfo("../module_0000.m.before_optimizations.txt")
        member.size = len(sample.BEFORE)
        archive.addfile(member, io.BytesIO(sample.BEFORE.encode()))
    found = scan(path)
    assert [f.name for f in found.everything] == ["module_0000.m.before_optimizations.txt"]
    assert [name for name, _ in found.problems] == ["a.txt", "b.txt", "c"]


def test_pipes_and_links_in_a_directory_are_rows(small: Path) -> None:
    os.mkfifo(small / "module_0001.m.debug_options")
    (small / "loop").symlink_to(small)
    (small / "module_0001.m.thunk_sequence.txt").symlink_to("/etc/passwd")
    found = scan(small)
    assert set(texts(found)) == {"before", "after"}
    assert len(found.problems) == 3


def test_a_file_that_becomes_a_link_is_not_followed(small: Path) -> None:
    (module,) = scan(small).modules
    file = module.one("before")
    assert file is not None
    file.path.unlink()
    file.path.symlink_to("/etc/passwd")
    reader = Reader()
    assert reader.text(file) == ""
    assert "cannot be read" in reader.problems[0][1]


BOMB = 80 * 2**20


def _zip_bomb(path: Path) -> str:
    with zipfile.ZipFile(path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("module_0000.m.before_optimizations.txt", b" " * BOMB)
    return "bomb.zip"


def _gzip_bomb(path: Path) -> str:
    (path / "module_0000.m.before_optimizations.txt.gz").write_bytes(gzip.compress(b" " * BOMB))
    return ""


def _tar_bomb(path: Path) -> str:
    (path / "bomb.tar.gz").write_bytes(gzip.compress(b"\0" * BOMB))
    return "bomb.tar.gz"


def _log_bomb(path: Path) -> str:
    (path / "bomb.log").write_bytes(
        gzip.compress(b"*** Begin module_0000.m.before_optimizations.txt ***" + b" " * BOMB)
    )
    return "bomb.log"


@pytest.mark.parametrize("make", [_zip_bomb, _gzip_bomb, _tar_bomb, _log_bomb])
def test_bombs_are_rows(make: Callable[[Path], str], tmp_path: Path) -> None:
    found = scan(tmp_path / make(tmp_path)) if make is not _tar_bomb else scan_with(tmp_path, make)
    reader = Reader(list(found.problems))
    for file in found.everything:
        assert len(reader.text(file)) <= 2**26
    assert any("200 times" in reason for _, reason in reader.problems)


def scan_with(path: Path, make: Callable[[Path], str]) -> Directory:
    """Of the directory, which has another file beside the bomb: alone it would be an empty dump."""
    (path / "module_0000.m.before_optimizations.txt").write_text(sample.BEFORE)
    make(path)
    return scan(path)


def test_many_small_bombs_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfxla_inspect.reading._ALL_EXPANDED", 3 * 2**20)
    for number in range(5):
        name = f"module_000{number}.m.before_optimizations.txt.gz"
        (tmp_path / name).write_bytes(gzip.compress(sample.BEFORE.encode() + b" " * 2**20))
    reader = Reader()
    read = [reader.text(m.one("before")) for m in scan(tmp_path).modules]
    assert [len(text) > 2**20 for text in read] == [True, True, False, False, False]
    assert "in all" in reader.problems[0][1]


def test_more_files_than_anybody_reads(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_FILES", 1)
    assert "more than 1 files" in scan(small).problems[0][1]


def test_archives_that_are_broken_or_locked(small: Path) -> None:
    (small / "a.zip").write_bytes(b"PK\3\4 and then nothing")
    (small / "b.tar").write_bytes(b"no tar")
    (small / "c.tgz").write_bytes(b"\x1f\x8b\x08no gzip")
    with zipfile.ZipFile(small / "d.zip", "w") as archive:
        archive.writestr("e.txt", "x" * 100)
    data = bytearray((small / "d.zip").read_bytes())
    data[6] |= 1  # of the member: encrypted
    data[data.index(b"PK\1\2") + 8] |= 1
    (small / "d.zip").write_bytes(data)
    found = scan(small)
    assert [name for name, _ in found.problems] == ["a.zip", "b.tar", "c.tgz"]
    assert [f.kind for f in found.files] == ["unknown"]
    assert len(found.modules) == 1


def test_a_literal_in_full_is_cut_and_the_rest_is_there(tmp_path: Path) -> None:
    literal = "{" + ", ".join(["0.25"] * 500_000) + "}"
    before = sample.BEFORE.replace("constant(0)", f'constant({literal}), metadata={{op_name="w"}}')
    (tmp_path / "module_0000.m.before_optimizations.txt").write_text(before)
    reader = Reader(limit=100_000)
    text = reader.text(scan(tmp_path).modules[0].one("before"))
    assert not reader.problems
    assert text.endswith("}\n")
    assert "%reduce" in text
    assert 'op_name="w"' in text
