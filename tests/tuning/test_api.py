"""`tfxla_cluster.autotune`: the result object, what it changes, and files of it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuning.test_persisted import entry
from tfxla_cluster.errors import InputFileError, UsageError
from tfxla_cluster.tuning import session
from tfxla_cluster.tuning.api import AutotuningResult
from tfxla_cluster.tuning.persisted.results import of

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import glob, json, sys
import numpy as np
import tensorflow as tf
import tfxla_cluster
from tfxla_cluster.tuning.tables import PROCESS

x = tf.random.normal([300, 200])
f = lambda x: tf.transpose(tf.tanh(x)) * 2.0
g = lambda x: tf.transpose(tf.tanh(x)) * 2.0

found = tfxla_cluster.autotune(f, x, progress_bar=False)
same = tfxla_cluster.autotune(g, x, progress_bar=False)
again = tfxla_cluster.autotune(f, x, progress_bar=False, ignore_cache=True)
other = tfxla_cluster.autotune(lambda x: tf.reduce_sum(x, 1), x, progress_bar=False)
both = found | other
both.save(sys.argv[1])
loaded = tfxla_cluster.AutotuningResult.load(sys.argv[1])

PROCESS.clear()
tfxla_cluster.clear_cache()  # or the executable that was compiled with these choices before serves
with loaded:
    inside = tfxla_cluster.jit(lambda x: tf.transpose(tf.tanh(x)) * 2.0)(x)
np.testing.assert_allclose(inside, np.tanh(x.numpy()).T * 2.0, rtol=1e-5)
records = [json.loads(line) for path in glob.glob(sys.argv[2] + "/trace.*") for line in open(path)]
kernels = [record for record in records if record["kind"] == "kernel"]
print(json.dumps({
    "found": len(found), "same": same == found,
    "tuned": sum(record["kind"] == "autotune" and record["event"] == "tuned" for record in records),
    "again": again.data.keys() == found.data.keys(),
    "measured": min(len(e.measured) for e in again.data.values()), "other": len(other.data.keys() - found.data.keys()),
    "loaded": loaded == both, "tuning": [k["tuning"] for k in kernels], "repr": repr(loaded),
}))
"""


@pytest.mark.parametrize("timeout", [None, "9", True, -1, float("nan"), float("inf")])
def test_no_time(timeout: object) -> None:
    with pytest.raises(UsageError, match=r"as its seconds\. Give a number from 0"), session.budget(timeout):  # type: ignore[arg-type]
        pass


def test_a_function_is_tuned_kept_and_put_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "r.txt"), str(tmp_path / "dump")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFXLA_FLAGS": f"--xla_dump_to={tmp_path / 'dump'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    tuning = said.pop("tuning")
    assert said.pop("repr").startswith("<2 autotuning results on CPU: ")
    assert said == {"found": 1, "same": True, "tuned": 3, "again": True, "measured": 4, "other": 1, "loaded": True}
    assert tuning[0] == "tuned"
    assert tuning[-1] == "given"


def test_text_and_merging() -> None:
    one, two = AutotuningResult(of([entry("a")])), AutotuningResult(of([entry("b"), entry("a", seconds=3.0)]))
    both = one | two
    assert len(both) == 2
    assert {k.hlo: e.seconds for k, e in both.data.items()} == {"a": 3.0, "b": 1e-5}
    assert AutotuningResult.loads(both.dumps()) == both != one
    assert both.device_kinds == ("CPU: x",)
    with pytest.raises(InputFileError, match="not autotuning results"):
        AutotuningResult.loads("nonsense {")


def test_only_results_merge() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        AutotuningResult({}) | 3
