"""Profiles: the lattice's laws on drawn ones, JSON, files under concurrent writers, and what broken files cost."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfxla_cluster.errors import InputFileError, OutputError
from tfxla_cluster.profiles import store as profile_store
from tfxla_cluster.profiles.profile import MOST_SIZES, Counts, FunctionProfile, Profile, Sizes, from_json, to_json
from tfxla_cluster.profiles.store import ProfileStore

NAMES = st.sampled_from(["x", "y", "model/dense/kernel", "ä b"])
COUNTS = st.dictionaries(st.integers(0, 40), st.integers(1, 5), max_size=40).map(lambda of: Counts() | Counts(of))
SIZES = st.none().map(Sizes) | st.lists(COUNTS, max_size=3).map(lambda axes: Sizes(tuple(axes)))
FUNCTIONS = st.builds(
    FunctionProfile,
    st.dictionaries(NAMES, SIZES, max_size=3),
    st.dictionaries(NAMES, COUNTS, max_size=2),
    st.frozensets(st.sampled_from(["recompile_limit", "b"])),
)
PROFILES = st.builds(Profile, st.dictionaries(NAMES, FUNCTIONS, max_size=3))


# Three profiles take long to draw where other processes run beside.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PROFILES, PROFILES, PROFILES)
def test_a_lattice(a: Profile, b: Profile, c: Profile) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a
    assert (a | b) | a == a | b
    assert Profile() | a == a


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PROFILES)
def test_json_keeps_all(a: Profile) -> None:
    assert from_json(to_json(a)) == a
    assert to_json(from_json(to_json(a))) == to_json(a)


def test_what_calls_say() -> None:
    f = FunctionProfile()
    for batch in (32, 32, 17):
        f = f.called({"x": [batch, 784], "w": [784, 10]}, {"steps": 3})
    assert f.dynamic() == {"x": (0,)}
    assert f.inputs["x"].axes == (Counts({32: 2, 17: 1}), Counts({784: 3}))
    assert not f.numbers["steps"].several
    f = f.called({"x": [4]}, {"steps": 4})
    assert f.inputs["x"] == Sizes(None)
    assert f.numbers["steps"].common == [3, 4]
    assert Profile({"step": f | FunctionProfile({"x": Sizes((Counts({1: 1}),))})}).sources() == []
    assert f.called({"w": [784, 11]}, {}).dynamic() == {"w": (1,)}


def test_the_most_frequent_sizes_stay() -> None:
    counts = Counts()
    for n in range(100):
        counts = counts.plus(n).plus(7)
    assert len(counts.of) == MOST_SIZES
    assert counts.common[0] == 7
    assert counts.several


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[]", "not the form of a profile"),
        ("{}", "'schema'"),
        ('{"schema": 2, "functions": {}}', "its schema is 2, this version reads 1"),
        ('{"schema": 1, "functions": []}', "not the form"),
        ('{"schema": 1, "functions": {"f": {"inputs": {"x": [{"3": -1}]}, "numbers": {}, "limits": []}}}', "how often"),
        ('{"schema": 1, "functions": {"f": {"inputs": {"x": [{"a": 1}]}, "numbers": {}, "limits": []}}}', "invalid"),
        ("[" * 100_000, "not the form|maximum"),
    ],
)
def test_no_profile(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=said):
        from_json(text.encode())
    store = ProfileStore(str(tmp_path), "job")
    Path(store.file).write_text(text)
    for _ in range(2):
        assert store.load() == Profile()
    assert not store.join(one("f", 3))
    assert Path(store.file).read_text() == text
    assert capsys.readouterr().err.count("going on without it") == 1


def one(name: str, size: int) -> Profile:
    return Profile({name: FunctionProfile().called({"x": [size]}, {})})


def test_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ProfileStore(str(tmp_path / "new"), "train/resnet: a b")
    assert Path(store.file).name == "train_resnet__a_b.profile.json"
    ProfileStore(str(tmp_path / "new"), "train/resnet: a b")
    ProfileStore(str(tmp_path / "new"), "resnet-1.a_b")
    said = capsys.readouterr().err
    assert said.count(f"the profile of 'train/resnet: a b' (TFXLA_JOB_ID) is {store.file}: ") == said.count("\n") == 1
    assert store.load() == Profile()
    assert store.join(one("f", 3))
    assert store.join(one("f", 4))
    assert store.load() == one("f", 3) | one("f", 4)
    assert not ProfileStore(str(tmp_path / "new"), "train/resnet: a b", read_only=True).join(one("g", 1))
    assert list(store.load().functions) == ["f"]
    assert capsys.readouterr().err == ""


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    store = ProfileStore(str(tmp_path / "file"), "job")
    assert not any(store.join(one("f", 3)) for _ in range(2))
    assert capsys.readouterr().err.count("going on without it") == 1


def test_an_unknown_file_system_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert ProfileStore("nosuch://host/dir", "job").load() == Profile()
    assert "going on without it" in capsys.readouterr().err


def test_other_file_systems() -> None:
    store = ProfileStore("memory://profiles", "job")
    assert store.load() == Profile()
    assert store.join(one("f", 3))
    assert ProfileStore("memory://profiles/", "job").load() == one("f", 3)


def _join(directory: str, number: int) -> None:
    for size in range(5):
        ProfileStore(directory, "job").join(one(f"f{number}", 10 + size))


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=_join, args=(str(tmp_path), n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = ProfileStore(str(tmp_path), "job").load()
    assert sorted(found.functions) == ["f0", "f1", "f2"]
    assert all(f.inputs["x"].axes[0].common == [10, 11, 12, 13, 14] for f in found.functions.values())
    assert [p.name for p in tmp_path.iterdir()] == ["job.profile.json"]


def test_files_by_hand(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file of profiles"):
        profile_store.read(str(tmp_path / "none"))
    (tmp_path / "bad").write_text(json.dumps({"schema": 9}))
    with pytest.raises(OutputError, match="left as it is"):
        profile_store.merge_into(str(tmp_path / "bad"), one("f", 1))
