"""The GPU's rows through TensorFlow: our op against stock jit_compile and the plain graph in this process, PyTorch and
XLA through JAX in another (gpu_beside), which take turns with them on the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import dtype as dtypes
from .gpu_beside import Peers
from .gpu_bundle import lowered, tf_dtype
from .gpu_rows import Draw, GpuRow, switched
from .gpu_suite import COPY, GRAPH, OURS, STOCK, Result
from .gpu_timing import MARK, WARM_ROUNDS, Samples, burst, spans, sustained, turn

if TYPE_CHECKING:  # it imports tensorflow
    from .xprof import Event, Recording

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


def run(row: GpuRow, rounds: int, peers: Peers) -> Result:
    """Measures a row on TensorFlow's first GPU, beside the peers of another process."""
    import tensorflow as tf

    with switched(tf, row):
        return _run(tf, row, rounds, peers)


def _run(tf: Any, row: GpuRow, rounds: int, peers: Peers) -> Result:
    with tf.device("GPU:0"):
        tensors = [_drawn(draw, seed) for seed, draw in enumerate(row.inputs)]
    result = Result(row.case, row.family, flops=row.flops)
    calls, expected = _contenders(tf, row, tensors, result)
    result.moved = sum(_bytes(tensor) for tensor in (*tensors, *expected))
    arrays = {"inputs": list(map(_named, tensors)), "expected": list(map(_named, expected))}
    failed, errors = peers.make(row.case, arrays, lowered(row))
    result.failed |= failed
    result.errors |= errors
    result.burst = burst([TensorFlowSide({**calls, COPY: _copier(result.moved)}), peers], rounds)
    if result.flops:
        result.sustained = sustained([TensorFlowSide(calls), peers], rounds)
    return result


def _contenders(tf: Any, row: GpuRow, tensors: Sequence[Any], result: Result) -> tuple[dict[str, Call], list[Any]]:
    """(contender -> call, what the first that ran gave); `result` is told who failed."""
    import tfxla_cluster

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
    return calls, expected


def _named(tensor: Any) -> tuple[str, np.ndarray]:
    """(HLO's name of its dtype, the array)."""
    array = tensor.numpy()
    return str(dtypes.from_numpy(array.dtype)), array


def _native(fn: Callable[..., Any], tensors: Sequence[Any]) -> Callable[..., Any]:
    """`fn` after its first call; RuntimeError where that ran anything but native kernels."""
    import tfxla_cluster

    before = tfxla_cluster.stats()
    fn(*tensors)
    after = tfxla_cluster.stats()
    names = ("executions", "kernels", "native_kernels", "fallbacks")
    grown = {name: after[name] - before[name] for name in names}
    if grown["fallbacks"] or not grown["executions"] or grown["kernels"] != grown["native_kernels"]:
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
    import tensorflow as tf

    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return float("inf")
        one, other = (tf.cast(x, tf.float64) for x in (a, b))
        nan = tf.math.is_nan(other)
        if bool(tf.reduce_any(tf.math.is_nan(one) != nan)):
            return float("inf")
        zero = tf.zeros_like(other)
        scale = float(tf.reduce_max(tf.concat([[1e-30], tf.reshape(tf.abs(tf.where(nan, zero, other)), [-1])], 0)))
        gaps = tf.where(nan | (one == other), zero, tf.abs(one - other))
        worst = max(worst, float(tf.reduce_max(tf.concat([[0.0], tf.reshape(gaps, [-1])], 0))) / scale)
    return worst


def _copier(moved: int) -> Call:
    import tensorflow as tf

    with tf.device("GPU:0"):
        source = tf.ones([max(moved // 8, 1)])
    return lambda: tf.raw_ops.DeepCopy(x=source)


class TensorFlowSide:
    """gpu_timing.Side through TensorFlow's profiler."""

    def __init__(self, contenders: Mapping[str, Call]) -> None:
        self._contenders = contenders
        self._recording: Recording | None = None

    def start(self) -> None:
        from . import xprof

        for _ in range(WARM_ROUNDS):
            for call in self._contenders.values():
                call()
        _wait()
        self._recording = xprof.Recording()

    def round(self) -> None:
        import tensorflow as tf

        for name, call in self._contenders.items():
            with tf.profiler.experimental.Trace(MARK + name):
                call()
                _wait()

    def stop(self) -> Samples:
        assert self._recording is not None
        marks, work = _marks_and_work(self._recording.stop())
        return spans(marks, [(start, end) for _, start, end in work])

    def turn(self, calls: int) -> Mapping[str, float]:
        return turn(self._contenders, calls, _wait)


def _wait() -> None:
    import tensorflow as tf

    tf.test.experimental.sync_devices()


Span = tuple[str, float, float]


def profiled(call: Callable[[], object]) -> tuple[list[Span], list[Span]]:
    """Marks and work in TensorFlow's profile of `call`, which waits for what it starts."""
    from . import xprof

    return _marks_and_work(xprof.profile(call))


def of_profile(data: bytes) -> tuple[list[Span], list[Span]]:
    """The marks and the work of a GPU in an XSpace: (name, start, end) in microseconds."""
    from . import xprof

    return _marks_and_work(xprof.events(data))


def _marks_and_work(events: Sequence[Event]) -> tuple[list[Span], list[Span]]:
    marks = [(e.name.removeprefix(MARK), e.start, e.end) for e in events if e.name.startswith(MARK) and not e.on_device]
    return marks, [(e.name, e.start, e.end) for e in events if e.on_device]
