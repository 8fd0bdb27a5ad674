"""How close two arrays must be where terms cancel: sums, products and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_near(got: Any, want: Any, tolerance: float, name: str = "") -> None:
    """Same shape; NaN and infinity in the same places; the rest within `tolerance` of the largest wanted element.

    However small that is: a gradient of 1e-4 is wrong by as many digits as one of 1. Tolerance 0, and results that are
    no floats: equal.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, name
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=0)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest, err_msg=name)
