"""Rows of whole steps, of their first steps and of calls, each contender in a process of its own, for `tfxla-bench
cpu`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .gpu_suite import CLUSTERS, GRAPH, OURS, STOCK, Result
from .steps import table, turns

Row = dict[str, Any]
Run = Callable[..., Result]
STEPS, CALLS, COMPILE = "steps", "call overhead", "compile time"


def chosen(pattern: str) -> list[str]:
    """The steps whose name, or one of whose rows' families, contains `pattern`."""
    names = [name for name in table.CPU_BATCHES if any(pattern in text for text in (name, STEPS, COMPILE))]
    return names + ([table.CALL] if pattern in table.CALL or pattern in CALLS else [])


def rows(name: str, rounds: int, run: Run = turns.run) -> Iterator[Row]:
    """Measures a step; its rows. Milliseconds: of a step, of a first step without its trace, of a call."""
    if name == table.CALL:
        result = run(name, table.task(name).batch, rounds, contenders=turns.CALLERS, steps=turns.CALLS)
        for ours, how in ((OURS, "tf.function"), (turns.DIRECT, "tfxla_cluster.jit")):
            yield _row(f"{name}, {how}", CALLS, result, ours, {n: t.median for n, t in result.sustained.items()})
        return
    result = run(name, table.CPU_BATCHES[name], rounds)
    step = _row(name, STEPS, result, OURS, {n: t.median for n, t in result.sustained.items()})
    yield step | {"peak_memory_mb": {n: d["peak_gib"] * 2**30 / 1e6 for n, d in result.details.items()}}
    compiling = {n: d for n, d in result.details.items() if n != GRAPH}
    first = {n: (d["first_step_s"] - d["trace_s"]) * 1e3 for n, d in compiling.items()}
    yield _row(f"{name}, first step", COMPILE, result, OURS, first)


def _row(case: str, family: str, result: Result, ours: str, times: dict[str, float]) -> Row:
    """The JSON form; without a ratio where ours or its peers have no figure."""
    peers = {name: ms for name, ms in times.items() if name not in (OURS, CLUSTERS, turns.DIRECT)}
    mine = times.get(ours)
    return {
        "case": case,
        "family": family,
        "ours_ms": mine,
        "clusters_ms": times.get(CLUSTERS),
        "floor_ms": None,
        "peers": peers,
        "spread": {n: [t.low, t.high] for n, t in result.sustained.items()} if family != COMPILE else {},
        "failed": result.failed,
        "vs_stock_jit": peers[STOCK] / mine if mine and STOCK in peers else None,
        "vs_best_peer": min(peers.values()) / mine if mine and peers else None,
    }
