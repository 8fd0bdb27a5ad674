"""tfxla_cluster: clusters TensorFlow graphs and compiles them to native kernels.

Importing this package imports nothing heavy: names load on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> (module, attribute; None: the module itself).
_PUBLIC: dict[str, tuple[str, str | None]] = {
    "enable": ("api", "enable"),
    "disable": ("api", "disable"),
    "jit": ("api", "jit"),
    "stats": ("api", "stats"),
    "clear_cache": ("api", "clear_cache"),
    "explain": ("api", "explain"),
    "autotune": ("tuning.api", "autotune"),
    "AutotuningResult": ("tuning.api", "AutotuningResult"),
    "mark_dynamic": ("tf.functions.marks", "mark_dynamic"),
    "maybe_mark_dynamic": ("tf.functions.marks", "maybe_mark_dynamic"),
    "mark_static": ("tf.functions.marks", "mark_static"),
    "benchmark": ("bench.benchmark", "benchmark"),
    "BenchmarkData": ("bench.benchmark", "BenchmarkData"),
    "standardize_function": ("bench.standardize", "standardize_function"),
    "Size": ("size_spec", "Size"),
    "config": ("config", None),
    "triton_call": ("triton_calls", "triton_call"),
    "triton_kernel": ("kernel_source", "triton_kernel"),
    "tl": ("kernel_source", "tl"),
    "libdevice": ("kernel_source", "libdevice"),
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    loaded = importlib.import_module(f".{module}", __name__)
    return loaded if attribute is None else getattr(loaded, attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
