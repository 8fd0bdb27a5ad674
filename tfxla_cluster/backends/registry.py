"""The backends by the names that `tfxla-exec --backend` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import UsageError
from . import cpu, gpu, interpreter
from .backend import Backend, Launcher

BACKENDS: Mapping[str, Callable[[], Backend[Launcher]]] = {
    "cpu": cpu.this_machine,
    "gpu": gpu.described,
    "interpreter": interpreter.this_machine,
}


def named(name: str) -> Backend[Launcher]:
    """The backend of that name; UsageError where there is none."""
    if name not in BACKENDS:
        raise UsageError(f"no backend is called '{name}'", f"Known: {', '.join(BACKENDS)}")
    return BACKENDS[name]()
