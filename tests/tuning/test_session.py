"""Choices from results: hits, misses and their reasons, tuning of each fusion once, a mode in which a miss fails."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfxla_cluster import compiler, flag_options, flags
from tfxla_cluster.backends import cpu
from tfxla_cluster.backends.backend import Backend, Launcher
from tfxla_cluster.codegen.kernel.choice import UNTUNED, Choice, Chosen
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.errors import FlagError, TuningError
from tfxla_cluster.ir import guard, text
from tfxla_cluster.ir.node import Module
from tfxla_cluster.options import CompileOptions, DumpOptions, TuningOptions
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.store import Store
from tfxla_cluster.stored import place
from tfxla_cluster.tuning import session
from tfxla_cluster.tuning.keys import TunedKeys
from tfxla_cluster.tuning.persisted import files, results
from tfxla_cluster.tuning.persisted.results import VERSION, Entry, Results
from tfxla_cluster.tuning.tables import Tables
from tfxla_cluster.tuning.tuner import Budget, Tuner

# Two fusions that are the same but for their names, a third of another size, and a sort, which has one form.
SOURCE = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[300,40] parameter(0)
  y = f32[300,40] parameter(1)
  v = f32[70] parameter(2)
  s = f32[70] sort(v), dimensions={0}, to_apply=less
  a = f32[300,40] tanh(x)
  t = f32[40,300] transpose(a), dimensions={1,0}
  b = f32[300,40] tanh(y)
  u = f32[40,300] transpose(b), dimensions={1,0}
  w = f32[70] negate(v)
  ROOT r = (f32[40,300], f32[40,300], f32[70], f32[70]) tuple(t, u, w, s) }
"""
USE = TuningOptions(use=True, progress=False)
TUNE = replace(USE, tune=True)


def module() -> Module:
    return text.parse(SOURCE)


def compiled(options: TuningOptions, tables: Tables) -> compiler.Compiled[cpu.Executable]:
    backend = cpu.this_machine()
    chosen = session.choices(backend, CompileOptions(fusion=False), options, tables)
    return compiler.compile_module(module(), backend, CompileOptions(fusion=False), choices=chosen)


def by_name(made: compiler.Compiled[cpu.Executable]) -> dict[str, Chosen]:
    return {instr.name: chosen for instr, chosen in made.chosen.items()}


def tuned_file(tmp_path: Path) -> str:
    """A file with all results, but as if every knob's last value had won: so that a hit can be told."""
    tables, path = Tables(), str(tmp_path / "results.txt")
    options = replace(TUNE, dump=path)
    compiled(options, tables)
    tables.dump(options)
    made = [replace(e, choice=max((m.choice for m in e.measured), key=repr)) for e in files.read(path).values()]
    files.write(path, results.of(made))
    return path


def test_identical_fusions_are_tuned_once_and_all_is_kept(tmp_path: Path) -> None:
    tables, path = Tables(), str(tmp_path / "r.txt")
    options = replace(TUNE, dump=path)
    made = compiled(options, tables)
    tables.dump(options)
    found, kept = by_name(made), files.read(path)
    assert {name: c.source for name, c in found.items()} == {
        **dict.fromkeys(("a", "b", "t", "u", "w"), "tuned"),
        "s": "default",
    }
    assert found["a"] is found["b"]
    assert found["s"].reason == "it has one form"
    assert {key.hlo for key in kept} == {c.fingerprint for c in found.values() if c.fingerprint}
    assert len(kept) == 3
    assert all(e.made_by.startswith("tfxla_cluster ") and len(e.measured) > 1 for e in kept.values())
    assert all(key.version == VERSION and key.device.startswith("CPU: ") for key in kept)


def test_threads_tune_one_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, tuned = Tables(), list[str]()
    inner = session.tune

    def counted(*args: object) -> Entry:
        tuned.append(args[3].name)  # type: ignore[attr-defined]
        return inner(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "tune", counted)
    with ThreadPoolExecutor(4) as pool:
        found = [by_name(made) for made in pool.map(lambda _: compiled(TUNE, tables), range(4))]
    assert len(tuned) == 3
    assert all({n: c.choice for n, c in one.items()} == {n: c.choice for n, c in found[0].items()} for one in found)


