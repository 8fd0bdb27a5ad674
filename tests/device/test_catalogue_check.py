"""What the check of the catalogue on a GPU tells; the programs themselves are run by tests/programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.device import catalogue_check

STATS = {"native_kernels": 3, "kernels": 3, "fallbacks": 0, "fallback_reasons": {}}
WANT = {"loss": np.float32(2.0), "w": np.array([1.0, -4.0])}


def told(found: Any, expected: Any = WANT, **stats: Any) -> tuple[str, bool]:
    answers = {"must": {"lstm": (found, {**STATS, **stats})}, "stock": {"lstm": (expected, {})}}
    return catalogue_check.line("lstm", "must", answers)


def test_what_agrees_is_right() -> None:
    text, is_right = told({"loss": 2.0, "w": np.array([1.0, -4.00004])})
    assert is_right
    assert text.split()[:5] == ["lstm", "must", "ok", "1.0e-05", "w"]


@pytest.mark.parametrize(
    ("found", "expected", "stats", "said"),
    [
        ({**WANT, "w": np.array([1.0, -4.1])}, WANT, {}, "DIFFERS"),
        ({**WANT, "w": np.array([math.nan, -4.0])}, WANT, {}, "inf w"),
        ("Traceback: it raised", WANT, {}, "it raised"),
        (WANT, "Traceback: stock raised", {}, "stock raised"),
        (WANT, WANT, {"native_kernels": 2}, "2/3"),
        (WANT, WANT, {"native_kernels": 0, "kernels": 0}, "0/0"),
        (WANT, WANT, {"native_kernels": 0, "kernels": 0, "fallbacks": 1, "fallback_reasons": {"no": 1}}, "{'no': 1}"),
    ],
)
def test_what_is_wrong_says_so(found: Any, expected: Any, stats: dict[str, Any], said: str) -> None:
    text, is_right = told(found, expected, **stats)
    assert not is_right
    assert said in text
