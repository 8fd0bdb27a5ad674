"""Programs in this process: `python -m tests.programs.run OUT NAME=JIT...`; writes results and counters.

A program that raises has its traceback in place of results. With TFXLA_TEST_TF32=off in the environment TensorFlow's
switch for tf32 is off.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any

JIT = {"True": True, "False": False, "None": None, "auto": "auto"}


def counters() -> dict[str, Any]:
    package = sys.modules.get("tfxla_cluster.api")
    return package.stats() if package else {}


def difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What was counted in between; reasons seen before are left out."""
    return {
        key: {k: v for k, v in value.items() if v != before.get(key, {}).get(k)}
        if isinstance(value, dict)
        else value - before.get(key, 0)
        for key, value in after.items()
    }


def main(out: str, *jobs: str) -> None:
    import keras
    import tensorflow as tf

    from tests.programs.catalogue import PROGRAMS

    tf.config.experimental.enable_tensor_float_32_execution(os.environ.get("TFXLA_TEST_TF32") != "off")
    answers = {}
    for job in jobs:
        name, _, jit = job.partition("=")
        before = counters()
        try:
            results: Any = PROGRAMS[name](JIT[jit])
        except Exception:  # noqa: BLE001 - the test that asked for this program shows the traceback
            results = traceback.format_exc()
        answers[name] = (results, difference(counters(), before))
        keras.mixed_precision.set_global_policy("float32")
        keras.backend.clear_session()
        with open(out, "wb") as file:
            pickle.dump(answers, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
