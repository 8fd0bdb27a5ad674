"""Counters of what the package did in this process: `tfxla_cluster.stats()`, and the dump at exit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from .locks import ForkSafeLock

# Plain counters, then counters by reason.
COUNTERS = (
    "functions",
    "clusters",
    "compilations",
    "lowerings",
    "executions",
    "kernels",
    "native_kernels",
    "cache_hits",
    "cache_misses",
    "fallbacks",
    "internal_errors",
    "ops_total",
    "ops_clustered",
)
REASONS = {
    "cache_hits": "cache_hit_reasons",
    "cache_misses": "cache_miss_reasons",
    "fallbacks": "fallback_reasons",
    "internal_errors": "internal_error_reasons",
}

_lock = ForkSafeLock()
_counts: Counter[str] = Counter()
_reasons: dict[str, Counter[str]] = {name: Counter() for name in REASONS}
_providers: list[Callable[[], dict[str, int]]] = []


def add(name: str, amount: int = 1, reason: str = "") -> None:
    """Count `amount` of `name` (one of COUNTERS; KeyError otherwise), under `reason` where it has one."""
    if name not in COUNTERS:
        raise KeyError(name)
    with _lock:
        _counts[name] += amount
        if reason:
            _reasons[name][reason] += amount


def provide(read: Callable[[], dict[str, int]]) -> None:
    """Add a source of counts kept elsewhere (executions are counted in machine code)."""
    _providers.append(read)


def snapshot() -> dict[str, Any]:
    """All counters; `cache_hit_reasons`, `cache_miss_reasons`, `fallback_reasons`, `internal_error_reasons`:
    reason -> count."""
    with _lock:
        result: dict[str, Any] = {name: _counts[name] for name in COUNTERS}
        result.update({REASONS[name]: dict(found) for name, found in _reasons.items()})
    for read in _providers:
        for name, amount in read().items():
            result[name] += amount
    return result
