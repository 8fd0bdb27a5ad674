"""The device's check of memory that runs out, on this machine's processor, where all programs fit: that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

import tfxla_cluster
from tests.device.memory_check import GRAPHS, MODES, PROGRAMS, cases, check


def _exhausted(call: Any, limit: int) -> Any:
    def called(x: Any) -> Any:
        if x.shape[0] > limit:
            raise tf.errors.ResourceExhaustedError(None, None, "of the test")
        return call(x)

    return called


def test_what_fits_or_fails_otherwise_is_wrong() -> None:
    before = tfxla_cluster.stats()
    with tfxla_cluster.config.patch(tf_xla_cpu_global_jit=True), tfxla_cluster.enable():
        found = cases(300)
        after = tfxla_cluster.stats()
        assert len(found) == len(PROGRAMS) * len(MODES) * len(GRAPHS)
        assert after["native_kernels"] > before["native_kernels"]
        assert after["fallbacks"] == before["fallbacks"]
        names = [case.name for case in found]
        assert check(found, 1) == names
        full = [replace(case, call=_exhausted(case.call, 200)) for case in found]
        assert check(full, 2) == []
        assert check([replace(case, wanted=case.wanted + 1) for case in full[:2]], 1) == names[:2]
        assert check([replace(case, call=_exhausted(case.call, 100)) for case in full[:1]], 1) == names[:1]
