"""Which windows are cumulative ops."""

from __future__ import annotations

import pytest

from tfxla_cluster.ir.dim import Dim, sym
from tfxla_cluster.ir.node import WindowDim
from tfxla_cluster.ir.windows import Scan, is_trivial, scan_of

N, ONE = sym("n", 5, 1), WindowDim(1)
ROWS: list[tuple[tuple[WindowDim, ...], tuple[Dim, ...], Scan | None]] = [
    ((WindowDim(5, 1, 4, 0), ONE), (5, 3), Scan(0, False, True)),
    ((ONE, WindowDim(3, 1, 0, 2)), (5, 3), Scan(1, True, True)),
    ((ONE, WindowDim(3, 1, 3, 0)), (5, 3), Scan(1, False, False)),
    ((WindowDim(5, 1, 0, 5), ONE), (5, 3), Scan(0, True, False)),
    ((WindowDim(N, 1, N - 1, 0), ONE), (N, N), Scan(0, False, True)),
    ((WindowDim(N * 2, 1, 0, N + N), ONE), (N + N, 3), Scan(0, True, False)),
    ((WindowDim(1, 1, 1, 0),), (1,), Scan(0, False, False)),
    ((WindowDim(1),), (1,), None),
    ((), (), None),
    ((WindowDim(5, 1, 4, 1), ONE), (5, 3), None),
    ((WindowDim(5, 1, 4, 0), ONE), (6, 3), None),
    ((WindowDim(5, 1, 4, 0), WindowDim(1, 2)), (5, 3), None),
    ((WindowDim(5, 2, 4, 0), ONE), (5, 3), None),
    ((WindowDim(5, 1, 4, 0, 2), ONE), (5, 3), None),
    ((WindowDim(N, 1, N, 0), ONE), (N + 1, 3), None),
]


@pytest.mark.parametrize(("window", "dims", "scan"), ROWS)
def test_scans(window: tuple[WindowDim, ...], dims: tuple[Dim, ...], scan: Scan | None) -> None:
    assert scan_of(window, dims) == scan


def test_what_leaves_a_dimension_alone() -> None:
    assert is_trivial(WindowDim(1))
    assert is_trivial(WindowDim(1, window_dilation=3))
    for dim in (WindowDim(2), WindowDim(1, 2), WindowDim(1, 1, 1), WindowDim(1, 1, 0, 1), WindowDim(1, 1, 0, 0, 2)):
        assert not is_trivial(dim)
