"""What the times of sorts, scatters and factorisations are taken of: every row has kernels, and what is
told of one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from tests.device import irregular_times
from tests.device.irregular_times import ROUNDS, Row, measured, rows
from tfxla_cluster.backends import gpu
from tfxla_cluster.bench import gpu_peers
from tfxla_cluster.ir import text

ROWS = list(rows())


def test_names_differ() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_gpu_has_kernels(row: Row) -> None:
    assert gpu.described().lower(text.parse(row.source).entry.root).steps


class Side:
    """In place of PyTorch's: a call takes as many milliseconds as it gives."""

    def __init__(self, contenders: Mapping[str, Callable[[], float]]) -> None:
        self.contenders = contenders
        self.samples: dict[str, list[float]] = {name: [] for name in contenders}

    def start(self) -> None:
        pass

    def round(self) -> None:
        for name, call in self.contenders.items():
            self.samples[name].append(call())

    def stop(self) -> dict[str, list[float]]:
        assert {len(found) for found in self.samples.values()} == {ROUNDS}
        return self.samples


def test_a_line_for_the_peers_and_for_each_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(manual_seed=lambda seed: None))
    monkeypatch.setattr(irregular_times, "TorchSide", Side)
    monkeypatch.setattr(irregular_times, "Ours", lambda made, args: lambda: made)
    monkeypatch.setattr(gpu_peers, "xla", lambda module, args: lambda: 3.0)
    monkeypatch.setattr(gpu_peers, "error", lambda found, wanted: abs(found - wanted))
    row = Row("one", ROWS[0].source, lambda torch: [2.0], lambda torch, x: x)
    peers, default, other, refused = measured(row, {"": 2.5, "digit=8": 4.0, "digit=9": "no such digit"}, True)
    assert peers.split() == ["one", "torch", "2.0000,", "xla", "3.0000"]
    assert default.split() == ["0.800", "2.5000", "ms,", "5.0e-01", "off", "default"]
    assert other.split() == ["0.500", "4.0000", "ms,", "2.0e+00", "off", "digit=8"]
    assert refused.strip() == "digit=9: no such digit"
