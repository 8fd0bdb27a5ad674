"""The public API, and the wiring of the TensorFlow side to the compiler."""

from __future__ import annotations

import atexit
import importlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import __version__, counters, flag_options, flags, trace
from .errors import VersionError
from .tuning import tables

if TYPE_CHECKING:  # they import tensorflow, which this module does not
    from .service import Service
    from .tf.frontend import Frontend
    from .tf.must_compile.jit import Dynamic

TENSORFLOW = ("2.21",)
_lock = threading.RLock()
_enabled: list[bool] = []
_connected: list[tuple[Service, Frontend]] = []


def check_tensorflow() -> str:
    """The version of the TensorFlow that is imported; VersionError where this package does not work with it."""
    remedy = "pip install 'tensorflow>=2.21,<2.22'"
    try:
        # Whole, before any of our modules that need it: the .pth calls `enable` at the end of this import.
        import tensorflow
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise VersionError("tensorflow is not installed", remedy) from None
    found = str(tensorflow.__version__)
    if ".".join(found.split(".")[:2]) not in TENSORFLOW:
        raise VersionError(
            f"tensorflow {found} is installed; this package works with {' and '.join(TENSORFLOW)}", remedy
        )
    return found


class Enabled:
    """What `enable` returns: as a context manager it disables at the end of the block."""

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        disable()


def connect() -> Frontend:
    """The TensorFlow side with its compiler, made once a process; what `enable` and `jit` share."""
    check_tensorflow()
    with _lock:
        if not _connected:
            from .runtime.cpu import native
            from .service import Service
            from .tf import coordination
            from .tf.frontend import Frontend
            from .tf.native_op import op as native_op
            from .tf.native_op import profiler

            service = Service(native_op.release, native_op.usage, coordination.board)
            _connected.append((service, Frontend(service)))
            native.profile_by(profiler.addresses())
            counters.provide(_native_counts)
            atexit.register(_at_exit)
            _before_pools_end(_save_profiles)
            record_run()
        return _connected[0][1]


def enable(**changes: Any) -> Enabled:
    """Compile must-compile functions, and cluster automatically where the flags say so, from now on.

    `changes` are flags by name. Process-wide; functions traced earlier are covered; may be called twice.
    Also `with enable(): ...`; the flags stay as they were set (config.patch sets them for a block). Raises
    FlagError for a wrong flag, TuningError for a missing file of results, VersionError for another TensorFlow.
    """
    with _lock:
        flags.read_environment()
        flags.set_values(changes)
        side = connect()
        _check_names()
        tables.PROCESS.check(flag_options.tuning_options())
        side.enable()
        _enabled[:] = [True]
        if flags.get("tf_xla_auto_jit") not in ("", "0", "-1") and not flags.get("tf_xla_cpu_global_jit"):
            trace.once("cpu_global_jit", "--tf_xla_auto_jit clusters nothing on CPUs without --tf_xla_cpu_global_jit")
    return Enabled()


def _check_names() -> None:
    """FlagError for a pass or an op that a flag names and that does not exist."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    from .passes import pipelines
    from .tf.graph.op_groups import GROUPS

    flags.check_names("xla_disable_hlo_passes", pipelines.PASSES.__contains__, pipelines.PASSES)
    ops = [*GROUPS, *dir(tf.raw_ops)]
    for flag in ("tf_xla_ops_to_cluster", "tf_xla_cluster_exclude_ops"):
        flags.check_names(flag, lambda name: name in GROUPS or op_def_registry.get(name) is not None, ops)


def disable() -> None:
    """Back to stock TensorFlow; calls under way finish."""
    with _lock:
        if not _enabled:
            return
        connect().disable()
        _enabled.clear()


def jit(
    fn: Callable[..., Any] | None = None, input_signature: Sequence[Any] | None = None, dynamic: Dynamic = None
) -> Any:
    """`fn` compiled whole and called directly (must-compile, lowest overhead); needs no `enable`.

    Also a decorator, with or without arguments. See tf.must_compile.jit.jit for `input_signature` and `dynamic`.
    """
    if fn is None:
        return lambda f: jit(f, input_signature, dynamic)
    return connect().jit(fn, input_signature, dynamic)


def stats() -> dict[str, Any]:
    """What was done so far in this process: counters (counters.COUNTERS), their reasons, compile seconds."""
    return {**counters.snapshot(), "compile_s": sum(service.compile_seconds for service, _ in _connected)}


def clear_cache() -> int:
    """Free the executables in memory; how many there were. Functions compile again when they are called."""
    if not _connected:
        return 0
    from .tf.native_op import op as native_op

    count = _connected[0][0].clear()
    native_op.clear()
    return count


def explain(fn: Callable[..., Any], *args: Any) -> str:
    """Why each op of `fn(*args)` would or would not be in a cluster, a line an op."""
    connect()
    from .tf.clustering.explain import explain as answer

    return answer(fn, *args)


def _native_counts() -> dict[str, int]:
    from .tf.clustering import coverage
    from .tf.native_op import op as native_op

    return {"executions": native_op.executions(), **coverage.counts()}


def record_run() -> None:
    """The trace's first record: versions, command line, flags, machine."""
    if trace.directory():
        found = {"tensorflow": check_tensorflow(), **{name: version(name) for name in ("llvmlite", "numpy")}}
        trace.record(
            "run",
            schema=trace.SCHEMA_VERSION,
            argv=sys.argv,
            flags=flags.non_default(),
            versions={"tfxla_cluster": __version__, "python": platform.python_version(), **found},
            environment=_environment(),
            host=_host(),
        )


# What begins the names of variables that change what is compiled or how fast it runs.
_VARIABLES = ("TF_", "TFXLA_", "XLA_", "CUDA_", "OMP_", "OPENBLAS_", "MKL_", "TRITON_", "PYTHONHASHSEED")


def _environment() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)}


def _host() -> dict[str, Any]:
    """This machine, as far as it matters; the CPU's features are those that LLVM has names for."""
    from .runtime.cpu import host

    cpu = host.target()
    features = ",".join(feature[1:] for feature in cpu.features.split(",") if feature.startswith("+"))
    return {
        "machine": platform.machine(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "usable cores": cpu.cores,
        "cpu": cpu.arch,
        "vector bits": cpu.vector_bits,
        "features": features,
        "memory bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _before_pools_end(call: Callable[[], None]) -> None:
    """Call it when the program ends, as long as thread pools take work, which clients of networks hand to them: from
    `atexit` on they take none."""
    importlib.import_module("concurrent.futures.thread")  # what is registered last is called first
    getattr(threading, "_register_atexit", atexit.register)(call)


def _save_profiles() -> None:
    for service, _ in _connected:
        service.save_profiles()


def _at_exit() -> None:
    if trace.directory():
        from .dump import manifest

        for service, _ in _connected:
            service.record_executions()
        trace.record("stats", stats=stats())
        manifest.write(Path(trace.directory()))
