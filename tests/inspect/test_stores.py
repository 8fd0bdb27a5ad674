"""`tfxla-inspect cache`: what it says of stores, removes, packs and unpacks."""

from __future__ import annotations

import json
import os
import pickle
import time
import zipfile
from pathlib import Path

import pytest

import tfxla_cluster
from tfxla_cluster.code_version import code_version
from tfxla_cluster.ir.guard import Key, facts
from tfxla_cluster.options import PROFILES_FOLDER, TUNING_FOLDER
from tfxla_cluster.profiles import store as profile_store
from tfxla_cluster.profiles.profile import FunctionProfile, Profile
from tfxla_cluster.runtime.store import Store
from tfxla_cluster.stored import entry, place
from tfxla_cluster.stored.place import Folder
from tfxla_cluster.tuning.persisted import directory as persisted
from tfxla_cluster.tuning.persisted.results import Entry
from tfxla_cluster.tuning.persisted.results import Key as TunedKey
from tfxla_inspect import cli, stores

PREFIX = "some_cache"


def key(name: str, **changes: str) -> Key:
    version = {"tfxla_cluster": tfxla_cluster.__version__, "code": code_version()}
    return facts({"hlo": name, "target": "Target(backend='cpu', arch='znver4', cores=2)", **version, **changes})


KEYS = {"first": key("a"), "second": key("b"), "stale": key("c", tfxla_cluster="0.0.1"), "damaged": key("d")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    store = Store(str(folder), PREFIX)
    for name, found in KEYS.items():
        about = {"function": name, "inputs": "x f32[3]"}
        assert store.put(found, "executable", {"plan.json": b"{}", "object.0": bytes(1000)}, about)
    path = Path(store.path(KEYS["damaged"], "executable"))
    path.write_bytes(path.read_bytes()[:-1])
    left = folder / f".{PREFIX}_executable_x.bin_{'0' * 32}.tmp"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    (folder / "README").write_text("not ours")
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = cli.main(["cache", *map(str, words)])
    return code, "".join(capsys.readouterr())


def rows(capsys: pytest.CaptureFixture[str], where: Path) -> dict[str, dict[str, object]]:
    code, out = run(capsys, where, "--json")
    assert code == 0
    return {row["what"].partition("(")[0]: row for row in json.loads(out)}


def test_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, folder)
    assert code == 0
    lines = out.splitlines()
    assert lines[-1] == f"{folder}: 5 files (0.0 MB), 1 damaged, 1 stale"
    (first,) = [line for line in lines if "first(x f32[3])" in line]
    assert first.startswith("executable  1.")
    assert f"tfxla_cluster {tfxla_cluster.__version__}  cpu znver4" in first
    (stale,) = [line for line in lines if "stale(x f32[3])" in line]
    assert f"stale: tfxla_cluster 0.0.1 (here {tfxla_cluster.__version__})" in stale
    assert sum("damaged: its checksum differs" in line for line in lines) == 1


def test_verifies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, folder, "--verify")[0] == 1
    run(capsys, folder, "--prune")
    assert run(capsys, folder, "--verify")[0] == 0


def test_an_entry_under_another_name_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [Path(Store(str(folder), PREFIX).path(KEYS[name], "executable")) for name in ("first", "second")]
    names[0].write_bytes(names[1].read_bytes())
    assert "damaged: it was written for another key" in run(capsys, folder)[1]


def test_prunes_what_is_of_no_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, folder, "--prune")
    assert code == 0
    assert "3 files removed" in out
    assert sorted(rows(capsys, folder)) == ["first", "second"]
    assert (folder / "README").read_text() == "not ours"
    assert Store(str(folder), PREFIX).get(KEYS["first"], "executable").sections is not None


def test_a_file_that_is_being_written_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    young = folder / f".{PREFIX}_executable_x.bin_{'1' * 32}.tmp"
    young.write_bytes(b"half")
    assert "5 files removed" in run(capsys, folder, "--prune", "--older-than", 1e-9)[1]
    assert young.exists()


