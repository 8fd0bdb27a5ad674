"""How long a function takes to lower, compile and run here, beside the least that its bytes and operations allow."""

from __future__ import annotations

import dataclasses
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from .. import __version__, api
from ..errors import UsageError
from . import compiled, floor, memory, xprof

METHODS = ("wallclock", "xprof_hermetic", "cupti")
_SPELLED = {"hermetic_xprof": "xprof_hermetic"}  # tokamax's code; its documentation has the other


@dataclasses.dataclass(frozen=True)
class BenchmarkData:
    """Milliseconds of a function: lower (trace and lowering), compile (0.0 where nothing was to compile) and of each
    evaluation; megabytes (1e6 bytes) by which memory grew at most in an evaluation, its results included, None unknown
    (on a CPU resident memory, which Linux counts to within a megabyte).

    bytes: its tensors and results, each moved once. operations: scalar operations of the compiled module, None where
    it is not this package's. floor_ms: the least that these take here: the time of a copy of as many bytes, or that of
    the operations at the rate of a large product.
    """

    lower_time_ms: float
    compile_time_ms: float
    evaluation_times_ms: tuple[float, ...]
    peak_memory_mb: float | None
    bytes: int
    operations: int | None
    floor_ms: float
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def median_evaluation_time_ms(self) -> float:
        """Of all evaluations."""
        return statistics.median(self.evaluation_times_ms)

    def asdict(self) -> dict[str, Any]:
        """All fields, and the median."""
        return {**dataclasses.asdict(self), "median_evaluation_time_ms": self.median_evaluation_time_ms}


def benchmark(
    f: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    iterations: int = 5,
    method: str | None = None,
    experiments: int = 1,
    pause_s: float = 0.0,
    event_filter_regex: str | None = None,
) -> BenchmarkData:
    """Measure `f(*args)`: a `tf.function` or a function of `tfxla_cluster.jit` as it is, any other callable compiled by
    `tfxla_cluster.jit`. `standardize_function` gives `f` and `args` of any function.

    method: 'wallclock', until the results are there; 'xprof_hermetic' (also 'hermetic_xprof'), the time in which
    TensorFlow's profiler saw work, of events whose name matches `event_filter_regex` where that is given; 'cupti',
    from the start of the first to the end of the last kernel on a GPU. None: 'cupti' where a GPU computes the results,
    else 'wallclock'. Each evaluation follows one that does not count. `experiments` times `iterations` evaluations
    are made, with `pause_s` seconds between two experiments, in which a hot machine cools down.

    Raises UsageError for another method, an impossible number, a specification among `args` and where the profiler saw
    nothing; what `f` raises goes through.
    """
    _check(iterations, experiments, pause_s, method, event_filter_regex)
    tensors = [_tensor(value, at) for at, value in enumerate(args)]
    call = _callable(f)
    lower, first, result, made, native = _first(call, tensors)
    device = _device(tf.nest.flatten(result))
    chosen = _SPELLED.get(method or "", method) or ("cupti" if device.startswith("GPU") else "wallclock")
    if chosen == "cupti" and not device.startswith("GPU"):
        raise UsageError(f"method 'cupti' measures GPUs, and the results are on {device}", "Use 'wallclock'")
    results = sum(map(_bytes, tf.nest.flatten(result)))
    moved = results + sum(map(_bytes, tensors))
    del result
    growth = memory.peak(lambda: _ready(call(*tensors)), device)
    times = []
    for number in range(experiments):
        if number:
            time.sleep(pause_s)
        times += [
            _sample(lambda: _ready(call(*tensors)), chosen, device, event_filter_regex) for _ in range(iterations)
        ]
    operations = None if made is None else made.operations
    compile_ms = max(first - statistics.median(times), 0.0) if made is None else made.compile_ms
    return BenchmarkData(
        lower if made is None else made.lower_ms,
        compile_ms,
        tuple(times),
        None if growth is None else max(growth, results) / 1e6,
        moved,
        operations,
        floor.milliseconds(moved, operations or 0, device),
        _metadata(f, chosen, device, iterations, experiments, made, native),
    )