def test_a_full_file_is_used_and_nothing_is_tuned(tmp_path: Path) -> None:
    """And two runs with it are the same to the last bit."""
    path = tuned_file(tmp_path)
    options = replace(TUNE, load=path, require=True)
    args = [np.random.default_rng(n).normal(size=s).astype(np.float32) for n, s in enumerate([(300, 40)] * 2 + [(70,)])]
    runs = []
    for _ in range(2):
        tables = Tables()
        made = compiled(options, tables)
        assert {c.source for n, c in by_name(made).items() if n != "s"} == {"file"}
        assert by_name(made)["t"].choice == Choice({"tile": 64})
        assert tables.empty
        runs.append(b"".join(a.tobytes() for a in made.executable.run(args)))
    assert runs[0] == runs[1]


def test_what_the_file_has_is_used_and_the_rest_tuned(tmp_path: Path) -> None:
    path = tuned_file(tmp_path)
    kept = files.read(path)
    files.write(path, Results({k: e for k, e in kept.items() if "transpose" in k.hlo}))
    tables, options = Tables(), replace(TUNE, load=path, dump=path)
    found = by_name(compiled(options, tables))
    assert {n: c.source for n, c in found.items() if n != "s"} == {
        "a": "tuned",
        "b": "tuned",
        "t": "file",
        "u": "file",
        "w": "tuned",
    }
    tables.dump(options)
    assert files.read(path).keys() == kept.keys()


def test_without_tuning_a_miss_is_the_default_and_says_why(tmp_path: Path) -> None:
    path = tuned_file(tmp_path)
    kept = files.read(path)
    changes = {
        "transpose": lambda k: replace(k, device="CPU: another"),
        "[70]": lambda k: replace(k, version=VERSION + 1),
    }
    made = []
    for key, entry in kept.items():
        change = next((c for word, c in changes.items() if word in key.hlo), None)
        if change is not None:
            made.append(replace(entry, key=change(key), raw=b""))
    files.write(path, results.of(made))
    found = by_name(compiled(replace(USE, load=path), Tables()))
    assert {c.source for c in found.values()} == {"default"}
    assert found["t"].reason == f"the result in {path} was made on another device (CPU: another)"
    assert found["w"].reason == f"the result in {path} was made by version [{VERSION + 1}], this is {VERSION}"
    assert found["a"].reason == f"not in {path}"


def test_xlas_entry_of_the_same_key_is_a_miss(tmp_path: Path) -> None:
    path = tuned_file(tmp_path)
    files.write(path, results.of(Entry(key) for key in files.read(path)))
    found = by_name(compiled(replace(USE, load=path), Tables()))
    assert found["t"].reason == f"the entry in {path} was made by another program"


def test_an_invalid_entry_is_a_miss_that_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tuned_file(tmp_path)
    kept = files.read(path)
    bad = [replace(e, choice=Choice({"tile": 17})) for k, e in kept.items() if "transpose" in k.hlo]
    files.write(path, kept | results.of(bad))
    found = by_name(compiled(replace(USE, load=path), Tables()))
    assert found["t"].source == "default"
    assert "tile=17 is not one of the values that are offered" in found["t"].reason
    assert found["a"].source == "file"
    assert capfd.readouterr().err.count("the stored choice tile=17") == 1
    assert by_name(compiled(replace(TUNE, load=path), Tables()))["t"].source == "tuned"
    with pytest.raises(TuningError, match=r"t has no autotuning result in .* \(the stored choice tile=17 is not"):
        compiled(replace(USE, load=path, require=True), Tables())


def test_the_mode_that_fails_on_a_miss_names_the_fusion(tmp_path: Path) -> None:
    path = tuned_file(tmp_path)
    kept = files.read(path)
    files.write(path, Results({k: e for k, e in kept.items() if "[70]" not in k.hlo}))
    with pytest.raises(TuningError) as error:
        compiled(replace(USE, load=path, require=True), Tables())
    assert "w has no autotuning result" in str(error.value)
    assert "f32[70]{0} negate(tmp_0)" in str(error.value)
    assert path in str(error.value)
    with pytest.raises(TuningError, match="it was not tuned"):
        compiled(replace(USE, require=True), Tables())


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(TuningError, match=r"/no/such\.txt: there is no such file"):
        compiled(replace(USE, load="/no/such.txt"), Tables())
    with pytest.raises(TuningError, match="TEST_WORKSPACE, which is not set"):
        Tables().check(replace(USE, load="TEST_WORKSPACE/r.txt"))
    Tables().check(TuningOptions(load="/no/such.txt"))