def test_one_file_that_cannot_be_read_hides_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that another process removes after the folder was listed."""
    first, second = (Path(Store("", PREFIX).path(KEYS[name], "executable")).name for name in ("first", "second"))
    read = Folder.read

    def reads(self: Folder, name: str) -> bytes:
        if name == first:
            raise PermissionError("not yours")
        if name == second:
            raise FileNotFoundError(name)
        return read(self, name)

    monkeypatch.setattr(Folder, "read", reads)
    code, out = run(capsys, folder)
    assert code == 0
    assert "damaged: it cannot be read: not yours" in out
    assert "4 files" in out.splitlines()[-1]


def made(folder: Path, name: str, ago: float) -> None:
    """Write the entry anew, as made `ago` seconds ago."""
    found = entry.pack(KEYS[name], {"object.0": bytes(1000)}, {"function": name, "made": str(int(time.time() - ago))})
    Path(Store(str(folder), PREFIX).path(KEYS[name], "executable")).write_bytes(found)


def test_prunes_by_age_and_by_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, "first", ago=3 * 86400)
    run(capsys, folder, "--prune", "--older-than", "4")
    assert sorted(rows(capsys, folder)) == ["first", "second"]
    size = rows(capsys, folder)["first"]["bytes"] / 1e6
    run(capsys, folder, "--prune", "--max-mb", 2 * size + 0.01)
    assert sorted(rows(capsys, folder)) == ["first", "second"]
    run(capsys, folder, "--prune", "--max-mb", 1.6 * size)
    assert sorted(rows(capsys, folder)) == ["second"], "the oldest goes first"
    made(folder, "second", ago=3 * 86400)
    run(capsys, folder, "--prune", "--older-than", "2.9")
    assert not list(folder.glob("*.bin"))


def test_a_pack_is_a_store_and_can_be_unpacked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = tmp_path / "pack.zip"
    code, out = run(capsys, folder, "--pack", pack)
    assert code == 0
    assert "2 entries" in out
    assert sorted(rows(capsys, pack)) == ["first", "second"]
    store = Store(str(pack), PREFIX)
    assert store.get(KEYS["first"], "executable").sections == {"plan.json": b"{}", "object.0": bytes(1000)}
    assert store.get(KEYS["stale"], "executable").reason == "not in the store"
    assert not store.put(key("new"), "executable", {})
    assert not store.put(key("newer"), "executable", {})
    assert capsys.readouterr().err.count("is a pack") == 1
    code, out = run(capsys, tmp_path / "other", "--unpack", pack)
    assert (code, "2 entries" in out) == (0, True)
    assert Store(str(tmp_path / "other"), PREFIX).get(KEYS["second"], "executable").sections is not None


def test_unpacks_entries_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that lead out of the store, and what is no entry, stay in the pack."""

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "executed"),)

    name = entry.file_name(PREFIX, "executable", KEYS["first"])
    whole = entry.pack(KEYS["first"], {"object.0": pickle.dumps(Trap())})
    pack = tmp_path / "pack.zip"
    files = {f"../{name}": whole, name: whole, "program.py": b"", f"{PREFIX}_executable_{'0' * 32}.bin": whole}
    pack.write_bytes(place.packed(files))
    code, out = run(capsys, tmp_path / "store", "--unpack", pack)
    assert (code, "1 entries" in out) == (0, True)
    assert [path.name for path in (tmp_path / "store").iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pack.zip", "store"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and no more", b"GIF89a"])
