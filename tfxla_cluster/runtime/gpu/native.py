"""The GPU launcher's machine code: compiled once a process, never freed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm
from llvmlite import ir

from ...locks import ForkSafeLock
from ..cpu import host, native
from ..launcher.jit import load_object, object_code, retire_function
from ..launcher.records import Retire
from ..store import Store
from .interpreter import build

_EXTERNALS = ("malloc", "free", "memcpy", "sched_yield")


@dataclass(frozen=True, slots=True)
class Launcher:
    """Addresses. `execute`: int32(record, inputs, outputs, sizes, launch); `workspace`: void*(owner, bytes); `take`:
    void(lock), as library_code's `gpu_take`. `retire` closes a record."""

    execute: int
    workspace: int
    take: int
    retire: Retire


_lock = ForkSafeLock()
_launcher: Launcher | None = None


def launcher(store: Store | None = None) -> Launcher:
    """This process's; the first call compiles it (some 20 ms), or takes it from `store`. UnsupportedError as
    `runtime.cpu.native.runtime`."""
    global _launcher
    if _launcher is None:
        native.runtime(store=store)
        with _lock:
            if _launcher is None:
                _launcher = _load(object_code("gpu", _module, _sources(), host.target(), store))
    return _launcher


def _module() -> ir.Module:
    return build(llvm.get_default_triple())


def _sources() -> list[Path]:
    """The modules that the code is generated from, besides those of all launchers."""
    return sorted(Path(__file__).parent.glob("*.py"))


def _load(code: bytes) -> Launcher:
    engine = load_object(code, _EXTERNALS)
    execute, workspace, take = map(engine.get_function_address, ("gpu_execute", "gpu_workspace", "gpu_take"))
    loaded = Launcher(execute, workspace, take, retire_function(engine))
    engine.detach()  # threads of others may run this code until the process ends
    return loaded
