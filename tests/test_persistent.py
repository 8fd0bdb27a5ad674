"""The executable cache on disk across processes: hits, damage, races, and programs killed at any moment."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs_in_child import AUTO, environment, ours, run, start
from tfxla_cluster.stored import entry, place
from tfxla_inspect import cli

PROGRAM = """
import json, os, tensorflow as tf, tfxla_cluster
f = tf.function(lambda x: tf.reduce_sum(tf.sin(x) * 2.0 + 1.0), jit_compile=True)
v = tf.Variable(tf.ones([5, 5]))
@tf.function
def g(x):
    y = tf.nn.softmax(tf.matmul(x, v) * 2.0 + 1.0)
    return tf.reduce_sum(tf.exp(y) * y)
out = [float(f(tf.ones([7]))), float(g(tf.ones([4, 5])))]
stats = tfxla_cluster.stats()
print(json.dumps({"out": out, **{k: stats[k] for k in
    ("compilations", "cache_hits", "cache_misses", "cache_hit_reasons", "cache_miss_reasons", "kernels",
     "native_kernels", "lowerings")}}))
"""


def flags(directory: Path, more: str = "") -> str:
    return f"{AUTO} --tf_xla_persistent_cache_directory={directory} {more}"


def result(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    directory = tmp_path_factory.mktemp("store")
    done = run(PROGRAM, flags(directory))
    assert not ours(done.stderr)
    return directory, result(done)


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*_executable_*.bin"))


def copy_of(directory: Path, to: Path) -> Path:
    shutil.copytree(directory, to)
    return to


def test_the_second_process_compiles_nothing(filled, tmp_path) -> None:
    directory, first = filled
    assert first["compilations"] == 2
    assert first["lowerings"] == 2
    assert len(entries(directory)) == 2
    # Other names for its functions: TensorFlow counts them.
    counted = "import tensorflow as tf\ntf.function(lambda x: x + 1)(tf.constant(1))\n"
    second = result(run(counted + PROGRAM, flags(copy_of(directory, tmp_path / "s"))))
    assert second["compilations"] == second["lowerings"] == 0
    assert second["out"] == first["out"]
    assert second["cache_hit_reasons"] == {"disk": 2}
    assert second["kernels"] == first["kernels"]
    assert second["native_kernels"] == first["native_kernels"] > 0


def _truncate(data: bytes, k: int) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes, k: int) -> bytes:
    return data[:-40] + bytes([data[-40] ^ 4]) + data[-39:]


def _rewritten(name: str, value: str) -> Callable[[bytes, int], bytes]:
    """The entry as written where the guard `name` was `value`, under the name of ours."""

    def spoil(data: bytes, k: int) -> bytes:
        written = entry.unpack(data)
        key = tuple(replace(g, wanted=value) if g.subject == name else g for g in written.key)
        assert key != written.key
        return entry.pack(key, written.sections)

    return spoil


def _with_plan(text: bytes) -> Callable[[bytes, int], bytes]:
    """The entry, whole, with another plan in it."""

    def spoil(data: bytes, k: int) -> bytes:
        written = entry.unpack(data)
        return entry.pack(written.key, {**written.sections, "plan.json": text})

    return spoil


def _without_code(data: bytes, k: int) -> bytes:
    written = entry.unpack(data)
    return entry.pack(written.key, {n: part for n, part in written.sections.items() if not n.startswith("object.")})


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ([_with_plan(b'{"format": 0}'), _with_plan(b"[]")], ("launch plan of format 0", "list indices must be")),
        ([_without_code] * 2, ("machine code has no symbol", "machine code has no symbol")),
        (
            [_rewritten("target", "Target('cpu', 'alpha')"), _rewritten("tfxla_cluster", "0.0.0")],
            ("written for another key", "written for another key"),
        ),
        ([_truncate, _flip], ("checksum differs", "checksum differs")),
        ([lambda data, k: b"", lambda data, k: b"GIF89a"], ("another format", "another format")),
    ],
)
def test_damaged_entries_are_misses_with_a_reason(filled, tmp_path, damage, reason) -> None:
    directory, first = filled
    broken = copy_of(directory, tmp_path / "s")
    for k, (path, spoil) in enumerate(zip(entries(broken), damage)):
        path.write_bytes(spoil(path.read_bytes(), k))
    done = run(PROGRAM, flags(broken))
    again = result(done)
    assert again["out"] == first["out"]
    assert again["compilations"] == 2
    assert "Traceback" not in done.stderr
    reasons = "; ".join(again["cache_miss_reasons"])
    assert all(text in reasons for text in reason), reasons
    assert entries(broken)[0].read_bytes()[:5] == b"TFXLA"


def test_a_miss_reads_no_other_entries(tmp_path) -> None:
    """Why it is one is looked for where somebody hears it."""
    unasked = "from tfxla_cluster.runtime.store import Store\nStore.explain_miss = None\n"
    assert result(run(unasked + PROGRAM, flags(tmp_path)))["compilations"] == 2


OTHER = """
import dataclasses
from tfxla_cluster import executable_key
from tfxla_cluster.runtime.cpu import host
executable_key.__version__, mine = "9.9", host.target()
host.target = lambda: dataclasses.replace(mine, arch="x86-64", features="", vector_bits=128)
"""


def test_another_cpu_and_version_compile_anew_and_say_why(filled, tmp_path) -> None:
    directory, first = filled
    shared, dump = copy_of(directory, tmp_path / "s"), tmp_path / "dump"
    done = run(OTHER + PROGRAM, flags(shared, f"--xla_dump_to={dump}"))
    again = result(done)
    assert again["out"] == pytest.approx(first["out"], rel=1e-6)
    assert not ours(done.stderr)
    assert again["compilations"] == 2
    assert again["cache_miss_reasons"] == {"not in the store": 2}
    assert len(entries(shared)) == 4  # the others' stay as they are
    records = [json.loads(line) for line in next(dump.glob("trace.*.jsonl")).read_text().splitlines()]
    first_reason = next(r["reason"] for r in records if r["kind"] == "cache" and r["cache"] == "disk")
    assert "target: was" in first_reason
    assert "is Target(backend='cpu', arch='x86-64'" in first_reason
    assert "tfxla_cluster: was" in first_reason
    assert "is 9.9" in first_reason


def test_read_only_directory_and_flag(filled, tmp_path) -> None:
    _, first = filled
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(PROGRAM, flags(empty, "--tf_xla_persistent_cache_read_only"))
    assert result(done)["out"] == first["out"]
    assert not list(empty.iterdir())
    assert not ours(done.stderr)
    file = tmp_path / "file"
    file.write_text("")
    done = run(PROGRAM, flags(file / "below"))
    assert result(done)["out"] == first["out"]
    assert len(ours(done.stderr)) == 1, done.stderr


def test_two_processes_at_once(filled, tmp_path) -> None:
    children = [start(PROGRAM, flags(tmp_path / "shared")) for _ in range(2)]
    outputs = [child.communicate(timeout=200) for child in children]
    assert [json.loads(out.splitlines()[-1])["out"] for out, _ in outputs] == [filled[1]["out"]] * 2
    assert not list((tmp_path / "shared").glob(".*.tmp"))
    assert len(entries(tmp_path / "shared")) == 2


def test_one_store_for_all_and_its_pack(filled, tmp_path) -> None:
    folder, pack = tmp_path / "kept", tmp_path / "kept.zip"
    first = result(run(PROGRAM, f"{AUTO} --tfxla_store={folder}", TFXLA_JOB_ID="job"))
    assert len(entries(folder)) == first["compilations"] == first["lowerings"] == 2
    assert [path.name for path in (folder / "profiles").iterdir()] == ["job.profile.json"]
    assert cli.main(["cache", str(folder), "--verify"]) == 0
    assert cli.main(["cache", str(folder), "--pack", str(pack)]) == 0
    for store in (folder, pack):
        done = run(PROGRAM, f"{AUTO} --tfxla_store={store}", TFXLA_JOB_ID="job")
        again = result(done)
        assert again["out"] == first["out"] == filled[1]["out"]
        assert again["compilations"] == again["lowerings"] == 0
        assert not ours(done.stderr)


SIZED = """
import json, tensorflow as tf, tfxla_cluster
f = tf.function(lambda x: tf.nn.softmax(x * 2.0) + 1.0, jit_compile=True)
out = [float(tf.reduce_sum(f(tf.ones([n, 3])))) for n in SIZES]
print(json.dumps({"out": out, "compilations": tfxla_cluster.stats()["compilations"]}))
"""


def test_a_pack_serves_profiles(tmp_path) -> None:
    """One without executables, that nothing else tells which sizes vary: the first module is for all."""
    folder, pack, job = tmp_path / "kept", tmp_path / "kept.zip", {"TFXLA_JOB_ID": "job"}
    assert result(run(SIZED.replace("SIZES", "(8, 16)"), f"--tfxla_store={folder}", **job))["compilations"] == 2
    profile = "profiles/job.profile.json"
    pack.write_bytes(packed := place.packed({profile: (folder / profile).read_bytes()}))
    for more, want in (("", 1), ("--tfxla_pgo=off", 2)):
        done = run(SIZED.replace("SIZES", "(24, 5)"), f"--tfxla_store={pack} {more}", **job)
        assert result(done)["compilations"] == want
        assert [line for line in ours(done.stderr) if "is a pack: it is read" not in line] == []
    assert pack.read_bytes() == packed


KILLED = """
from tfxla_cluster import compiler, flag_options, trace
from tfxla_cluster.backends import cpu
from tfxla_cluster.dump.sink import Sink
from tfxla_cluster.ir.text import parse
from tfxla_cluster.ir.guard import facts
from tfxla_cluster.runtime import persist, store
options = flag_options.compile_options()
print("ready", flush=True)
for n in range(100_000):
    text = f"HloModule m{n}\\nENTRY e {{\\n p = f32[{n + 5}] parameter(0)\\n ROOT r = f32[{n + 5}] sine(p)\\n}}\\n"
    dump = Sink(flag_options.dump_options()).module(f"m{n}")
    made = compiler.compile_module(parse(text), cpu.this_machine(), options, dump)
    trace.record("compile", module=f"m{n}", cluster=f"m{n}", what="must", hit="", phases=made.phases)
    sections = persist.to_sections(made.plan, made.code.objects)
    store.opened(options.store).put(facts({"hlo": n}), persist.KIND, sections)
"""


def _report(directory: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfxla_inspect", "report", str(directory), "-o", str(out)],
        env=environment(""),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_killed_at_any_moment(tmp_path) -> None:
    """15 kills while compiling, dumping and writing the cache into the same directories, then a whole run."""
    store, dump = tmp_path / "store", tmp_path / "dump"
    more = f"--xla_dump_to={dump} --tf_xla_min_cluster_size=2"
    moments = random.Random(7)
    for _ in range(3):
        children = [start(KILLED, flags(store, more)) for _ in range(5)]
        for child in children:
            assert child.stdout.readline() == "ready\n", child.stderr.read()[-2000:]
        for child in children:
            time.sleep(moments.uniform(0.0, 0.4))
            child.kill()
            child.communicate()
    assert list(dump.iterdir())
    assert list(store.iterdir())
    done = _report(dump, tmp_path / "killed.html")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "killed.html").stat().st_size > 1000
    after = run(PROGRAM, flags(store, more))
    assert result(after)["out"]
    assert not [line for line in ours(after.stderr) if "WARNING" not in line], after.stderr
    assert _report(dump, tmp_path / "after.html").returncode == 0
