"""Which kernels of a dump a profile lacks."""

from __future__ import annotations

from tests.device.kernel_times import summed
from tests.device.profile_check import missing


def test_missing_kernels_are_named() -> None:
    profile = summed([("tfxla_a", 0.0, 1.0), ("tfxla_b", 1.0, 2.0)], 1)
    assert missing(profile, {"tfxla_b": ()}) == []
    assert missing(profile, {"tfxla_c": (), "tfxla_a": (), "tfxla_0": ()}) == ["tfxla_0", "tfxla_c"]
