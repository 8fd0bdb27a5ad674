"""The timed steps at small sizes: compiled by this package they are TensorFlow's own."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tests.device.step_times import run
from tfxla_cluster.bench.steps import bert, gpt, resnet
from tfxla_cluster.bench.steps.task import Task
from tfxla_cluster.bench.steps.transformer import Size

SMALL = Size(layers=1, hidden=32, heads=2, inner=64, words=97, tokens=8)


def _convolutions() -> Any:
    layers = tf.keras.layers
    pooled = [layers.GlobalAveragePooling2D(), layers.Dense(5, activation="softmax")]
    return tf.keras.Sequential(
        [tf.keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), *pooled]
    )


TASKS = {
    "bert": bert.task(SMALL),
    "gpt": gpt.train(SMALL),
    "decode": gpt.decode(SMALL, 3),
    "resnet": Task(lambda: resnet.training_step(_convolutions), lambda n: resnet.data(n, 8, 5), 3),
}


@pytest.mark.parametrize("name", TASKS)
def test_compiled_steps_have_the_loss_of_the_graph(name: str) -> None:
    task = TASKS[name]
    (graph,) = run(task, "graph", [3])
    for mode in ("must", "auto"):
        before = tfxla_cluster.stats()
        with tfxla_cluster.config.patch(tf_xla_cpu_global_jit=True):
            (row,) = run(task, mode, [3])
        after = tfxla_cluster.stats()
        assert abs(graph["loss"] - row["loss"]) <= 2e-3 * abs(graph["loss"])
        assert row["examples_per_s"] > 0
        assert after["native_kernels"] > before["native_kernels"]
        assert after["fallbacks"] == before["fallbacks"], after["fallback_reasons"]