def test_what_is_no_pack(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "pack.zip"
    pack.write_bytes(data)
    code, out = run(capsys, pack)
    assert code == 3
    assert "Traceback" not in out
    assert Store(str(pack)).get(KEYS["first"], "executable").sections is None


def test_a_damaged_entry_of_a_pack_is_a_miss(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "pack.zip"
    run(capsys, folder, "--pack", pack)
    name = entry.file_name(PREFIX, "executable", KEYS["first"])
    with zipfile.ZipFile(pack) as file:
        files = {n: file.read(n) for n in file.namelist()}
    pack.write_bytes(place.packed({**files, name: files[name][:-7]}))
    assert "unusable" in Store(str(pack), PREFIX).get(KEYS["first"], "executable").reason
    assert run(capsys, pack, "--verify")[0] == 1


def test_damage_of_a_pack_itself_is_damage_of_an_entry(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack, name = tmp_path / "pack.zip", entry.file_name(PREFIX, "executable", KEYS["first"])
    run(capsys, folder, "--pack", pack)
    with zipfile.ZipFile(pack) as file:
        at = file.getinfo(name).header_offset + 30 + len(name) + 8
    data = bytearray(pack.read_bytes())
    data[at : at + 4] = bytes(4)
    pack.write_bytes(data)
    code, out = run(capsys, pack, "--verify")
    assert (code, out.count("is damaged in its pack")) == (1, 1)
    assert "second(x f32[3])" in out
    store = Store(str(pack), PREFIX)
    assert "is damaged in its pack" in store.get(KEYS["first"], "executable").reason
    assert store.get(KEYS["second"], "executable").sections
    assert store.explain_miss(KEYS["stale"], "executable")
    assert capsys.readouterr().err == ""  # the store is used on
    assert run(capsys, tmp_path / "other", "--unpack", pack) == (0, f"{tmp_path / 'other'}: 1 entries from {pack}\n")


def test_wrong_use(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path / "missing")[0] == 3
    assert run(capsys, tmp_path / "missing.zip")[0] == 3
    assert run(capsys, folder, "--max-mb", "5")[0] == 2
    pack = tmp_path / "pack.zip"
    run(capsys, folder, "--pack", pack)
    assert run(capsys, pack, "--prune")[0] == 2
    assert run(capsys, "memory://empty/store")[0] == 3
    (tmp_path / "file").write_text("")
    assert run(capsys, folder, "--pack", tmp_path / "file" / "pack.zip")[0] == 6
    assert run(capsys, tmp_path / "file" / "store", "--unpack", pack)[0] == 6


def test_what_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    whys = {"file": "it is a file, and no pack", "none": "there is no such directory", "empty": "it holds nothing"}
    for name, why in whys.items():
        code, out = run(capsys, tmp_path / name)
        assert code == 3
        assert f"{tmp_path / name}: no store of executables: {why}. Give the directory, URL or pack" in out
    assert run(capsys, tmp_path) == (0, f"{tmp_path}: none of its files is an entry of a store\n")


def test_a_store_at_a_url(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "pack.zip"
    run(capsys, folder, "--pack", pack)
    assert run(capsys, "memory://inspected/store", "--unpack", pack)[0] == 0
    assert sorted(rows(capsys, "memory://inspected/store")) == ["first", "second"]
    assert run(capsys, "memory://inspected/store", "--prune", "--older-than", "0")[0] == 0
    assert run(capsys, "memory://inspected/store")[0] == 3


def test_profiles_and_tuning_results_of_the_store(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = FunctionProfile().called({"x": [32, 8]}, {})
    profile_store.merge_into(str(folder / PROFILES_FOLDER / "job.profile.json"), Profile({"step": profile}))
    results = persisted.Directory(str(folder / TUNING_FOLDER))
    results.put(Entry(TunedKey("device", "hlo"), {"block": 64}))
    bad = folder / PROFILES_FOLDER / "bad.profile.json"
    bad.write_text("{")

    def kinds(where: Path) -> dict[str, str]:
        code, out = run(capsys, where, "--json")
        assert code == 0
        return {row["name"]: row["damaged"] for row in json.loads(out) if row["kind"] in (stores.PROFILE, stores.TUNED)}

    found = kinds(folder)
    assert sorted(found) == [*sorted(f"{PROFILES_FOLDER}/{n}.profile.json" for n in ("bad", "job")), *_tuned(folder)]
    assert [name for name, damaged in found.items() if damaged] == [f"{PROFILES_FOLDER}/bad.profile.json"]
    run(capsys, folder, "--prune", "--older-than", "0", "--max-mb", "0.000001")
    assert sorted(kinds(folder)) == [f"{PROFILES_FOLDER}/job.profile.json", *_tuned(folder)]
    run(capsys, folder, "--pack", tmp_path / "pack.zip")
    run(capsys, tmp_path / "other", "--unpack", tmp_path / "pack.zip")
    assert kinds(tmp_path / "other") == kinds(folder)
    assert profile_store.read(str(tmp_path / "other" / PROFILES_FOLDER / "job.profile.json")).functions["step"]


def _tuned(folder: Path) -> list[str]:
    return [f"{TUNING_FOLDER}/{path.name}" for path in (folder / TUNING_FOLDER).glob("*.textproto")]


def test_versions_of_packages_that_are_not_installed_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_installed", lambda name: "2.21.0" if name == "tensorflow" else "")
    assert not stores.stale(key("a", tensorflow="2.21.0 v2.21.0-rc1-5-ga481b10260d", triton="1.0"))
    assert "tensorflow 2.20.0" in stores.stale(key("a", tensorflow="2.20.0"))
    assert "code" in stores.stale(key("a", code="other"))
