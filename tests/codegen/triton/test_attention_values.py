"""Attention kernels and values that are hostile to them: infinities, NaN, masks that hide all, scores of hundreds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.codegen.triton.test_attention import CASES, compare
from tests.fusion.test_attention import arguments

Q, K, V, BIAS = range(4)  # parameters of the masked case
_FIRST, _REST = np.s_[:, :100], np.s_[:, 100:]  # all keys of the first block, and those of no other
LARGE = {"spiky": 10.0, "large scores": 10.0, "one large score": 10.0}
# What is put where into the arguments of the masked case.
HOSTILE: dict[str, list[tuple[int, Any, float]]] = {
    "all far": [(BIAS, ..., -1e9)],
    "all -inf": [(BIAS, ..., -np.inf)],
    "lowest": [(BIAS, ..., float(np.finfo(np.float32).min))],
    "first block -inf": [(BIAS, _FIRST, -np.inf), (BIAS, _REST, 0.0)],
    "first block far": [(BIAS, _FIRST, -1e9), (BIAS, _REST, 0.0)],
    "first block -inf, others low": [(BIAS, _FIRST, -np.inf), (BIAS, _REST, -200.0)],
    "far above the first block": [(BIAS, _FIRST, -200.0), (BIAS, _REST, 0.0)],
    "near the largest": [(BIAS, np.s_[:, 120], 3e38)],
    "near the lowest": [(BIAS, ..., -3.2e38), (BIAS, np.s_[:, 120], -3e38)],
    "+inf": [(Q, (0, 0, 3, 0), np.inf), (K, (..., 0), 1.0)],
    "NaN score": [(Q, (0, 0, 3, 0), np.nan)],
    "NaN value": [(V, (0, 1, 140, 5), np.nan)],
    "inf value": [(V, (0, 1, 140, 5), np.inf)],
    "inf value, masked": [(V, (0, 1, 140, 5), np.inf), (BIAS, np.s_[:, 140], -np.inf)],
    "spiky": [(Q, (..., 0), 300.0)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values(name: str) -> None:
    args = arguments(CASES["mask over blocks"].text)
    for parameter, place, value in HOSTILE[name]:
        args[parameter][place] = value
    compare(CASES["mask over blocks"], args, LARGE.get(name, 1.0))


GRADIENT = replace(CASES["gradient, scaled and masked over blocks"], queries=40)
# The same for its gradient, whose first block has 64 keys and whose parameter 3 is the gradient of the result.
HOSTILE_GRADIENT: dict[str, list[tuple[int, Any, float]]] = {
    "all far": [(4, 0, -1e9)],
    "all -inf": [(4, 0, -np.inf)],
    "lowest": [(4, 0, float(np.finfo(np.float32).min))],
    "first block low": [(4, np.s_[:, :64], -200.0)],
    "first block lower": [(4, np.s_[:, :64], -20.0)],
    "first block -inf": [(4, np.s_[:, :64], -np.inf)],
    "large scores": [(Q, (..., 0), 300.0)],
    "one large score": [(Q, (0, 0, 3, 0), 300.0)],
    "NaN score": [(Q, (0, 0, 3, 0), np.nan)],
    "NaN of the result": [(3, (0, 1, 20, 5), np.nan)],
}


@pytest.mark.parametrize("name", HOSTILE_GRADIENT)
def test_hostile_values_of_gradients(name: str) -> None:
    args = arguments(GRADIENT.text)
    for parameter, place, value in HOSTILE_GRADIENT[name]:
        args[parameter][place] = value
    compare(GRADIENT, args, LARGE.get(name, 1.0))
