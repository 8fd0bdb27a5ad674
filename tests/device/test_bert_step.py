"""The BERT step at a small size: compiled by this package it is TensorFlow's own."""

from __future__ import annotations

import pytest

import tfxla_cluster
from tests.device.bert_step import Size, run

SMALL = Size(layers=1, hidden=32, heads=2, inner=64, words=97, tokens=8)


@pytest.fixture(scope="module")
def graph_loss() -> float:
    (row,) = run("graph", [3], SMALL)
    return float(row["loss"])


@pytest.mark.parametrize("mode", ["must", "auto"])
def test_compiled_step_has_the_loss_of_the_graph(mode: str, graph_loss: float) -> None:
    before = tfxla_cluster.stats()
    with tfxla_cluster.config.patch(tf_xla_cpu_global_jit=True):
        (row,) = run(mode, [3], SMALL)
    after = tfxla_cluster.stats()
    assert abs(graph_loss - row["loss"]) < 2e-3 * graph_loss
    assert row["sequences_per_s"] > 0
    assert after["native_kernels"] > before["native_kernels"]
    assert after["fallbacks"] == before["fallbacks"]
