"""The BERT step at a small size: compiled by this package it is TensorFlow's own."""

from __future__ import annotations

from tests.device.bert_step import Size, run

SMALL = Size(layers=1, hidden=32, heads=2, inner=64, words=97, tokens=8)


def test_compiled_step_has_the_loss_of_the_graph() -> None:
    (graph,), (must,) = (run(mode, [3], SMALL) for mode in ("graph", "must"))
    assert abs(graph["loss"] - must["loss"]) < 2e-3 * graph["loss"]
    assert must["sequences_per_s"] > 0
