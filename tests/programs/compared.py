"""The programs of the catalogue in processes of their own; how far their results may be from stock TensorFlow's."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.close import assert_near

ROOT = Path(__file__).resolve().parents[2]
AUTO = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=1"
# Last bits decide an activation of mobilenet_v2: stock TensorFlow's gradients in f32 are 2.0e-3 from those in f64.
LOOSE = {"mixed_bfloat16": 2e-2, "mixed_float16": 5e-3, "resnet50": 2e-3, "mobilenet_v2": 4e-3}
# At batch 4 its normalisations amplify the last bits: stock jit_compile differs from eager by as much.
AMPLIFIED_GRADIENTS = {"resnet50": 0.3}
FIT = ("keras_mlp", "keras_cnn")
NAMES = [
    "fused_sum",
    "two_lengths",
    "keras_mlp",
    "keras_cnn",
    "loop_tape_inside",
    "loop_tape_outside",
    "lstm",
    "gru",
    "transformer_block",
    "mobilenet_v2",
    "resnet50",
    "mixed_bfloat16",
    "mixed_float16",
    "saved_model",
    "control_flow",
    "mnist_style_step",
]
MUST_COMPILE_ONLY = ("mnist_style_step",)
Answers = dict[str, tuple[Any, dict[str, Any]]]


def run(jobs: dict[str, Any], flags: str | None, out: Path, **environment: str) -> Answers:
    """name -> (results, counters) of programs run one after the other in one process; flags None is stock."""
    env = {k: v for k, v in os.environ.items() if k not in ("TFXLA_FLAGS", "TF_XLA_FLAGS", "XLA_FLAGS")}
    env.update(
        environment,
        TF_CPP_MIN_LOG_LEVEL="2",
        PYTHONPATH=f"{ROOT}:{ROOT / 'inspect'}:{os.environ.get('PYTHONPATH', '')}",
    )
    if flags is not None:
        env["TFXLA_FLAGS"] = flags
    starter = (
        "import tfxla_cluster.bootstrap, runpy, sys; sys.argv = sys.argv[1:]; "
        "runpy.run_module('tests.programs.run', run_name='__main__', alter_sys=True)"
    )
    first = ["-c", starter, "run"] if flags is not None else ["-m", "tests.programs.run"]
    words = [f"{name}={jit}" for name, jit in jobs.items()]
    done = subprocess.run(
        [sys.executable, *first, str(out), *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    answers: Answers = pickle.loads(out.read_bytes()) if out.exists() else {}
    for name in jobs:
        answers.setdefault(name, (f"the process ended with {done.returncode}: {done.stderr[-3000:]}", {}))
    return answers


def results(answers: Answers, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found, stats = answers[name]
    assert not isinstance(found, str), found
    return found, stats


def compare(name: str, found: dict, expected: dict) -> None:
    """Each result within the tolerance of its own largest element, however small that is."""
    assert found.keys() == expected.keys()
    for key in expected:
        assert np.isfinite(np.asarray(expected[key], np.float64)).all(), f"{name}: {key}"
        tolerance = LOOSE.get(name, 5e-5)
        if key.startswith("gradient"):
            tolerance = AMPLIFIED_GRADIENTS.get(name, tolerance)
        assert_near(found[key], expected[key], tolerance, f"{name}: {key}")
