"""What the runtime tells a profiler: here one of Python's."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tfxla_cluster.runtime.cpu import native
from tfxla_cluster.runtime.cpu.executable import Executable
from tfxla_cluster.runtime.cpu.profiler import WORDS
from tfxla_cluster.runtime.launcher.encode import encode
from tfxla_cluster.runtime.plan import CopyStep, LaunchPlan, Ref

from .hand import HandCode, kernel, vector

Seen = list[tuple[str, int, int]]


class Event(ctypes.Structure):
    """tsl::profiler::TraceMeRecorder::Event."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("unused", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
    )


@pytest.fixture
def recorder() -> Iterator[tuple[ctypes.c_int32, Seen]]:
    """The level that is recorded, and the events."""
    seen: Seen = []
    level = ctypes.c_int32(-1)
    kept: list[ctypes.Array[ctypes.c_char]] = []

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(Event))
    def record(event: ctypes._Pointer[Event]) -> None:
        found = event.contents
        assert found.bytes == found.capacity == len(found.name)
        seen.append((found.name.decode(), found.start, found.end))

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    def allocate(size: int) -> int:
        kept.append(ctypes.create_string_buffer(b"x" * size, size))
        return ctypes.addressof(kept[-1])

    functions = {"record": record, "allocate": allocate}
    words = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}
    before = native._profiler
    native.profile_by({**words, "level": ctypes.addressof(level)})
    yield level, seen
    native.profile_by(before)


def plan() -> LaunchPlan:
    steps = (
        kernel("add", [Ref("input", 0), Ref("input", 0)], [Ref("temp", 0, 0)], 3, 1),
        CopyStep(Ref("temp", 0, 0), Ref("output", 0), 12),
    )
    return LaunchPlan("p", (vector(3),), (vector(3),), (), steps, (), 64)


def test_nobody_profiles(recorder: tuple[ctypes.c_int32, Seen]) -> None:
    level, seen = recorder
    level.value = 3
    native.profile_by({})
    Executable(plan(), HandCode()).run([np.zeros(3, np.float32)])
    assert seen == []
    assert ctypes.string_at(native.runtime().profiler, 8 * len(WORDS)) == bytes(8 * len(WORDS))


def test_steps_are_recorded_while_the_level_asks_for_them(recorder: tuple[ctypes.c_int32, Seen]) -> None:
    level, seen = recorder
    executable = Executable(plan(), HandCode())
    data = [np.arange(3, dtype=np.float32)]
    for wanted, expected in ((-1, 0), (0, 0), (1, 0), (2, 2), (3, 4), (-1, 4)):
        level.value = wanted
        before = time.time_ns()
        executable.run(data)
        assert len(seen) == expected
        for _, start, end in seen[-2:] if wanted >= 2 else ():
            assert before - 1_000_000 <= start <= end <= time.time_ns() + 1_000_000
    assert [name for name, _, _ in seen[:2]] == [name for name, _, _ in seen[2:]] == names(executable.plan)


def names(plan: LaunchPlan) -> list[str]:
    """Of its steps, as timings have them."""
    return [step.name for step in encode(plan, lambda step: 1).timed]
