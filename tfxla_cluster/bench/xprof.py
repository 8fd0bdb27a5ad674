"""TensorFlow's profiler: what of a call ran when, from its XPlane."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from .gpu_timing import MARK

_STREAM = "Stream"  # how names of lines of a GPU begin on which something runs: others repeat what runs on these
# What the profiler, its thread pools and marks of steps write down themselves.
_NO_WORK = re.compile(rf"ThreadpoolListener::|^python|^{MARK}|^EagerLocalExecute|^EagerExecute|^\$")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that ran: microseconds from start to end, on a GPU or on the host."""

    name: str
    start: float
    end: float
    on_device: bool


class Recording:
    """TensorFlow's profiler at work, from here to `stop`."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        tf.profiler.experimental.start(self._directory.name, options)

    def stop(self) -> list[Event]:
        """What it saw."""
        with self._directory as name:
            tf.profiler.experimental.stop()
            (path,) = Path(name).rglob("*.xplane.pb")
            return events(path.read_bytes())


def profile(call: Callable[[], object]) -> list[Event]:
    """What TensorFlow's profiler saw of `call`, which waits for what it starts."""
    recording = Recording()
    try:
        call()
    finally:
        found = recording.stop()
    return found


def events(space: bytes) -> list[Event]:
    """Those of a serialised XSpace; of a GPU what runs on its streams."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    found = []
    parsed = xplane_pb2.XSpace()
    parsed.ParseFromString(space)
    for plane in parsed.planes:
        on_device = plane.name.startswith("/device:GPU")
        for line in plane.lines:
            if on_device and not line.name.startswith(_STREAM):
                continue
            for event in line.events:
                start = line.timestamp_ns / 1e3 + event.offset_ps / 1e6
                name = plane.event_metadata[event.metadata_id].name
                found.append(Event(name, start, start + event.duration_ps / 1e6, on_device))
    return found


def busy_ms(found: Sequence[Event], on_device: bool, pattern: str | None = None) -> float:
    """Milliseconds in which at least one event was under way that ran there and whose name `pattern` is found in
    (None: any that is work); 0.0 for none."""
    spans = [
        (event.start, event.end)
        for event in found
        if event.on_device == on_device
        and (_NO_WORK.search(event.name) is None if pattern is None else re.search(pattern, event.name) is not None)
    ]
    return _union(spans) / 1e3


def _union(spans: Iterable[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
