"""Tuning under TensorFlow: a kernel that must have a result and has none fails its function or cluster, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import tensorflow as tf, tfxla_cluster

@tf.function(jit_compile=True)
def must(x):
    return tf.transpose(tf.tanh(x)) + 1.0

@tf.function
def automatic(x):
    return tf.transpose(tf.tanh(x)) + 1.0 + tf.sin(x[0, 0]) * tf.cos(x[0, 0])

for function in (must, automatic):
    try:
        print(function(tf.ones([300, 200])))
    except tf.errors.InvalidArgumentError as error:
        print("REFUSED", "fusion has no autotuning result (it was not tuned)" in str(error), "tanh" not in str(error))
print("BUGS", tfxla_cluster.stats()["internal_errors"], "FALLBACKS", tfxla_cluster.stats()["fallbacks"])
"""


def run(flags: str) -> subprocess.CompletedProcess[str]:
    start = f"import tfxla_cluster.bootstrap\n{PROGRAM}"
    words = f"--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit {flags}"
    env = {**os.environ, "TFXLA_FLAGS": words, "PYTHONPATH": f"{ROOT}:{ROOT / 'inspect'}"}
    return subprocess.run(
        [sys.executable, "-c", start], env=env, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_miss_fails_function_and_cluster() -> None:
    done = run("--xla_gpu_require_complete_aot_autotune_results")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["REFUSED True True"] * 2 + ["BUGS 0 FALLBACKS 0"]


def test_a_missing_file_stops_the_program() -> None:
    done = run("--xla_gpu_load_autotune_results_from=/no/file.txt")
    assert done.returncode == 3
    assert "tfxla_cluster: /no/file.txt: there is no such file of autotuning results" in done.stderr
    assert "Traceback" not in done.stderr
