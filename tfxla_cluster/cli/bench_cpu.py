"""`tfxla-bench cpu`: rows of single functions, of whole steps, of first steps and of calls."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Sequence
from typing import Any

from .. import output_file
from ..bench import plot
from ..errors import UsageError

Row = dict[str, Any]
_STEP_ROUNDS = 5  # at most: a round of steps takes seconds


def run(options: argparse.Namespace) -> int:
    """Runs the rows that --filter names, prints them and the means of families, writes JSON and plot; 1 where a figure
    is missing. UsageError for a filter that matches none and where a peer is not installed."""
    rows = run_rows(options.filter, options.rounds)
    families = {
        name: summary([r for r in rows if r["family"] == name]) for name in dict.fromkeys(r["family"] for r in rows)
    }
    for name, figures in families.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
    if options.plot:
        drawn = [(r["case"], _bars(r)) for r in rows if r["ours_ms"]]
        plot.write(options.plot, "CPU", drawn)
    if options.json:
        data = {"rows": rows, "families": families, "missing_peers": missing_peers()}
        output_file.write(options.json, json.dumps(data, indent=1).encode())
    return int(any(row.get("failed") for row in rows))


# Peers that the suite names and that are not written for these rows yet.
_NOT_WRITTEN = ("torch.compile of steps and calls", "jax of steps")


def missing_peers() -> list[str]:
    """Peers that the suite names and that were not measured."""
    from ..bench import torch_process

    return [*([] if torch_process.is_installed() else [torch_process.TORCH]), *_NOT_WRITTEN]


def run_rows(pattern: str, rounds: int) -> list[Row]:
    """Measures and prints the rows whose case or family contains `pattern`: a dict a row."""
    if importlib.util.find_spec("jax") is None:
        raise UsageError("jax, which each row is compared with, is not installed", "Install the extra 'bench'")
    from ..bench import contenders, cpu_steps, measure, torch_process
    from ..bench.rows import all_rows

    single = [row for row in all_rows() if pattern in row.case or pattern in row.family]
    steps = cpu_steps.chosen(pattern)
    if not single and not steps:
        raise UsageError(f"no row matches --filter={pattern}", "Leave --filter out to run all rows")
    results = []
    with torch_process.peer() as torch:
        for row in single:
            calls, moved, failed = contenders.make(row, torch)
            timings, dropped = measure.interleave(calls, rounds)
            results.append(describe(row, timings, moved, dropped) | {"failed": failed})
            print(line(results[-1]), flush=True)
    for name in steps:
        for result in cpu_steps.rows(name, min(rounds, _STEP_ROUNDS)):
            results.append(result)
            print(line(result), flush=True)
    return results


def describe(row: Any, timings: dict[str, Any], moved: int, dropped: int) -> Row:
    """The JSON form of a row of a single function."""
    ours = timings["ours"].median
    peers = {name: timing.median for name, timing in timings.items() if name not in ("ours", "copy")}
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


def line(row: Row) -> str:
    """A row for people: milliseconds, and ratios above 1 where this package is quicker."""
    if row["ours_ms"] is None:
        return f"{row['case']}: no figure: {row['failed']}"
    found = [f"{row['case']:30}", *(f"{name} {ms:.4g}" for name, ms in _bars(row).items())]
    found += [f"{row[key]:.2f} x {peer}" for key, peer in _RATIOS if row[key]]
    if row.get("flops"):
        found.append(f"{row['flops'] / row['ours_ms'] / 1e6:.0f} GFLOP/s")
    if row.get("rounds_dropped", 0) < 0:
        found.append("(noisy: other processes ran)")
    found += [f"no figure of {name}: {reason}" for name, reason in row.get("failed", {}).items()]
    found += [f"{name} {mb:.0f} MB" for name, mb in row.get("peak_memory_mb", {}).items()]
    return "  ".join(found)


_RATIOS = (("vs_stock_jit", "stock jit"), ("vs_best_peer", "best peer"))


def _bars(row: Row) -> dict[str, float]:
    """Contender -> milliseconds."""
    others = {"clusters": row.get("clusters_ms"), "copy": row["floor_ms"]}
    return {"ours": row["ours_ms"], **row["peers"], **{name: ms for name, ms in others.items() if ms}}


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Geometric means over the rows, and the worst ratio to the best peer; without those no row has."""

    def known(key: str) -> list[float]:
        return [r[key] for r in rows if r[key]]

    def mean(values: Sequence[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    found = {f"geomean_{key}": mean(known(key)) for key, _ in _RATIOS if known(key)}
    return found | ({"worst_vs_best_peer": min(known("vs_best_peer"))} if known("vs_best_peer") else {})