def test_a_directory_with_a_file_a_fusion(tmp_path: Path) -> None:
    options = replace(TUNE, directory=str(tmp_path / "d"))
    first = by_name(compiled(options, Tables()))
    second = by_name(compiled(replace(options, tune=False, directory_read_only=True), Tables()))
    assert len(list((tmp_path / "d").glob("*.textproto"))) == 3
    assert {n: c.choice for n, c in first.items()} == {n: c.choice for n, c in second.items()}
    assert {c.source for n, c in second.items() if n != "s"} == {"file"}


def test_an_overlay_comes_first_and_the_innermost_of_two() -> None:
    tables = Tables()
    compiled(TUNE, tables)
    key = next(k for k in tables.known() if "transpose" in k.hlo)
    one, two = (Results({key: Entry(key, Choice({"tile": n}))}) for n in (16, 32))
    with tables.overlaid(one):
        assert by_name(compiled(USE, tables))["t"].choice == Choice({"tile": 16})
        with tables.overlaid(two):
            assert by_name(compiled(USE, tables))["t"] == replace(
                by_name(compiled(USE, tables))["t"], choice=Choice({"tile": 32}), source="given"
            )
    assert by_name(compiled(USE, tables))["t"].source == "tuned"


def test_level_0_neither_uses_nor_makes_results(tmp_path: Path) -> None:
    path = tuned_file(tmp_path)
    made = tmp_path / "made.txt"
    wanted = {"xla_gpu_load_autotune_results_from": path, "xla_gpu_dump_autotune_results_to": str(made)}
    with flags.patch(xla_gpu_autotune_level=0, tfxla_autotune="on", **wanted):
        options = flag_options.tuning_options()
    tables = Tables()
    assert session.choices(cpu.this_machine(), CompileOptions(), options, tables) is UNTUNED
    tables.dump(options)
    assert not made.exists()


@pytest.mark.parametrize(
    ("given", "tunes"),
    [
        ({}, False),
        ({"xla_gpu_dump_autotune_results_to": "x"}, True),
        ({"xla_gpu_per_fusion_autotune_cache_dir": "x"}, True),
        ({"xla_gpu_per_fusion_autotune_cache_dir": "x", "xla_gpu_experimental_autotune_cache_mode": "READ"}, False),
        ({"xla_gpu_load_autotune_results_from": "x"}, False),
        ({"tfxla_autotune": "on"}, True),
        ({"tfxla_autotune": "off", "xla_gpu_dump_autotune_results_to": "x"}, False),
        ({"tfxla_autotune": "on", "xla_gpu_autotune_level": 0}, False),
    ],
)
def test_what_flags_ask_for(given: dict[str, object], tunes: bool) -> None:
    with flags.patch(**given):
        assert flag_options.tuning_options().tune == tunes
    with pytest.raises(FlagError):
        flags.parse("--xla_gpu_autotune_level=5")


def test_nothing_tuned_gives_an_empty_file_and_a_bad_place_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tables = Tables()
    tables.dump(replace(USE, dump=str(tmp_path / "empty.txt")))
    assert len(files.read(str(tmp_path / "empty.txt"))) == 0
    tables.dump(replace(USE, dump=str(tmp_path / "empty.txt" / "r.txt")))
    assert "cannot be written" in capfd.readouterr().err


def test_a_spent_budget_is_said_once(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "_SPENT", session.Budget(used=10.0))
    found = by_name(compiled(replace(TUNE, budget_s=5.0), Tables()))
    assert {c.source for c in found.values()} == {"default"}
    assert found["t"].reason == "the 5 s that tuning may take are spent"
    assert capfd.readouterr().err.count("are spent") <= 1


