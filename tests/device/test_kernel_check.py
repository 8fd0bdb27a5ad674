"""What the check of kernels on a GPU takes for wrong."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from tests.device.kernel_check import POISON, difference, run
from tests.runtime.gpu_double import double
from tests.runtime.gpu_double_parts import Kernel, image
from tests.runtime.hand import vector
from tfxla_cluster.runtime import plan_json
from tfxla_cluster.runtime.plan import KernelStep, LaunchPlan, Ref

FLOATS = np.array([1.0, -2.0, np.nan, np.inf, 0.0], np.float32)


@pytest.mark.parametrize(
    ("got", "ulps", "said"),
    [
        ([1.0, -2.0, np.nan, np.inf, 0.0], 0, ""),
        ([1.0, -2.0, np.nan, np.inf, 1e-7], 2, ""),
        ([1.0, -2.0, np.nan, np.inf, 1e-6], 2, "off by"),
        ([1.0, -2.0, np.nan, np.inf, 1e-7], 0, "not equal"),
        ([1.0, np.nan, -2.0, np.inf, 0.0], 2, "NaN elsewhere"),
        ([1.0, -2.0, np.nan, -np.inf, 0.0], 2, "infinities differ"),
    ],
)
def test_differences_of_floats(got: list[float], ulps: int, said: str) -> None:
    found = difference(np.array(got, np.float32), FLOATS, ulps)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_integers_are_equal_or_wrong() -> None:
    want = np.array([1, 2], np.int32)
    assert not difference(want.copy(), want, 8)
    assert difference(want + 1, want, 8) == "not equal"
    assert difference(want.astype(np.int64), want, 8).startswith("int64[2], not int32[2]")


def test_bf16_is_as_close_as_its_bits_say() -> None:
    want = np.array([1.5], ml_dtypes.bfloat16)
    assert not difference(np.array([1.507], ml_dtypes.bfloat16), want, 1)
    assert difference(np.array([1.53], ml_dtypes.bfloat16), want, 1).startswith("off by")


def test_nan_of_eight_bits_is_equal_to_itself() -> None:
    want = np.array([np.nan, 1.5, -0.0], ml_dtypes.float8_e4m3fn)
    assert not difference(want.copy(), want, 0)
    assert difference(np.array([1.0, 1.5, -0.0], want.dtype), want, 0) == "not equal"


def test_what_runs_starts_poisoned() -> None:
    """A case by the double of the driver: right, and told where its kernel writes something else."""
    driver, library = double()
    library.kernels["half"] = Kernel((np.dtype(np.float32),) * 2, 0, half)
    x = np.arange(4, dtype=np.float32)
    step = KernelStep("half", (Ref("input", 0),), (Ref("output", 0),), (), 1, params=(("object", 0), ("num_warps", 1)))
    plan = LaunchPlan("p", (vector(4),), (vector(4),), (), (step,), (), 0)
    bundle = {"cubins": [image("half")]}
    case = {"name": "half", "plan": plan_json.dumps(plan), "cubins": [0], "inputs": [x]}
    (found,) = run(bundle, case, driver)
    np.testing.assert_array_equal(found[:2], 2 * x[:2])
    assert (found[2:].view(np.uint8) == POISON).all()


def half(arrays: Sequence[np.ndarray], sizes: Sequence[int], tasks: int) -> None:
    """Writes half of what it should."""
    arrays[1][:2] = 2 * arrays[0][:2]
