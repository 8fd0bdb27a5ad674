"""`benchmark`: what it says of functions of this package and of TensorFlow's own. No test holds a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.bench import benchmark, compiled, floor, memory, xprof
from tfxla_cluster.bench.xprof import Event
from tfxla_cluster.errors import UsageError

X = tf.constant(np.random.default_rng(0).standard_normal((64, 32)), tf.float32)


def function(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True))


def measured(f: Any = function, **wanted: Any) -> tfxla_cluster.BenchmarkData:
    return tfxla_cluster.benchmark(f, [X], iterations=2, **wanted)


def test_a_function_is_compiled_and_counted() -> None:
    data = measured(lambda x: function(x) + 1.0, experiments=2, pause_s=0.001)
    assert len(data.evaluation_times_ms) == 4
    assert min(data.lower_time_ms, data.compile_time_ms, *data.evaluation_times_ms, data.floor_ms) > 0
    assert data.bytes == 4 * (64 * 32 + 64 * 64)
    assert data.operations is not None
    assert data.operations >= 2 * 64 * 64 * 32
    assert data.metadata["native"]
    assert data.metadata["kernels"] == data.metadata["native_kernels"] >= 2
    assert data.metadata["kernel_bytes"] >= data.bytes
    assert min(data.evaluation_times_ms) <= data.median_evaluation_time_ms <= max(data.evaluation_times_ms)
    assert json.loads(json.dumps(data.asdict()))["median_evaluation_time_ms"] == data.median_evaluation_time_ms


def test_what_was_compiled_before_costs_nothing_more() -> None:
    f = tfxla_cluster.jit(function)
    f(X)
    data = measured(f)
    assert data.operations is None
    assert data.metadata["native"]


@pytest.mark.parametrize("compiled", [None, True])
def test_tensorflows_own_functions_are_measured_as_they_are(compiled: bool | None) -> None:
    data = measured(tf.function(function, jit_compile=compiled))
    assert not data.metadata["native"]
    assert "kernels" not in data.metadata
    assert (data.operations, len(data.evaluation_times_ms)) == (None, 2)


def test_where_nothing_is_compiled_there_is_nothing_to_say() -> None:
    assert compiled.watch(lambda: 3) == (3, None)


def test_a_programs_own_dump_is_read_and_stays(tmp_path: Path) -> None:
    with tfxla_cluster.config.patch(xla_dump_to=str(tmp_path)):
        tfxla_cluster.jit(lambda x: x - 5.0)(X)  # not what is measured
        data = measured(lambda x: x * 3.0)
    assert data.metadata["kernels"] == 1
    assert len(list(tmp_path.glob("*.kernels.json"))) == 2


def test_by_tensorflows_profiler() -> None:
    for spelled in ("xprof_hermetic", "hermetic_xprof"):
        data = measured(tf.function(function), method=spelled)
        assert data.metadata["method"] == "xprof_hermetic"
        assert min(data.evaluation_times_ms) > 0
    with pytest.raises(UsageError, match="saw no work whose name matches 'no such kernel' on CPU:0"):
        measured(tf.function(function), method="xprof_hermetic", event_filter_regex="no such kernel")


def test_overlapping_events_count_once() -> None:
    found = [
        Event("a", 0.0, 2000.0, True),
        Event("b", 1000.0, 3000.0, True),
        Event("b", 7000.0, 8000.0, True),
        Event("c", 0.0, 9000.0, False),
    ]
    assert xprof.busy_ms(found, True) == 4.0
    assert xprof.busy_ms(found, True, "^b") == 3.0
    assert xprof.busy_ms(found, False) == 9.0
    assert xprof.busy_ms(found, False, "a") == 0.0


def test_memory_that_a_call_takes() -> None:
    few = memory.peak(lambda: np.ones(8), "CPU:0")
    many = memory.peak(lambda: np.ones(32 << 20, np.uint8), "CPU:0")
    assert few is not None
    assert many is not None
    assert 24 << 20 < many < 48 << 20
    assert few < 8 << 20


def test_floors() -> None:
    assert floor.milliseconds(0, 0, "CPU:0") == 0.0
    assert floor.milliseconds(1 << 20, 0, "CPU:0") > 0.0
    assert floor.milliseconds(0, 10**12, "CPU:0") > floor.milliseconds(0, 10**9, "CPU:0") > 0.0


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"method": "stopwatch"}, f"one of {', '.join(benchmark.METHODS)}"),
        ({"method": "cupti"}, "measures GPUs, and the results are on CPU:0"),
        ({"iterations": 0}, "iterations is 0"),
        ({"experiments": -1}, "experiments is -1"),
        ({"pause_s": float("nan")}, "pause_s is nan"),
        ({"event_filter_regex": "("}, "no regular expression"),
    ],
)
def test_wrong_use(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tfxla_cluster.benchmark(function, [X], **{"iterations": 1, **wanted})


def test_a_specification_has_no_data() -> None:
    with pytest.raises(UsageError, match="standardize_function fills it"):
        tfxla_cluster.benchmark(function, [tf.TensorSpec([2, 2])])
