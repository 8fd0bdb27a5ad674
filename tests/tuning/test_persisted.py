"""Files of results: XLA's own, ours in both forms, merging, concurrent writers, kills, and what is wrong in a file."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import fsspec
import pytest

from tfxla_cluster import shared_file
from tfxla_cluster.codegen.kernel.choice import Choice
from tfxla_cluster.errors import InputFileError, OutputError, UsageError
from tfxla_cluster.options import TuningOptions
from tfxla_cluster.stored import place
from tfxla_cluster.tuning.persisted import files, results
from tfxla_cluster.tuning.persisted.directory import Directory, file_name
from tfxla_cluster.tuning.persisted.messages import message
from tfxla_cluster.tuning.persisted.results import Entry, Key, Measured, Results
from tfxla_cluster.tuning.tables import Tables

ROOT = Path(__file__).resolve().parents[2]
# As XLA wrote it: an older and a newer form, with an extended message in an Any.
XLAS = """version: 3
results {
  device: "CUDA: 8.0, Cores: 108, GPU clock: 1.41 GHz, Memory bandwidth: 1555 GB/s, L2 cache: 40 MB"
  hlo: "{\\n  tmp_0 = f16[1,16,17,3]{3,2,1,0} parameter(0)\\n  ROOT tmp_1 = f16[16,51]{1,0} bitcast(tmp_0)\\n}"
  result {
    run_time { nanos: 31744 }
    triton { block_m: 32 block_n: 32 block_k: 32 split_k: 1 num_stages: 1 num_warps: 4 num_ctas: 1 }
  }
}
results {
  device: "CUDA: 9.0, Cores: 132"
  hlo: "conv"
  version: 36
  result {
    scratch_bytes: 1024
    run_time { seconds: 1 nanos: 5 }
    algorithm {
      algo_id: 28 math_type: TENSOR_OP_MATH tuning_knobs { key: 2 value: 3 } workspace_size { value: 77 }
    }
  }
}
results {
  device: "CUDA: 9.0, Cores: 132"
  hlo: "gemm"
  version: 36
  result {
    failure { kind: WRONG_RESULT msg: "differs" }
    other { name: "Triton" config { [type.googleapis.com/xla.AutotuneResult.TritonGemmKey] { block_m: 64 } } }
  }
}
"""
A, B = Choice({"rows": 24, "cols": 32}), Choice({"rows": 48, "cols": 32})


def entry(hlo: str, choice: Choice = A, seconds: float = 1e-5) -> Entry:
    measured = (Measured(choice, seconds), Measured(Choice({"rows": 72, "cols": 1}), None, "WRONG_RESULT", "by 3"))
    return Entry(Key("CPU: x", hlo), choice, seconds, measured, "tfxla_cluster 1")


def header(name: str) -> str:
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "include/tensorflow/compiler/xla" / name).read_text()


@pytest.mark.parametrize("name", ["autotuning.pb.h", "autotune_results.pb.h"])
def test_numbers_are_those_of_tensorflows_headers(name: str) -> None:
    found = re.split(r"^class PROTOBUF_EXPORT (\w+) final", header(name), flags=re.M)
    checked = 0
    for title, body in zip(found[1::2], found[2::2]):
        try:
            known = message(f"xla.{title.replace('_', '.')}").DESCRIPTOR
        except KeyError:
            continue  # a message of logs
        fields = {n.lower(): int(v) for n, v in re.findall(r"k(\w+)FieldNumber = (\d+)", body)}
        ours = {f.name.replace("_", ""): f.number for f in known.fields}
        assert fields.items() <= ours.items(), title
        assert ours.keys() - fields.keys() <= {"wavesperEu".lower()}, title
        checked += 1
    assert checked == (8 if name == "autotuning.pb.h" else 2)


# --- reading and writing ---
@pytest.mark.parametrize("suffix", [*files.TEXT_SUFFIXES, ".pb", ""])
def test_xlas_own_file_comes_back_as_it_was(suffix: str, tmp_path: Path) -> None:
    known = files.parse(XLAS.encode(), text=True)
    assert not known.problems
    assert [e.choice for e in known.entries.values()] == [None] * 3
    assert [e.seconds for e in known.entries.values()] == [31744e-9, 1 + 5e-9, None]
    path = str(tmp_path / f"results{suffix}")
    files.write(path, known)
    data = Path(path).read_bytes()
    assert (b"block_m: 64" in data) == (suffix in files.TEXT_SUFFIXES)
    assert dict(files.read(path)) == dict(known)


@pytest.mark.parametrize("suffix", [".txt", ".pb"])
def test_our_results_round_trip(suffix: str, tmp_path: Path) -> None:
    made = results.of([entry("a"), entry("b", B, 2.5e-3)])
    path = str(tmp_path / f"r{suffix}")
    files.write(path, made)
    back = files.read(path)
    assert {k: replace(e, raw=b"") for k, e in back.items()} == dict(made)
    first = Path(path).read_bytes()
    files.write(path, back)
    assert Path(path).read_bytes() == first


def test_text_is_for_people(tmp_path: Path) -> None:
    files.write(str(tmp_path / "r.txt"), results.of([entry("a")]))
    text = (tmp_path / "r.txt").read_text()
    assert re.search(r'knobs \{\s+name: "rows"\s+value: 24', text)
    assert 'name: "tfxla"' in text


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    """Of the file, an entry and a result: what a later version of XLA adds."""
    unknown = b"\xaa\x06\x03abc"  # field 101, three bytes
    result = message("xla.AutotuneResult").FromString(unknown)
    item = message("xla.AutotuneResults.Entry").FromString(unknown)
    item.device, item.hlo = "d", "h"
    item.result.CopyFrom(result)
    whole = message("xla.AutotuneResults").FromString(unknown)
    whole.version = 3
    whole.results.append(item)
    path = tmp_path / "r.pb"
    path.write_bytes(whole.SerializeToString())
    files.merge_into(str(path), results.of([entry("a")]))
    assert path.read_bytes().count(unknown) == 3
    assert len(files.read(str(path))) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its version is 0, this package reads 3"),
        ("version: 2", "its version is 2"),
        ("version: 3 results { nonsense: 1 }", "nonsense"),
        ("no proto {", "no field named"),
    ],
)
def test_what_is_no_file_of_results_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text(text)
    with pytest.raises(InputFileError, match=said) as error:
        files.read(str(path))
    assert str(path) in str(error.value)


def test_missing_and_binary_rubbish(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        files.read(str(tmp_path / "none.txt"))
    (tmp_path / "r.pb").write_bytes(b"\xff" * 40)
    with pytest.raises(InputFileError, match="not a file of autotuning results"):
        files.read(str(tmp_path / "r.pb"))
    with pytest.raises(OutputError, match="left as it is"):
        files.merge_into(str(tmp_path / "r.pb"), results.of([entry("a")]))
    assert (tmp_path / "r.pb").read_bytes() == b"\xff" * 40


def test_bad_entries_are_named_and_the_others_used(tmp_path: Path) -> None:
    whole = results.to_message(results.of([entry("a"), entry("b"), entry("c")]))
    whole.results[0].device = ""
    whole.results[1].result.other.config.value = b"\xff\xff"
    whole.results.append(whole.results[2])
    path = tmp_path / "r.pb"
    path.write_bytes(whole.SerializeToString())
    found = files.read(str(path))
    assert [key.hlo for key in found] == ["c"]
    assert [re.sub(r" \(.*| of an .*", "", p) for p in found.problems] == [
        "entry 0 has no device or no hlo",
        "entry 1",
        "entry 3 has the key",
    ]


# --- merging ---
def test_merging_keeps_the_times_of_every_configuration() -> None:
    old = results.of([entry("a", A, 3.0)])
    new = results.of([Entry(Key("CPU: x", "a"), B, 2.0, (Measured(B, 2.0),), "later")])
    (merged,) = (old | new).values()
    assert (merged.choice, merged.seconds, merged.made_by) == (B, 2.0, "later")
    assert {m.choice: m.seconds for m in merged.measured} == {A: 3.0, B: 2.0, Choice({"rows": 72, "cols": 1}): None}


@pytest.mark.parametrize("suffix", [".txt", ".pb"])
def test_concurrent_writers_lose_nothing(suffix: str, tmp_path: Path) -> None:
    """Three processes of two threads each."""
    path = tmp_path / f"r{suffix}"
    code = (
        "import sys, threading; from tests.tuning.test_persisted import entry, files, results\n"
        "def work(t):\n"
        "    for n in range(5): files.merge_into(sys.argv[1], results.of([entry(f'{sys.argv[2]}.{t}.{n}')]))\n"
        "threads = [threading.Thread(target=work, args=(t,)) for t in range(2)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)], cwd=ROOT) for n in range(3)]
    assert [child.wait(timeout=120) for child in children] == [0] * 3
    assert {key.hlo for key in files.read(str(path))} == {
        f"{p}.{t}.{n}" for p in range(3) for t in range(2) for n in range(5)
    }
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_kill_leaves_a_whole_file_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    code = (
        "import sys; from tests.tuning.test_persisted import entry, files, results\n"
        "for n in range(10**6):\n"
        "    files.merge_into(sys.argv[1], results.of([entry(f'{n}')])); print(n, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        while int(child.stdout.readline()) < 20:
            pass
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
    assert len(files.read(str(path))) > 20
    done = threading.Thread(target=files.merge_into, args=(str(path), results.of([entry("after")])), daemon=True)
    done.start()
    done.join(timeout=30)
    assert Key("CPU: x", "after") in files.read(str(path))


def test_any_file_system() -> None:
    url = "memory://tuning/deep/r.txt"
    files.merge_into(url, results.of([entry("a")]))
    files.merge_into(url, results.of([entry("b")]))
    assert {key.hlo for key in files.read(url)} == {"a", "b"}
    assert len(fsspec.filesystem("memory").ls("/tuning/deep")) == 1


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        files.write(str(tmp_path / "file" / "r.txt"), Results())


# --- words of a test runner ---
def test_words_of_a_test_runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path / "out"))
    monkeypatch.setenv("TEST_WORKSPACE", str(tmp_path / "src"))
    assert shared_file.resolve("TEST_UNDECLARED_OUTPUTS_DIR/a/r.txt") == f"{tmp_path}/out/a/r.txt"
    assert shared_file.resolve("TEST_WORKSPACE/r.txt") == f"{tmp_path}/src/r.txt"
    monkeypatch.setenv("TEST_WORKSPACE", "name")
    monkeypatch.setenv("TEST_SRCDIR", str(tmp_path))
    assert shared_file.resolve("TEST_WORKSPACE/r.txt") == f"{tmp_path}/name/r.txt"
    assert shared_file.resolve("TEST_WORKSPACE_OTHER/r") == "TEST_WORKSPACE_OTHER/r"
    assert shared_file.resolve("gs://TEST_WORKSPACE/r") == "gs://TEST_WORKSPACE/r"
    monkeypatch.delenv("TEST_WORKSPACE")
    with pytest.raises(UsageError, match="TEST_WORKSPACE, which is not set"):
        shared_file.resolve("TEST_WORKSPACE/r.txt")


# --- a file a fusion ---
def test_directory(tmp_path: Path) -> None:
    kept = Directory(str(tmp_path / "d"))
    made = entry("a")
    assert kept.get(made.key) == (None, "not in the directory")
    kept.put(made)
    Directory(str(tmp_path / "d"), read_only=True).put(entry("b"))
    found, reason = Directory(str(tmp_path / "d")).get(made.key)
    assert (found, reason) == (made, "")
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == sorted([file_name(made.key), "tmp"])
    assert not list((tmp_path / "d" / "tmp").iterdir())


def test_a_directory_of_a_pack(tmp_path: Path) -> None:
    made, pack = entry("a"), tmp_path / "kept.zip"
    Directory(str(tmp_path / "d")).put(made)
    pack.write_bytes(place.packed({"tuning/" + (name := file_name(made.key)): (tmp_path / "d" / name).read_bytes()}))
    packed = Directory(f"{pack}/tuning", read_only=True)
    assert packed.get(made.key) == (made, "")
    assert packed.get(entry("b").key) == (None, "not in the directory")


def test_a_broken_file_is_a_miss_with_a_reason(tmp_path: Path) -> None:
    made = entry("a")
    (tmp_path / file_name(made.key)).write_text("result {")
    found, reason = Directory(str(tmp_path)).get(made.key)
    assert found is None
    assert "is unusable" in reason


def test_a_broken_file_of_a_directory_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = entry("a").key
    options = TuningOptions(directory=str(tmp_path))
    assert Tables().find(key, options).reason == "not in the directory"
    assert capsys.readouterr().err == ""
    (tmp_path / file_name(key)).write_text("result {")
    for _ in range(2):
        assert "is unusable" in Tables().find(key, options).reason
    assert capsys.readouterr().err.count(f"{file_name(key)} is unusable") == 1


def test_file_names_are_xlas() -> None:
    """As XLA's CPU-side test of its key states it: SHA-256 of the text of the key, in URL-safe base64."""
    name = file_name(Key("D", "H", 36))
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}\.textproto", name)
    assert name != file_name(Key("D", "H", 37))