def _check(iterations: int, experiments: int, pause_s: float, method: str | None, pattern: str | None) -> None:
    if method is not None and _SPELLED.get(method, method) not in METHODS:
        raise UsageError(f"method is {method!r}, which has to be one of {', '.join(METHODS)}")
    for name, value in (("iterations", iterations), ("experiments", experiments)):
        if value < 1:
            raise UsageError(f"{name} is {value}, which has to be at least 1")
    if not 0.0 <= pause_s < float("inf"):
        raise UsageError(f"pause_s is {pause_s}, which has to be a number of seconds")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"event_filter_regex {pattern!r} is no regular expression: {error}") from None


def _tensor(value: Any, at: int) -> tf.Tensor:
    if isinstance(value, tf.TensorSpec):
        raise UsageError(f"argument {at} is a specification, which has no data", "standardize_function fills it")
    return tf.convert_to_tensor(value)


def _callable(f: Callable[..., Any]) -> Callable[..., Any]:
    return f if hasattr(f, "get_concrete_function") else api.jit(f)


def _first(call: Any, tensors: Sequence[tf.Tensor]) -> tuple[float, float, Any, compiled.Compiled | None, bool]:
    """Milliseconds of the trace and of the first call after it, its result, what was compiled, and whether native
    code ran."""
    before = api.stats()["executions"]
    spent: list[float] = []

    def run() -> Any:
        start = time.perf_counter()
        call.get_concrete_function(*tensors)
        spent.append((time.perf_counter() - start) * 1e3)
        start = time.perf_counter()
        result = _ready(call(*tensors))
        spent.append((time.perf_counter() - start) * 1e3)
        return result

    result, made = compiled.watch(run)
    return spent[0], spent[1], result, made, api.stats()["executions"] > before


def _ready(result: Any) -> Any:
    """The result, when it is there."""
    tf.test.experimental.sync_devices()
    return result


def _device(results: Sequence[Any]) -> str:
    """'CPU:0', 'GPU:1': where the first result lies."""
    placed = tf.DeviceSpec.from_string(results[0].device) if results and results[0].device else tf.DeviceSpec()
    return f"{placed.device_type or 'CPU'}:{placed.device_index or 0}"


def _bytes(tensor: Any) -> int:
    return int(tf.size(tensor)) * int(tensor.dtype.size)


def _sample(call: Callable[[], Any], method: str, device: str, pattern: str | None) -> float:
    """Milliseconds of one evaluation."""
    call()
    if method == "wallclock":
        start = time.perf_counter()
        result = call()
        spent = (time.perf_counter() - start) * 1e3
        del result
        return spent
    found = xprof.profile(call)
    on_device = device.startswith("GPU")
    if method == "cupti":
        work = [event for event in found if event.on_device]
        spent = (max(e.end for e in work) - min(e.start for e in work)) / 1e3 if work else 0.0
    else:
        spent = xprof.busy_ms(found, on_device, pattern)
    if not spent:
        what = f" whose name matches {pattern!r}" if pattern else ""
        raise UsageError(f"the profiler saw no work{what} on {device}", "Use method='wallclock'")
    return spent


def _metadata(
    f: Any, method: str, device: str, iterations: int, experiments: int, made: compiled.Compiled | None, native: bool
) -> dict[str, Any]:
    """What else a reader of the figures wants to know."""
    kernels = (
        {} if made is None else {"kernels": made.kernels, "native_kernels": made.native, "kernel_bytes": made.bytes}
    )
    return {
        "function": getattr(f, "__name__", type(f).__name__),
        "method": method,
        "device": device,
        "iterations": iterations,
        "experiments": experiments,
        "native": native,
        "machine": platform.machine(),
        "versions": {"tfxla_cluster": __version__, "tensorflow": tf.__version__},
        **kernels,
    }
