"""The least time of bytes and operations: between and beyond what was measured, on a CPU and by a GPU's driver."""

from __future__ import annotations

import dataclasses

import pytest

from tfxla_cluster.backends import cpu, gpu, interpreter
from tfxla_cluster.runtime.cpu import floor as cpu_floor
from tfxla_cluster.runtime.floor import Floor
from tfxla_cluster.runtime.gpu import driver as drivers
from tfxla_cluster.runtime.gpu import floor as gpu_floor
from tfxla_cluster.runtime.gpu.driver import Driver

from .gpu_double import Library

FLOOR = Floor(((100, 1.0), (200, 3.0)), 50.0)


@pytest.mark.parametrize(
    ("moved", "operations", "ms"),
    [(0, 0, 0), (50, 0, 0.5), (100, None, 1), (150, 10, 2), (200, 0, 3), (400, 0, 6), (100, 100, 2), (0, 25, 0.5)],
)
def test_times(moved: int, operations: int | None, ms: float) -> None:
    assert FLOOR.milliseconds(moved, operations) == pytest.approx(ms)


def test_a_rate_that_is_not_known_costs_nothing() -> None:
    assert dataclasses.replace(FLOOR, operations=None).milliseconds(100, 10**12) == 1


def test_this_cpu() -> None:
    found = cpu.this_machine().floor()
    assert found is cpu_floor.floor()
    sizes = [size for size, _ in found.copies]
    assert sizes == sorted(set(sizes))
    assert all(ms > 0 for _, ms in found.copies)
    assert found.operations is not None
    assert found.operations > 1e5  # 100 million a second
    assert found.milliseconds(1 << 30, 0) > found.milliseconds(1 << 10, 0) > 0
    assert interpreter.this_machine().floor() is None


def test_gpus_as_their_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the double, an H200: 4.9 TB/s, and 1.07 PFLOP/s."""
    device = Driver(Library()).device(0)
    found = gpu_floor.floor(device)
    assert found.milliseconds(10**9, 0) == pytest.approx(1 / 4.917, rel=1e-3)
    assert found.milliseconds(0, 10**12) == pytest.approx(1 / 1.0706, rel=1e-3)
    monkeypatch.setattr(type(device), "arch", "sm_75")
    assert gpu_floor.floor(device).operations is None
    monkeypatch.setattr(type(device), "memory_khz", 0)
    assert gpu_floor.floor(device) is None
    monkeypatch.undo()
    monkeypatch.setattr(drivers, "driver", lambda: device.driver)
    assert gpu.described().floor() is None
    assert dataclasses.replace(gpu.described(), device=0).floor() == gpu_floor.floor(device)