def test_the_dump_says_of_each_kernel_what_form_it_has(tmp_path: Path) -> None:
    dump = Sink(DumpOptions(str(tmp_path))).module("m")
    compiler.compile_module(module(), cpu.this_machine(), CompileOptions(fusion=False), dump)
    rows = json.loads((tmp_path / "module_0000.m.kernels.json").read_text())
    assert {(r["tuning"], r["tuning_reason"]) for r in rows} == {("default", "tuning is off")}


# --- keys of executables ---
def test_choices_are_part_of_an_executables_key(tmp_path: Path) -> None:
    backend, compiling = cpu.this_machine(), CompileOptions(fusion=False)
    base, store = guard.facts({"hlo": "x"}), Store(str(tmp_path / "store"))
    tables = Tables()
    keys = TunedKeys()
    assert keys.key(base, UNTUNED, store) == base
    tuning = session.choices(backend, compiling, TUNE, tables)
    assert keys.key(base, tuning, store) is None
    made = compiler.compile_module(module(), backend, compiling, choices=tuning)
    learnt = keys.learn(base, tuning, made.chosen.values(), store)
    assert learnt[:-1] == base
    again = session.choices(backend, compiling, TUNE, tables)
    assert keys.key(base, again, None) == learnt
    assert TunedKeys().key(base, again, store) == learnt  # another process
    assert TunedKeys().key(base, again, None) is None
    key = next(k for k in tables.known() if "transpose" in k.hlo)
    tuned = tables.known()[key]
    for choice in (m.choice for m in tuned.measured):
        with tables.overlaid(Results({key: Entry(key, choice)})):
            found = keys.key(base, session.choices(backend, compiling, USE, tables), store)
        assert (found == learnt) == (choice == tuned.choice)
    assert keys.key(base, session.choices(backend, compiling, TUNE, Tables()), store) is None  # nothing is tuned there
    nothing = replace(USE, directory=str(tmp_path / "none"))
    assert keys.key(base, session.choices(backend, compiling, nothing, Tables()), store) == base


def test_a_module_without_kernels_to_tune_is_known_where_no_store_keeps_it() -> None:
    """Nothing was chosen: it is not compiled anew at each trace."""
    base, keys = guard.facts({"hlo": "x"}), TunedKeys()
    tuning = session.choices(cpu.this_machine(), CompileOptions(), TUNE, Tables())
    assert keys.key(base, tuning, None) is None
    assert keys.learn(base, tuning, [], None) == keys.key(base, tuning, None) == base


def test_a_pack_without_results_leaves_all_untuned(tmp_path: Path) -> None:
    """What it has was made without any: it is found, not compiled each time."""
    for name, known in (("tuning/a.textproto", False), ("a.bin", True), ("tuning.bin", True)):
        (pack := tmp_path / "kept.zip").write_bytes(place.packed({name: b""}))
        for inside in ("tuning", "tuning/"):
            options = replace(USE, directory=f"{pack}/{inside}", directory_read_only=True)
            found = session.choices(cpu.this_machine(), CompileOptions(), options, Tables())
            assert (found is UNTUNED) == known
    missing = replace(USE, directory=f"{tmp_path}/none.zip/tuning", directory_read_only=True)
    assert session.choices(cpu.this_machine(), CompileOptions(), missing, Tables()) is not UNTUNED


@pytest.mark.parametrize(("asked", "expected"), [(0, 5), (3, 3)])
def test_as_many_candidates_compile_at_once_as_the_process_may(
    asked: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default --tfxla_compile_threads is 0, which is no number of workers."""
    made: list[int] = []
    tuner = session.Tuner

    def counting(backend: Backend[Launcher], compiling: CompileOptions, workers: int, budget: Budget) -> Tuner:
        made.append(workers)
        return tuner(backend, compiling, workers, budget)

    monkeypatch.setattr(session, "Tuner", counting)
    monkeypatch.setattr(host, "usable_cores", lambda: 5)
    with flags.patch(tfxla_autotune="on", tfxla_compile_threads=asked):
        compiled(flag_options.tuning_options(), Tables())
    assert set(made) == {expected}
