"""What the times of sorts, scatters and factorisations are taken of: every row has kernels."""

from __future__ import annotations

import pytest

from tests.device.irregular_times import Row, rows
from tfxla_cluster.backends import gpu
from tfxla_cluster.ir import text

ROWS = list(rows())


def test_names_differ() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_gpu_has_kernels(row: Row) -> None:
    assert gpu.described().lower(text.parse(row.source).entry.root).steps
