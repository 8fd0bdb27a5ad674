"""`tfxla-inspect pgo`: what it shows of profiles, merges, compares, clears."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tfxla_cluster.profiles import store as profile_store
from tfxla_cluster.profiles.profile import FunctionProfile, Profile
from tfxla_inspect import cli


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    first = FunctionProfile()
    for batch in (32, 32, 17):
        first = first.called({"x": [batch, 8]}, {"n": 3})
    second = FunctionProfile(limits=frozenset({"recompile_limit"})).called({"x": [32, 9]}, {"n": 4})
    paths = tmp_path / "a.profile.json", tmp_path / "b.profile.json"
    profile_store.merge_into(str(paths[0]), Profile({"train_step": first, "eval": first}))
    profile_store.merge_into(str(paths[1]), Profile({"train_step": second}))
    return paths


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = cli.main(["pgo", *map(str, words)])
    return code, "".join(capsys.readouterr())


def test_shows(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *files)
    assert code == 0
    assert "x: [?, 8]; axis 0: 32 (2x), 17 (1x)" in out
    assert "n: number 3\n" in out
    assert "train_step  reached: recompile_limit\n    x: [32, 9]" in out


def test_merges_and_prints_the_flag(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, *files, "--merge", tmp_path / "m")
    assert (code, out.splitlines()[-1]) == (0, f"{tmp_path / 'm'}: 2 functions")
    assert run(capsys, tmp_path / "m", "--sources") == (0, "--tfxla_dynamic_sources=x:0,x:1\n")
    assert run(capsys, files[0], "--sources") == (0, "--tfxla_dynamic_sources=x:0\n")


def test_a_directory_is_all_profiles_in_it(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pack of a store too, whose profiles lie in a folder of their own."""
    assert run(capsys, tmp_path)[1] == run(capsys, *files)[1]
    with zipfile.ZipFile(tmp_path / "kept.zip", "w") as pack:
        for file in files:
            pack.write(file, f"profiles/{file.name}")
    code, out = run(capsys, tmp_path / "kept.zip")
    assert code == 0
    assert out == run(capsys, *files)[1].replace(f"{tmp_path}/", f"{tmp_path}/kept.zip/profiles/")
    (tmp_path / "empty").mkdir()
    assert run(capsys, tmp_path / "empty") == (3, f"tfxla-inspect: {tmp_path / 'empty'}: there are no profiles in it\n")


def test_compares(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *files, "--diff")
    assert code == 1
    assert "eval (in one of them)\n  - x: [?, 8]" in out
    assert (
        "train_step\n  - x: [?, 8]; axis 0: 32 (2x), 17 (1x)\n  - n: number 3\n  + x: [32, 9]\n  + n: number 4" in out
    )
    assert run(capsys, files[0], files[0], "--diff") == (0, "they say the same\n")


def test_clears(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, files[0], "--clear", "ev")
    assert (code, out) == (0, f"{files[0]}: 1 function forgotten, 1 left\n")
    assert list(profile_store.read(str(files[0])).functions) == ["train_step"]
    run(capsys, files[0], "--clear")
    assert run(capsys, files[0])[1].endswith("no functions\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["{tmp}/none"], 3, "no such file of profiles"),
        (["{tmp}/bad"], 3, "not a profile"),
        (["{a}", "--diff"], 2, "--diff compares two files, not 1"),
        (["{a}", "--merge", "{tmp}/bad"], 6, "it is left as it is"),
    ],
)
def test_wrong_use(
    words: list[str], code: int, said: str, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").write_text("{}")
    got, out = run(capsys, *(w.format(tmp=tmp_path, a=files[0]) for w in words))
    assert (got, said in out) == (code, True), out
