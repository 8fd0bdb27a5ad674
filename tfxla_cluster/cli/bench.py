"""tfxla-bench: benchmark rows side by side with their peers, in one process. Ratios above 1: ours is faster.

`tfxla-bench cpu` runs the memory and contraction rows, against stock TensorFlow and JAX.

`tfxla-bench gpu` runs the GPU's rows through TensorFlow, against stock TensorFlow and, in a second process that takes
turns with it, PyTorch and XLA through JAX. `tfxla-bench gpu --steps` times training and decoding steps of whole models
(BERT-base, ResNet50, GPT-2-small), against stock TensorFlow.
`tfxla-bench gpu --make-bundle DIR` writes the GPU's rows as HLO with code for the GPU --target, which need not be
there. `tfxla-bench gpu --modules DIR` measures them, or any HLO modules, on this machine's GPU, against PyTorch and
XLA; it needs neither TensorFlow nor, with code for the GPU in DIR, Triton. A peer that is missing or wrong fails the
run (exit code 1).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
from collections.abc import Sequence
from typing import Any

from .. import output_file
from ..bench import plot
from ..errors import UsageError
from . import common

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


# Peers that the suite names and no row is written for yet; the roadmap brings them.
MISSING_PEERS = ("torch.compile",)


def entry() -> int:
    return common.run("tfxla-bench", main)


def main(argv: Sequence[str]) -> int:
    """Runs the rows, prints them and their means; 0, or UsageError for a filter that matches none."""
    parser = argparse.ArgumentParser(
        "tfxla-bench",
        description=__doc__,
        epilog=common.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=["cpu", "gpu"])
    parser.add_argument("--filter", default="", help="only rows whose name or family contains this")
    parser.add_argument("--rounds", type=common.number(int, 1, 100_000), default=25)
    parser.add_argument("--json", default="", metavar="FILE", help="write the rows and families")
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the rows (.svg, .png or .pdf)")
    todo = parser.add_mutually_exclusive_group()
    todo.add_argument("--modules", metavar="DIR", help="gpu: measure the HLO modules of DIR")
    todo.add_argument("--make-bundle", metavar="DIR", help="gpu: write the rows' modules and code into DIR")
    todo.add_argument("--steps", action="store_true", help="gpu: measure steps of whole models")
    parser.add_argument("--batch", type=common.number(int, 1, 100_000), help="gpu --steps: examples of a step")
    parser.add_argument("--target", default="sm_90", choices=["sm_80", "sm_90"], help="gpu: of --make-bundle's code")
    options = parser.parse_args(argv)
    if options.plot:
        plot.check(options.plot)
    if options.suite == "gpu":
        return _gpu(options)
    if options.modules or options.make_bundle or options.steps:
        parser.error("--modules, --make-bundle and --steps are for tfxla-bench gpu")
    rows = run_rows(options.filter, options.rounds)
    families = {
        name: summary([r for r in rows if r["family"] == name]) for name in dict.fromkeys(r["family"] for r in rows)
    }
    for name, figures in families.items():
        print(
            f"{name}: geometric mean {figures['geomean_vs_stock_jit']:.2f} x stock jit, "
            f"{figures['geomean_vs_best_peer']:.2f} x best peer, worst row {figures['worst_vs_best_peer']:.2f}"
        )
    if options.plot:
        drawn = [(r["case"], {"ours": r["ours_ms"], **r["peers"], "copy": r["floor_ms"]}) for r in rows]
        plot.write(options.plot, "CPU", drawn)
    if options.json:
        _write(options.json, {"rows": rows, "families": families, "missing_peers": list(MISSING_PEERS)})
    return 0


def _gpu(options: argparse.Namespace) -> int:
    from . import bench_gpu

    if options.make_bundle:
        return bench_gpu.make_bundle(options)
    if options.steps:
        return bench_gpu.run_steps(options)
    return bench_gpu.run(options) if options.modules else bench_gpu.run_tensorflow(options)


def run_rows(pattern: str, rounds: int) -> list[dict[str, Any]]:
    """Measures and prints the rows whose case or family contains `pattern`: a dict a row."""
    if importlib.util.find_spec("jax") is None:
        raise UsageError("jax, which each row is compared with, is not installed", "Install the extra 'bench'")
    from ..bench import contenders, measure
    from ..bench.rows import all_rows

    chosen = [row for row in all_rows() if pattern in row.case or pattern in row.family]
    if not chosen:
        raise UsageError(f"no row matches --filter={pattern}", "Leave --filter out to run all rows")
    print(
        f"{'row':30} {'ours':>9} {'copy':>8} {'graph':>9} {'stock jit':>9} {'jax':>9}  vs jit  vs best  GF/s",
        flush=True,
    )
    results = []
    for row in chosen:
        calls, moved = contenders.make(row)
        timings, dropped = measure.interleave(calls, rounds)
        result = describe(row, timings, moved, dropped)
        results.append(result)
        print_row(result, flush=True)
    return results


def describe(row: Any, timings: dict[str, Any], moved: int, dropped: int) -> dict[str, Any]:
    """The JSON form of a row."""
    ours = timings["ours"].median
    peers = {name: timings[name].median for name in row.peers}
    return {
        "case": row.case,
        "family": row.family,
        "ours_ms": ours,
        "floor_ms": timings["copy"].median,
        "peers": peers,
        "spread": {name: [t.low, t.high] for name, t in timings.items()},
        "bytes": moved,
        "flops": row.flops,
        "rounds": timings["ours"].rounds,
        "rounds_dropped": dropped,
        "vs_stock_jit": peers["stock jit"] / ours,
        "vs_best_peer": min(peers.values()) / ours,
    }


def print_row(row: dict[str, Any], flush: bool = False) -> None:
    """One line of the table: milliseconds, and ratios above 1 where this package is quicker."""
    rate = f"{row['flops'] / row['ours_ms'] / 1e6:5.0f}" if row["flops"] else ""
    peers = " ".join(f"{row['peers'][name]:9.3f}" for name in ("graph", "stock jit", "jax"))
    noisy = "  (noisy: other processes ran)" if row["rounds_dropped"] < 0 else ""
    print(
        f"{row['case']:30} {row['ours_ms']:9.3f} {row['floor_ms']:8.3f} {peers}  {row['vs_stock_jit']:6.2f}  "
        f"{row['vs_best_peer']:7.2f} {rate}{noisy}",
        flush=flush,
    )


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means over the rows, and the worst ratio to the best peer."""

    def mean(key: str) -> float:
        return math.exp(sum(math.log(r[key]) for r in rows) / len(rows))

    return {
        "geomean_vs_stock_jit": mean("vs_stock_jit"),
        "geomean_vs_best_peer": mean("vs_best_peer"),
        "worst_vs_best_peer": min(r["vs_best_peer"] for r in rows),
    }


def _write(path: str, data: dict[str, Any]) -> None:
    output_file.write(path, json.dumps(data, indent=1).encode())
