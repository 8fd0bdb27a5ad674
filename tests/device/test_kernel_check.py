"""What the check of kernels on a GPU takes for wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.device.kernel_check import difference, numbers

FLOATS = np.array([1.0, -2.0, np.nan, np.inf, 0.0])


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
    found = difference(np.array(got), FLOATS, "float32", ulps)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_integers_are_equal_or_wrong() -> None:
    assert not difference(np.array([1, 2]), np.array([1, 2]), "int32", 8)
    assert difference(np.array([1, 3]), np.array([1, 2]), "int32", 8) == "not equal"


def test_bf16_is_read_by_its_bits() -> None:
    assert numbers(b"\xc0\x3f", "bfloat16").tolist() == [1.5]
