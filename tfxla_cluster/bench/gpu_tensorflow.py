"""The GPU's rows through TensorFlow, in its own process: our op against stock jit_compile and the plain graph.

PyTorch's compiled forms need Triton, which no process with TensorFlow can import: they are in `tfxla-bench gpu
--modules`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .gpu_bundle import tf_dtype
from .gpu_rows import Draw, GpuRow, switched
from .gpu_suite import COPY, OURS, STOCK, Result
from .gpu_timing import MARK, WARM_ROUNDS, spans
from .measure import Timing, summary

GRAPH = "graph"
Call = Callable[[], Any]


def machine() -> str:
    """The name of TensorFlow's first GPU, of whose memory TensorFlow takes what it needs from here on;
    UnsupportedError where there is none."""
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        raise UnsupportedError("TensorFlow sees no GPU", "--modules DIR measures without TensorFlow")
    tf.config.experimental.set_memory_growth(devices[0], True)
    return str(tf.config.experimental.get_device_details(devices[0]).get("device_name", ""))


def run(row: GpuRow, rounds: int) -> Result:
    """Measures a row on TensorFlow's first GPU."""
    import tensorflow as tf

    with switched(tf, row):
        return _run(tf, row, rounds)


def _run(tf: Any, row: GpuRow, rounds: int) -> Result:
    import tfxla_cluster

    with tf.device("GPU:0"):
        tensors = [_drawn(draw, seed) for seed, draw in enumerate(row.inputs)]
    result = Result(row.case, row.family, flops=row.flops)

    def form(*args: Any) -> Any:
        return row.tf_fn(tf, *args)

    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        STOCK: lambda: tf.function(form, jit_compile=True, autograph=False),
        GRAPH: lambda: tf.function(form, autograph=False),
        OURS: lambda: _native(tfxla_cluster.jit(form), tensors),
    }
    calls: dict[str, Call] = {}
    expected: list[Any] = []
    for name, make in makers.items():
        try:
            fn = make()
            found = tf.nest.flatten(fn(*tensors))
        except Exception as error:  # noqa: BLE001 - it is told and fails the run
            result.failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            continue
        result.errors[name] = _error(found, expected or found)
        if result.errors[name] > row.tolerance:
            result.failed[name] = f"differs from {STOCK} by {result.errors[name]:.1e}"
            continue
        expected = expected or found
        calls[name] = lambda fn=fn: fn(*tensors)  # type: ignore[misc]
    result.moved = sum(_bytes(tensor) for tensor in (*tensors, *expected))
    calls[COPY] = _copier(result.moved)
    result.burst = burst(calls, rounds)
    return result


def _native(fn: Callable[..., Any], tensors: Sequence[Any]) -> Callable[..., Any]:
    """`fn` after its first call; RuntimeError where that ran anything but native kernels."""
    import tfxla_cluster

    before = tfxla_cluster.stats()
    fn(*tensors)
    after = tfxla_cluster.stats()
    grown = {name: after[name] - before[name] for name in ("kernels", "native_kernels", "fallbacks")}
    if grown["fallbacks"] or not grown["kernels"] or grown["kernels"] != grown["native_kernels"]:
        raise RuntimeError(f"not native: {grown}, {after['fallback_reasons']}")
    return fn


def _drawn(draw: Draw, seed: int) -> Any:
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(seed)
    if draw.below:
        return tf.cast(generator.uniform(draw.shape, 0, draw.below, tf.int32), tf_dtype(draw.dtype))
    return tf.cast(generator.normal(draw.shape) * draw.scale, tf_dtype(draw.dtype))


def _bytes(tensor: Any) -> int:
    return int(np.prod(tensor.shape)) * int(tensor.dtype.size)


def _error(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """As gpu_peers.error."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        one, other = (np.asarray(x).astype(np.float64) for x in (a, b))
        if one.shape != other.shape or not np.array_equal(np.isnan(one), np.isnan(other)):
            return float("inf")
        scale = max(float(np.abs(np.nan_to_num(other)).max(initial=0.0)), 1e-30)
        worst = max(worst, float(np.abs(np.nan_to_num(one - other)).max(initial=0.0)) / scale)
    return worst


def _copier(moved: int) -> Call:
    import tensorflow as tf

    with tf.device("GPU:0"):
        source = tf.ones([max(moved // 8, 1)])
    return lambda: tf.raw_ops.DeepCopy(x=source)


def burst(contenders: Mapping[str, Call], rounds: int) -> dict[str, Timing]:
    """As gpu_timing.burst, by TensorFlow's profiler."""
    import tensorflow as tf

    wait = tf.test.experimental.sync_devices
    for _ in range(WARM_ROUNDS):
        for call in contenders.values():
            call()
    wait()

    def samples() -> None:
        for _ in range(rounds):
            for name, call in contenders.items():
                with tf.profiler.experimental.Trace(MARK + name):
                    call()
                    wait()

    marks, work = profiled(samples)
    found = spans(marks, [(start, end) for _, start, end in work])
    return {name: summary(found[name]) for name in contenders}


Span = tuple[str, float, float]


def profiled(call: Callable[[], object]) -> tuple[list[Span], list[Span]]:
    """What `of_profile` finds in TensorFlow's profile of `call`, which waits for what it starts."""
    import tensorflow as tf

    profiler = tf.profiler.experimental
    options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=1)
    with tempfile.TemporaryDirectory() as directory:
        with profiler.Profile(directory, options):
            call()
        (path,) = Path(directory).rglob("*.xplane.pb")
        return of_profile(path.read_bytes())


def of_profile(data: bytes) -> tuple[list[Span], list[Span]]:
    """The marks and the work of a GPU in an XSpace: (name, start, end) in microseconds. Lines of a GPU that only
    repeat names of what runs on its streams are no work."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(data)
    marks, work = [], []
    for plane in space.planes:
        on_device = plane.name.startswith("/device:GPU")
        for line in plane.lines:
            if on_device and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                start = line.timestamp_ns / 1e3 + event.offset_ps / 1e6
                name = plane.event_metadata[event.metadata_id].name
                if on_device:
                    work.append((name, start, start + event.duration_ps / 1e6))
                elif name.startswith(MARK):
                    marks.append((name.removeprefix(MARK), start, start + event.duration_ps / 1e6))
    return marks, work
