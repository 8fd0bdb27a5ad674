"""Programs that run while nothing can be written: full disks, and directories that cannot be made."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs_in_child import AUTO, environment, ours, start

# A scenario: what is done before, the dump directory, the cache directory, and the bytes no file may exceed (a quota,
# which needs no right to mount). The last one's directories are those of the flags of the process.
Scenario = tuple[str, Path, Path, int]
PROGRAM = """
import json, resource, shutil, sys, tensorflow as tf, tfxla_cluster
def once(first, dump, cache, limit):
    exec(first)
    tfxla_cluster.enable(xla_dump_to=dump, tf_xla_persistent_cache_directory=cache)
    tfxla_cluster.clear_cache()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    v = tf.Variable(tf.ones([5, 5]))
    f = tf.function(lambda x: tf.reduce_sum(tf.sin(x) * 2.0 + 1.0), jit_compile=True)
    @tf.function
    def g(x):
        y = tf.nn.softmax(tf.matmul(x, v) * 2.0 + 1.0)
        return tf.reduce_sum(tf.exp(y) * y)
    out = [float(h(x)) for n in (3, 4, 5) for h, x in ((f, tf.ones([n])), (g, tf.ones([n, 5])))]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return out
print(json.dumps([[once(*s) for s in json.loads(sys.stdin.read())], tfxla_cluster.stats()["executions"]]))
"""
WANT = [value for n in (3, 4, 5) for value in (n * (2 * math.sin(1) + 1), n * math.exp(0.2))]
NO_LIMIT = -1


def check(*scenarios: Scenario) -> list[str]:
    """One process runs all: it gives what it should. What this package said of the directories, sorted."""
    _, dump, cache, _ = scenarios[-1]
    flags = f"{AUTO} --xla_dump_to={dump} --tf_xla_persistent_cache_directory={cache}"
    with start(PROGRAM, flags) as child:
        text = json.dumps([[first, str(dump), str(cache), limit] for first, dump, cache, limit in scenarios])
        out, error = child.communicate(text, timeout=200)
    assert child.returncode == 0, error[-2000:]
    assert "Traceback" not in error, error[-2000:]
    results, executions = json.loads(out.splitlines()[-1])
    assert executions == len(WANT) * len(scenarios)
    for result in results:
        assert result == pytest.approx(WANT, rel=1e-5)
    for _, dump, cache, _ in scenarios:
        assert not list(dump.glob(".tmp.*")) + list(cache.glob(".*.tmp"))
    return sorted(line.partition("tfxla_cluster: ")[2] for line in ours(error))


def complaints(*bases: Path) -> list[str]:
    """How the lines begin that say that `dump` and `cache` below each of `bases` are not used."""
    return sorted(
        [f"cannot write the dump in {base}/dump: " for base in bases]
        + [f"the store {base}/cache cannot be " for base in bases]
    )


def same(said: list[str], begin: list[str]) -> bool:
    return len(said) == len(begin) and all(a.startswith(b) for a, b in zip(said, begin))


def report(dump: Path, out: Path) -> None:
    """The report of what is left in `dump` is written."""
    done = subprocess.run(
        [sys.executable, "-m", "tfxla_inspect", "report", str(dump), "-o", str(out)],
        env=environment(""),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a file system of a given size."""
    mounted: list[Path] = []

    def make(size: str) -> Path:
        path = tmp_path / "disk"
        path.mkdir()
        mount = shutil.which("mount")
        done = mount and subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done or done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip() if done else 'no mount command'}")
        mounted.append(path)
        return path

    yield make
    for path in mounted:
        subprocess.run(["umount", str(path)], check=True)


def test_a_disk_that_fills_and_a_later_run(small_disk: Callable[[str], Path], tmp_path: Path) -> None:
    disk = small_disk("200k")
    here = ("", disk / "dump", disk / "cache", NO_LIMIT)
    assert same(said := check(here), complaints(disk)), said
    report(disk / "dump", tmp_path / "out.html")
    for file in (disk / "dump").glob("module_0000.*.ll"):  # a little room: what is there is used, and it fills again
        file.unlink()
    assert same(said := check(here), complaints(disk)), said
    report(disk / "dump", tmp_path / "out.html")


def test_directories_that_take_nothing(tmp_path: Path) -> None:
    """One process: a quota; paths below a file, where root too can make nothing; directories that vanish."""
    quota, below, vanishing, good = (tmp_path / n for n in ("quota", "file", "vanishing", "good"))
    below.write_text("")
    for name in ("dump", "cache"):
        (vanishing / name).mkdir(parents=True)
    swap = "; ".join(f"shutil.rmtree({str(p)!r}); open({str(p)!r}, 'w').close()" for p in vanishing.iterdir())
    said = check(
        ("", quota / "dump", quota / "cache", 3000),
        ("", below / "dump", below / "cache", NO_LIMIT),
        (swap, vanishing / "dump", vanishing / "cache", NO_LIMIT),
        ("", good / "dump", good / "cache", NO_LIMIT),
    )
    assert same(said, complaints(quota, below, vanishing)), said
    report(quota / "dump", tmp_path / "out.html")
    report(good / "dump", tmp_path / "out.html")
    assert list((good / "cache").iterdir())
