"""`tfxla-inspect bundle`: what is in the zip, and what is not."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tfxla_cluster.ir import proto, text
from tfxla_inspect import cli, scrub

RUN = {
    "kind": "run",
    "time": 1,
    "thread": 1,
    "argv": ["/home/alice/project/train.py", "--api_key=sesame", "--token", "abracadabra", "--steps=3"],
    "environment": {"XLA_FLAGS": "--xla_x", "AWS_SECRET_ACCESS_KEY": "sesame", "HOME": "/home/alice", "TF_TOKEN": "x"},
    "versions": {"tensorflow": "2.21.0"},
}
STACK = [{"file": "/home/alice/project/train.py", "line": 3, "text": "loss = secret_sauce(x)", "user": True}]
HLO = """HloModule private
ENTRY e {
  x = f32[12] parameter(0)
  c = f32[12] constant({11.5, 22.5, 33.5, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  k = f32[] constant(77.5)
  b = f32[12] broadcast(k), dimensions={}
  m = f32[12] multiply(x, c), metadata={op_name="m" source_file="/home/alice/project/train.py" source_line=3}
  ROOT r = f32[12] add(m, b), metadata={op_name="r" source_file="/data/alice/lib.py" source_line=4}
}
"""
SECRETS = (b"alice", b"sesame", b"abracadabra", b"secret_sauce")
ROOT = b"/root"  # a home directory without a user's name


@pytest.fixture
def private(dump: Path, tmp_path: Path) -> Path:
    """The sample dump with a module and a trace of somebody."""
    folder = tmp_path / "dump"
    shutil.copytree(dump, folder)
    call = {"kind": "compile", "time": 2, "thread": 1, "id": 90, "called": STACK}
    lines = [json.dumps(r) for r in (RUN, call)]
    (folder / "trace.777.jsonl").write_text("\n".join(lines) + "\n{cut off")
    (folder / "module_0090.private.before_optimizations.txt").write_text(HLO)
    (folder / "module_0090.private.before_optimizations.hlo.pb").write_bytes(proto.write(text.parse(HLO)))
    (folder / "module_0090.private.sources.json").write_text(json.dumps({"m": STACK}))
    (folder / "module_0090.private.snapshot.5.pb").write_bytes(b"inputs")
    (folder / "holiday.jpg").write_bytes(b"x")
    return folder


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_nothing_private_is_in_it(private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle", str(private), "-o", str(tmp_path / "out.zip")]) == 0
    found = contents(tmp_path / "out.zip")
    for name, data in found.items():
        for secret in SECRETS:
            assert secret not in data, (name, secret)
    trace = [json.loads(line) for line in found["trace.777.jsonl"].splitlines()]
    assert trace[0]["argv"] == [
        "/home/xxxxx/project/train.py", "--api_key=<removed>", "--token", "<removed>", "--steps=3",
    ]  # fmt: skip
    assert trace[0]["environment"] == {"XLA_FLAGS": "--xla_x"}
    assert trace[0]["versions"] == RUN["versions"]
    assert trace[1]["called"][0]["line"] == 3
    module = proto.read(found["module_0090.private.before_optimizations.hlo.pb"])
    assert module.entry.root.metadata.source_file == "/data/xxxxx/lib.py"
    out = capsys.readouterr().out
    assert "left out  holiday.jpg  (not a file of a dump)" in out
    assert "left out  module_0090.private.sources.json" in out
    assert "left out  module_0090.private.snapshot.5.pb" in out
    assert f"out.zip: {len(found)} files; " in out
    assert all(name in out for name in found)


def test_the_report_and_replay_open_it(private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = str(tmp_path / "out.zip")
    assert cli.main(["bundle", str(private), "-o", made]) == 0
    assert cli.main(["report", made, "-o", str(tmp_path / "o.html"), "-q"]) == 0
    assert "private" in (tmp_path / "o.html").read_text()
    assert "alice" not in (tmp_path / "o.html").read_text()


def test_what_is_asked_for(private: Path, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "reproduce.py").write_text("open('/Users/alice/x')")
    (tmp_path / "script.py").write_text("print(1)")
    words = ["--inputs", "--sources", "--add", str(tmp_path / "small"), "--add", str(tmp_path / "script.py")]
    assert cli.main(["bundle", str(private), "-o", str(tmp_path / "out.zip"), *words]) == 0
    found = contents(tmp_path / "out.zip")
    assert b"secret_sauce" in found["module_0090.private.sources.json"]
    assert b"secret_sauce" in found["trace.777.jsonl"]
    assert found["module_0090.private.snapshot.5.pb"] == b"inputs"
    assert found["reproduction/script.py"] == b"print(1)"
    assert found["reproduction/reproduce.py"] == b"open('/Users/xxxxx/x')"


def test_constants_are_stripped(private: Path, tmp_path: Path) -> None:
    (private / "module_0090.private.before_optimizations.txt").unlink()  # the proto alone holds it
    words = ["bundle", str(private), "-o", str(tmp_path / "out.zip"), "--strip-constants", "--inputs"]
    assert cli.main(words) == 0
    found = contents(tmp_path / "out.zip")
    assert not [name for name in found if name.endswith((".pb", "launch_plan.json", ".ll", "snapshot.5.pb"))]
    stripped = found["module_0090.private.before_optimizations.txt"].decode()
    assert "{...}" in stripped
    assert "22.5" not in "".join(d.decode(errors="replace") for d in found.values())
    assert "77.5" in stripped  # up to ten elements say what the program is
    assert text.parse(stripped, allow_elided=True).name == "private"


def test_bytes_keep_their_length() -> None:
    names = scrub.users([b"/home/bob.smith/x"])
    for data in (
        b'"/home/bob.smith/a"',
        b"C:\\Users\\carol\\x",
        b"~bob.smith/x bob.smith@host",
        b"%s/notes.txt %s" % (ROOT, ROOT),
    ):
        hidden, count = scrub.anonymous(data, names)
        assert len(hidden) == len(data)
        assert count
        assert not [word for word in (b"bob", b"carol", ROOT) if word in hidden]
    kept = b"%root = f32[] tuple(bob.smithy), /rooted/x"
    assert scrub.anonymous(kept, names) == (kept, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["{tmp}/none", "-o", "{tmp}/o.zip"], 3, "no such file or directory"),
        (["{dump}", "-o", "{tmp}/no/o.zip"], 6, "cannot be written"),
        (["{dump}", "-o", "{tmp}/o.zip", "--add", "{tmp}/none.py"], 3, "cannot be read"),
        (["{dump}"], 2, "-o"),
    ],
)
def test_mistakes(
    words: list[str], code: int, said: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = cli.main(["bundle", *(w.format(tmp=tmp_path, dump=dump) for w in words)])
    except SystemExit as exit_:
        found = exit_.code
    assert found == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
