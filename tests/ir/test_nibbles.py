"""bitcast-convert between numbers of 4 bits and wider ones: two a byte, the first in its low bits."""

from __future__ import annotations

import numpy as np
import pytest

from tfxla_cluster.ir import text
from tfxla_cluster.ir.dtype import DTYPES
from tfxla_cluster.ir.evaluator import evaluate


def converted(have: str, dims: str, want: str, out: str, values: object) -> list[int]:
    module = text.parse(
        f"HloModule m\nENTRY e {{ x = {have}[{dims}] parameter(0)\n  ROOT r = {want}[{out}] bitcast-convert(x) }}"
    )
    (found,) = evaluate(module, [np.asarray(values, np.int64).astype(DTYPES[have].numpy)])
    assert found.dtype == DTYPES[want].numpy
    return np.asarray(found).astype(np.int64).tolist()


@pytest.mark.parametrize(
    ("have", "dims", "want", "out", "values", "result"),
    [
        ("s4", "3,2", "s8", "3", [[1, 2], [-1, 3], [7, -8]], [33, 63, -121]),
        ("u4", "2", "u8", "", [15, 1], 31),
        ("s8", "3", "s4", "3,2", [33, 63, -121], [[1, 2], [-1, 3], [7, -8]]),
        ("s8", "1", "u4", "1,2", [-1], [[15, 15]]),
        ("s4", "4", "s16", "", [1, 2, 3, 4], 0x4321),
        ("u16", "", "u4", "4", 0x4321, [1, 2, 3, 4]),
        ("s4", "2", "u4", "2", [-1, 7], [15, 7]),
        ("s8", "0", "s4", "0,2", [], []),
    ],
)
def test_numbers_of_four_bits(have: str, dims: str, want: str, out: str, values: object, result: object) -> None:
    assert converted(have, dims, want, out, values) == result
