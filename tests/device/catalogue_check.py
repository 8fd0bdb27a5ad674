"""The programs of tests.programs on a machine with a GPU: under must-compile and in clusters, compared with stock
TensorFlow's graph on the same GPU.

    python -m tests.device.catalogue_check [--tf32] [NAME...]

TensorFlow's switch for tf32 is off unless asked for: with it two right programs differ by 1e-3 a product, and more
where training amplifies that. A line a program and way: the largest difference of its results as a part of the result's
own largest element, native kernels of all, what was left to TensorFlow. Exit code 1 where one differs by more than
tests.programs.compared allows, raises or ran no native kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs import compared

# Way -> (what the programs pass as jit_compile, flags of this package).
WAYS: dict[str, tuple[Any, str | None]] = {"stock": (False, None), "must": (True, ""), "auto": (None, compared.AUTO)}


def gap(found: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[float, str]:
    """(largest difference as a part of the result's largest element, that result); infinite where NaN differ."""
    worst = (0.0, "")
    for name, value in expected.items():
        a, b = (np.asarray(x).astype(np.float64) for x in (found[name], value))
        if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf"), name
        scale = max(float(np.abs(np.nan_to_num(b)).max(initial=0.0)), 1e-30)
        worst = max(worst, (float(np.abs(np.nan_to_num(a - b)).max(initial=0.0)) / scale, name))
    return worst


def line(name: str, way: str, answers: Mapping[str, compared.Answers]) -> tuple[str, bool]:
    """(what is told of a program, whether it is right)."""
    found, stats = answers[way][name]
    expected = answers["stock"][name][0]
    for result in (found, expected):
        if isinstance(result, str):
            return f"{name:20} {way:5} RAISED\n{result[-2500:]}", False
    difference, where = gap(found, expected)
    try:
        compared.compare(name, found, expected)
        said = "ok"
    except AssertionError:
        said = "DIFFERS"
    native = f"{stats['native_kernels']}/{stats['kernels']}"
    is_right = said == "ok" and stats["native_kernels"] == stats["kernels"] > 0
    reasons = f" {stats['fallback_reasons']}" if stats["fallbacks"] else ""
    return f"{name:20} {way:5} {said:8} {difference:.1e} {where:30} kernels {native}{reasons}", is_right


def check(names: list[str], tf32: bool) -> bool:
    """Runs the ways side by side, each in a process of its own; whether all is right."""

    def run(way: str) -> compared.Answers:
        jit, flags = WAYS[way]
        jobs = {name: "auto" if way == "auto" and name in compared.FIT else jit for name in names}
        memory = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TFXLA_TEST_TF32": "on" if tf32 else "off"}
        with tempfile.TemporaryDirectory() as directory:
            return compared.run(jobs, flags, Path(directory) / "out", **memory)

    with ThreadPoolExecutor(len(WAYS)) as pool:
        answers = dict(zip(WAYS, pool.map(run, WAYS), strict=True))
    lines = [line(name, way, answers) for name in names for way in WAYS if way != "stock"]
    print("\n".join(text for text, _ in lines), flush=True)
    return all(is_right for _, is_right in lines)


def main() -> int:
    """The command line; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf32", action="store_true", help="f32 is multiplied as TensorFlow does by default")
    parser.add_argument("names", nargs="*", help="programs (default: all)")
    options = parser.parse_args()
    return int(not check(options.names or compared.NAMES, options.tf32))


if __name__ == "__main__":
    sys.exit(main())
