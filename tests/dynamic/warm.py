"""What a full store saves: `python -m tests.dynamic.measure warm [RUNS]`.

A training step of the small transformer of `measure`, and a Keras program of `tests/programs`, in processes of their
own: with an empty store and with what that one left, in turns. Bytecode of Python is there already, as where it is
installed. Prints seconds: TensorFlow's import; ours (`enable`); the trace and the first step after it, or the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("step", "transformer_block")
_COUNTED = ("lowerings", "compilations")


def compare(runs: int) -> None:
    """Prints a line for each process."""
    with tempfile.TemporaryDirectory() as folder:
        _child("step", f"{folder}/unused", folder)  # writes bytecode
        for name in NAMES:
            for run in range(runs):
                for state in ("empty", "full"):
                    print(f"{name}, {state} store:", _text(_child(name, f"{folder}/{name}{run}", folder)), flush=True)


def _text(row: dict[str, float]) -> str:
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in row.items() if name not in _COUNTED)
    return f"{seconds} s; {row['lowerings']} lowered, {row['compilations']} compiled"


def _child(name: str, store: str, folder: str) -> dict[str, float]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "TFXLA_FLAGS")}
    paths = f"{ROOT}{os.pathsep}{ROOT / 'inspect'}"
    own = {"PYTHONPYCACHEPREFIX": f"{folder}/pyc", "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tests.dynamic.warm", name, store]
    done = subprocess.run(command, env={**kept, **own}, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, store: str) -> dict[str, Any]:
    """In this process, which has done nothing before."""
    at = [time.perf_counter()]
    import tensorflow as tf

    at.append(time.perf_counter())
    import tfxla_cluster

    tfxla_cluster.enable(tf_xla_persistent_cache_directory=store)
    at.append(time.perf_counter())
    run = _step if name == "step" else _program
    traced = run(tf, name)
    counted = tfxla_cluster.stats()
    seconds = {"import": at[1] - at[0], "enable": at[2] - at[1], **traced}
    return {**seconds, **{name: counted[name] for name in _COUNTED}}


def _step(tf: Any, name: str) -> dict[str, float]:
    import numpy as np

    from tests.dynamic import measure

    step = tf.function(measure.transformer(), jit_compile=True)
    rng = np.random.default_rng(0)
    tokens = tf.constant(rng.integers(0, measure.WORDS, (32, measure.LENGTH)).astype(np.int32))
    labels = tf.constant(rng.integers(0, measure.WORDS, 32).astype(np.int32))
    at = [time.perf_counter()]
    step.get_concrete_function(tokens, labels)
    at.append(time.perf_counter())
    step(tokens, labels)
    return {"trace": at[1] - at[0], "first step": time.perf_counter() - at[1]}


def _program(tf: Any, name: str) -> dict[str, float]:
    """Its model, traces and steps together."""
    from tests.programs.catalogue import PROGRAMS

    start = time.perf_counter()
    PROGRAMS[name](True)
    return {"program": time.perf_counter() - start}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
