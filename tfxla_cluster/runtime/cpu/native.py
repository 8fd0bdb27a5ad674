"""The runtime's machine code: compiled once a process, never freed, set up for this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

from ... import data_checks
from ...codegen.kernel import abi, foreign_call, library_check
from ...errors import UnsupportedError
from ...locks import ForkSafeLock
from ...target import Target
from .. import check_reports, random_state
from ..launcher.jit import load_object, object_code, retire_function
from ..launcher.records import Retire
from ..store import Store
from . import foreign_routine, host
from .interpreter import build
from .pool import DEFAULTS, FIELDS
from .profiler import WORDS

# Functions of the process that the runtime's code calls.
_EXTERNALS = (
    "syscall",
    "pthread_create",
    "pthread_detach",
    "pthread_sigmask",
    "sigfillset",
    "clock_gettime",
    "aligned_alloc",
    "free",
    "madvise",
    "memcpy",
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Addresses of the entries. `execute`: int32(record, inputs, outputs, sizes);
    `launch`: int32(region, cost); `trim`: int64(); `pool`: the shared words;
    `profiler`: those of profiler.WORDS; `random`: key and counter of the random state. `routines`: what library steps
    call. `retire` closes a record."""

    execute: int
    launch: int
    trim: int
    retire: Retire
    pool: int
    profiler: int
    random: int
    routines: Mapping[str, int]

    def setting(self, name: str) -> ctypes.c_int64:
        """A shared word of the pool, to read or to set by `.value`."""
        return ctypes.c_int64.from_address(self.pool + 8 * FIELDS[name])


_lock = ForkSafeLock()
_runtime: Runtime | None = None
_profiler: Mapping[str, int] = {}


def runtime(threads: int = 0, store: Store | None = None) -> Runtime:
    """This process's runtime; the first call compiles it (some 30 ms), or takes it from `store`, for so many
    `threads` (0: as many as this process may use). No thread starts yet.

    UnsupportedError on anything but Linux on x86-64.
    """
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                _check_platform()
                _runtime = _load(_object(host.target(), store), threads)
    return _runtime


def profile_by(words: Mapping[str, int]) -> None:
    """Have steps recorded by what these addresses (of profiler.WORDS) are, by nobody where there are none."""
    global _profiler
    with _lock:
        _profiler = dict(words)
        if _runtime is not None:
            _hand_over(_runtime)


def _hand_over(loaded: Runtime) -> None:
    """Tell the code who profiles. The level, at which running executions look, goes first and comes last."""
    level, *others = (ctypes.c_int64.from_address(loaded.profiler + 8 * index) for index in range(len(WORDS)))
    level.value = 0
    for word, name in zip(others, list(WORDS)[1:]):
        word.value = _profiler.get(name, 0)
    level.value = _profiler.get("level", 0)


def _check_platform() -> None:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "AMD64"):
        raise UnsupportedError(f"the runtime needs Linux on x86-64, this is {sys.platform} on {machine}")


def _object(target: Target, store: Store | None) -> bytes:
    return object_code("cpu", lambda: build(llvm.get_default_triple()), _sources(), target, store)


def _sources() -> list[Path]:
    """The modules that the code is generated from, besides those of all launchers."""
    read = (abi, foreign_call, library_check, check_reports)
    return [*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in read)]


def _load(code: bytes, threads: int) -> Runtime:
    engine = load_object(code, _EXTERNALS)
    address = engine.get_function_address
    entries = ("pool_address", "profiler_address", "random_words", "check_reports")
    pool, profiler, random, reports = (ctypes.CFUNCTYPE(ctypes.c_int64)(address(f))() for f in entries)
    loaded = Runtime(
        address("tfxla_execute"),
        address("pool_launch"),
        address("block_trim"),
        retire_function(engine),
        pool,
        profiler,
        random,
        {name: address(name) for name in (random_state.ROUTINE, foreign_routine.ROUTINE, data_checks.ROUTINE)},
    )
    random_state.attach(random)
    check_reports.attach(reports)
    _hand_over(loaded)
    for name, value in DEFAULTS.items():
        loaded.setting(name).value = value
    loaded.setting("threads").value = threads or host.usable_cores()
    _register_after_fork(address("pool_after_fork"))
    engine.detach()  # workers may run this code until the process ends
    return loaded


def _register_after_fork(child: int) -> None:
    """Have `child` called in every forked child: by the C library, also for forks Python does not make."""
    library = ctypes.CDLL(None)
    if hasattr(library, "__register_atfork"):
        register = library.__getattr__("__register_atfork")
        register(None, None, ctypes.c_void_p(child), None)
        return
    handler: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(child)
    os.register_at_fork(after_in_child=handler)
