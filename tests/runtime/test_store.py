"""The plan's JSON, the executable cache, and the store on disk under every kind of damage."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tfxla_cluster.codegen.llvm.object_code import compile_kernels, object_files
from tfxla_cluster.errors import InputFileError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.guard import Guard, divisible, facts, in_range
from tfxla_cluster.ir.text import parse
from tfxla_cluster.options import StoreOptions
from tfxla_cluster.runtime import persist, plan_json
from tfxla_cluster.runtime.cache import Cache, Key
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.runtime.cpu.executable import Executable
from tfxla_cluster.runtime.kept_sections import KeptSections
from tfxla_cluster.runtime.plan import (
    BranchStep,
    CopyStep,
    LaunchPlan,
    LibraryStep,
    LoopStep,
    Ref,
    SizeSource,
    SizeStep,
    TfOpStep,
)
from tfxla_cluster.runtime.store import Store
from tfxla_cluster.stored import rest
from tfxla_cluster.stored.entry import MAGIC, pack

from .compile_text import plan_of
from .hand import HandCode, kernel, sum_plan, vector
from .test_planner import STRAIGHT

N = dims.sym("n", 100)
EVERY_STEP = LaunchPlan(
    "every",
    (vector(N),),
    (vector(dims.bounded("k", 9)), vector(N * 2 + 1)),
    (SizeSource("n", 0, 0), SizeSource("k", bound=9)),
    (
        kernel("add", [Ref("input", 0)], [Ref("temp", 0, N * 4)], N // 2, dims.make("max", N, 3), N % 7),
        LibraryStep("lib", (Ref("const", 0),), (Ref("output", 1),), (N,), "l"),
        TfOpStep("CollectiveReduce", (("group", 3), ("name", "x")), (Ref("input", 0),), (Ref("output", 0),)),
        CopyStep(Ref("const", 1), Ref("temp"), dims.make("min", N, 8)),
        SizeStep("k", Ref("temp", 0, 64)),
        BranchStep(Ref("temp"), True, ((CopyStep(Ref("input"), Ref("output"), 4),), ())),
        LoopStep((), Ref("temp"), (CopyStep(Ref("input"), Ref("output"), 4),)),
    ),
    (b"\x00\xff", b""),
    N * 8 + 64,
    ((1, 0),),
    (Guard("rank", 0, 1), in_range((0, 0), 1, 99), divisible((0, 0), 4), Guard("same", (1, 0), (0, 0))),
)


def test_a_plan_survives_json() -> None:
    assert plan_json.loads(plan_json.dumps(EVERY_STEP)) == EVERY_STEP
    sections = persist.to_sections(EVERY_STEP, [b"obj"])
    assert persist.from_sections(sections) == (EVERY_STEP, [b"obj"])


_BAD_OPERATION = plan_json.dumps(EVERY_STEP).replace('"mul"', '"pow"')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', _BAD_OPERATION])
def test_a_text_that_is_no_plan(text: str) -> None:
    with pytest.raises(InputFileError):
        plan_json.loads(text)


_PLAN = plan_json.to_data(EVERY_STEP)


@pytest.mark.parametrize(
    "data", [None, [], {}, {**_PLAN, "format": -1}, {**_PLAN, "steps": 5}, {**_PLAN, "steps": [[1]]}]
)
def test_sections_that_are_no_executable(data: object) -> None:
    sections = persist.to_sections(EVERY_STEP, [b"obj"])
    for plan in ({"plan.json": json.dumps(data).encode()}, {"plan.json": b"{"}, {"constant.0": b"too long"}):
        with pytest.raises(InputFileError):
            persist.from_sections({**sections, **plan})
    del sections["plan.json"]
    with pytest.raises(InputFileError):
        persist.from_sections(sections)


def test_a_plan_from_json_runs() -> None:
    plan = plan_json.loads(plan_json.dumps(sum_plan(3, 5)))
    a = np.arange(15, dtype=np.float32)
    np.testing.assert_array_equal(Executable(plan, HandCode()).run([a, a])[0], (a + a) * a)


# --- the cache in memory ---
def guards(**changes: object) -> Key:
    return facts({"module": "m", "shape": "f32[3]", "target": "znver3", **changes})


def test_cache_evicts_the_least_recently_used() -> None:
    gone: list[object] = []
    cache: Cache[int] = Cache(2, lambda k, v: gone.append(v))
    cache.put(guards(shape="1"), 1)
    cache.put(guards(shape="2"), 2)
    assert cache.get(guards(shape="1")) == 1
    cache.put(guards(shape="3"), 3)
    assert gone == [2]
    assert cache.get(guards(shape="2")) is None
    assert cache.put(guards(shape="3"), 33) == 3  # the first stays
    assert cache.clear() == 2
    assert len(cache) == 0
    assert sorted(gone) == [1, 2, 3]


def test_cache_explains_a_miss() -> None:
    cache: Cache[int] = Cache(8)
    assert cache.explain_miss(guards()) == ["nothing is in the cache yet"]
    cache.put(guards(shape="f32[9]", target="other"), 1)
    cache.put(guards(), 2)
    assert cache.explain_miss(guards(shape="f32[4]")) == ["shape: was f32[3], is f32[4]"]
    assert cache.explain_miss(guards()[:2]) == ["target: was znver3, is absent"]


# --- sections in memory and in the store ---
def test_sections_in_memory_and_in_the_store(tmp_path: Path) -> None:
    options = StoreOptions(str(tmp_path))
    first, other = KeptSections("lowered"), KeptSections("lowered")
    assert first.get(guards(), options) is None
    first.put(guards(), options, SECTIONS)
    assert first.get(guards(), None) == SECTIONS  # in memory
    assert other.get(guards(), None) is None
    assert other.get(guards(), options) == SECTIONS
    assert KeptSections("executable").get(guards(), options) is None
    for entry in tmp_path.iterdir():
        entry.write_bytes(entry.read_bytes()[:-1])
    assert other.get(guards(), options) == SECTIONS
    other.clear()
    assert other.get(guards(), options) is None


def test_large_sections_are_in_the_store_alone(tmp_path: Path) -> None:
    kept, large = KeptSections("lowered"), {"proto": bytes(5 << 20)}
    kept.put(guards(), None, large)
    assert kept.get(guards(), None) is None
    kept.put(guards(), StoreOptions(str(tmp_path)), large)
    assert kept.get(guards(), StoreOptions(str(tmp_path))) == large


# --- the store on disk ---
SECTIONS = {"a": b"123", "b": b"", "c": os.urandom(1000)}


def test_store_round_trip_and_miss(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"))
    assert store.get(guards(), "x").reason == "not in the store"
    assert store.put(guards(), "x", SECTIONS)
    assert store.get(guards(), "x").sections == SECTIONS
    assert store.get(guards(target="skylake"), "x").sections is None
    assert store.explain_miss(guards(target="skylake"), "x") == ["target: was znver3, is skylake"]
    assert store.clear() == 1
    assert store.get(guards(), "x").sections is None


def _damage(data: bytes) -> dict[str, bytes]:
    other = pack(guards(shape="else"), SECTIONS)
    return {
        "empty": b"",
        "cut": data[:-1],
        "cut early": data[:5],
        "no header": data[: len(MAGIC) + 3],
        "flipped": data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        "another key": other,
        "version": data.replace(b"STORE-2", b"STORE-1"),
        "header": data[:60] + b"}" + data[61:],
        "noise": os.urandom(300),
        "longer": data + b"x",
    }


@pytest.mark.parametrize("kind", list(_damage(pack(guards(), SECTIONS))))
def test_a_damaged_entry_is_a_miss_with_a_reason(tmp_path: Path, kind: str) -> None:
    store = Store(str(tmp_path))
    store.put(guards(), "x", SECTIONS)
    Path(store.path(guards(), "x")).write_bytes(_damage(pack(guards(), SECTIONS))[kind])
    found = store.get(guards(), "x")
    assert found.sections is None
    assert "unusable" in found.reason
    store.explain_miss(guards(), "x")
    assert store.put(guards(), "x", SECTIONS)
    assert store.get(guards(), "x").sections == SECTIONS


def test_an_unwritable_store_says_so_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = Store(str(tmp_path / "file" / "s"))
    assert not store.put(guards(), "x", SECTIONS)
    assert not store.put(guards(), "x", SECTIONS)
    assert store.get(guards(), "x").sections is None
    assert capfd.readouterr().err.count("cannot be written") == 1


def test_read_only(tmp_path: Path) -> None:
    Store(str(tmp_path)).put(guards(), "x", SECTIONS)
    store = Store(str(tmp_path), read_only=True)
    assert store.get(guards(), "x").sections == SECTIONS
    assert not store.put(guards(shape="new"), "x", SECTIONS)


# --- the store at a URL ---
def test_a_url(capfd: pytest.CaptureFixture[str]) -> None:
    url = f"memory://test_store/{os.getpid()}/a"
    store = Store(url, "one")
    assert store.get(guards(), "x").reason == "not in the store"
    assert store.put(guards(), "x", SECTIONS)
    assert Store(url, "one").get(guards(), "x").sections == SECTIONS
    assert Store(url, "other").get(guards(), "x").sections is None
    assert store.explain_miss(guards(target="skylake"), "x") == ["target: was znver3, is skylake"]
    assert not Store(url, "one", read_only=True).put(guards(shape="new"), "x", SECTIONS)
    assert store.clear() == 1
    assert store.get(guards(), "x").sections is None
    assert not capfd.readouterr().err


class Broken(MemoryFileSystem):  # type: ignore[misc]
    """A network that is down."""

    protocol = "broken"
    asked = 0

    def cat_file(self, path: str, **kwargs: object) -> bytes:
        Broken.asked += 1
        raise ConnectionError("no route to host")

    def pipe_file(self, path: str, value: bytes, **kwargs: object) -> None:
        Broken.asked += 1
        raise PermissionError("Access Denied")


def test_a_store_that_cannot_be_reached_is_said_once_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fsspec.register_implementation("broken", Broken, clobber=True)
    now = [0.0]
    monkeypatch.setattr(rest.time, "monotonic", lambda: now[0])
    store = Store(f"broken://{os.getpid()}/s")
    assert "no route to host" in store.get(guards(), "x").reason
    for _ in range(3):
        assert store.get(guards(), "x").sections is None
        assert not store.put(guards(), "x", SECTIONS)
        assert store.explain_miss(guards(), "x") == []
    assert Broken.asked == 1
    now[0] += 61
    assert not store.put(guards(), "x", SECTIONS)
    assert Broken.asked == 2
    assert capfd.readouterr().err.count("going on without it") == 1
    rest.clear()


def test_what_lies_on_one_server_rests_together() -> None:
    """Also where a URL is chained to it; what may not be written is read on; a disk never rests."""
    rest.failed("s3://bucket/a/executables", writing=True)
    assert rest.rests("s3://bucket/a/profiles/job", writing=True)
    assert not rest.rests("s3://bucket/a/profiles/job")
    rest.failed("simplecache::s3://bucket/a")
    assert rest.rests("s3://bucket/b")
    assert not rest.rests("s3://other/b", writing=True)
    assert not rest.rests("gs://bucket/b")
    rest.failed("/disk/a")
    assert not rest.rests("/disk/a")
    rest.clear()
    assert not rest.rests("s3://bucket/b", writing=True)


@pytest.mark.parametrize("url", ["nosuchprotocol://bucket/x", "/no/such/pack.zip"])
def test_a_store_that_cannot_be(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert Store(url).get(guards(), "x").sections is None
        Store(url).explain_miss(guards(), "x")
        assert not Store(url).put(guards(), "x", SECTIONS)
    assert capfd.readouterr().err.count("cannot be read") == 1
    rest.clear()


def _write_many(directory: str) -> None:
    for n in range(60):
        Store(directory).put(guards(shape=n % 5), "x", {"n": bytes([n % 5]) * 100_000})


def test_two_processes_write_and_a_third_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(str(tmp_path),)) for _ in range(3)]
    for writer in writers:
        writer.start()
    store, seen = Store(str(tmp_path)), 0
    while any(w.is_alive() for w in writers[:2]):
        for n in range(5):
            found = store.get(guards(shape=n), "x")
            assert found.sections is not None or found.reason == "not in the store"
            seen += found.sections is not None
        writers[2].kill()
    for writer in writers:
        writer.join()
    assert all(store.get(guards(shape=n), "x").sections == {"n": bytes([n]) * 100_000} for n in range(5))


_LOAD = """
import sys, numpy as np
from tfxla_cluster.codegen.llvm.loader import Library
from tfxla_cluster.runtime import persist
from tfxla_cluster.runtime.cpu import host
from tfxla_cluster.ir.guard import facts
from tfxla_cluster.runtime.cpu.executable import Executable
from tfxla_cluster.runtime.store import Store
plan, objects = persist.from_sections(Store(sys.argv[1]).get(facts({"m": 1}), persist.KIND).sections)
x, y, z = np.random.default_rng(0).normal(size=(3, 100, 37)).astype(np.float32)
(out,) = Executable(plan, Library(objects, host.target())).run([x, y, z])
np.testing.assert_allclose(out, (x + y * z).sum(1), rtol=1e-4, atol=1e-5)
"""


def test_an_executable_runs_in_another_process(tmp_path: Path) -> None:
    """From object code and plan alone: nothing is generated again."""
    planned, kernels = plan_of(parse(STRAIGHT))
    codes = compile_kernels([(k, s) for s, k in kernels.items()], host.target())
    sections = persist.to_sections(planned.plan, object_files(codes))
    assert Store(str(tmp_path)).put(facts({"m": 1}), persist.KIND, sections)
    subprocess.run([sys.executable, "-c", _LOAD, str(tmp_path)], check=True, timeout=60, cwd=Path(__file__).parents[2])


_START = """
import os, sys
from tfxla_cluster.runtime.cpu import native
from tfxla_cluster.runtime.store import Store
if sys.argv[2] == "warm":
    native._compile = None  # must come from the store
native.runtime(store=Store(sys.argv[1]))
"""


def test_the_runtime_itself_is_stored(tmp_path: Path) -> None:
    for state in ("cold", "warm"):
        subprocess.run(
            [sys.executable, "-c", _START, str(tmp_path), state], check=True, timeout=60, cwd=Path(__file__).parents[2]
        )
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    subprocess.run(
        [sys.executable, "-c", _START, str(tmp_path), "cold"], check=True, timeout=60, cwd=Path(__file__).parents[2]
    )
