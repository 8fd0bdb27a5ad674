"""Graphs of v1 control flow in a Session: a cluster in a branch that is not taken is dead, in one that is it runs.

Each graph runs without and with automatic clustering, for inputs that take either branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfxla_cluster
from tests.tf.v1_programs import PROGRAMS, Build, drawn, v1

FEEDS = [np.array(values, np.float32) for values in ([1.0, 2.0, 3.0], [-1.0, 0.5, -0.25], [0.5, 0.25, 0.125])]


@pytest.fixture
def control_flow(request: pytest.FixtureRequest) -> Any:
    """v1 or v2 control flow for what the test builds."""
    enabled = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if request.param == "v2" else v1.disable_control_flow_v2)()
    yield request.param
    (v1.enable_control_flow_v2 if enabled else v1.disable_control_flow_v2)()


def run(build: Build) -> list[Any]:
    """The results of each feed, in a graph and a session of their own."""
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [3])
        y = build(x)
        with v1.Session() as session:
            found = []
            for feed in FEEDS:
                session.run(v1.global_variables_initializer())
                found.append(session.run(y, {x: feed}))
            return found


def compare(build: Build, smallest: int) -> int:
    """Equal results; how often native code ran."""
    want = run(build)
    before = tfxla_cluster.stats()["executions"]
    options = {"tf_xla_auto_jit": "2", "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": smallest}
    with tfxla_cluster.config.patch(**options), tfxla_cluster.enable():
        got = run(build)
    for a, b in zip(tf.nest.flatten(want), tf.nest.flatten(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return int(tfxla_cluster.stats()["executions"]) - before


@pytest.mark.parametrize("control_flow", ["v1"], indirect=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_smallest_clusters(control_flow: str, name: str) -> None:
    assert compare(PROGRAMS[name], 1) > 0


_V1_ONLY = {
    "variable",  # a Session orders no variable behind a v2 branch
    "reference_variable",  # v2 branches take no references
}


@pytest.mark.parametrize("control_flow", ["v2"], indirect=True)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in _V1_ONLY])
def test_smallest_clusters_v2(control_flow: str, name: str) -> None:
    assert compare(PROGRAMS[name], 1) > 0


@pytest.mark.parametrize("control_flow", ["v1"], indirect=True)
@pytest.mark.parametrize("name", ["cond", "cond_in_loop", "loop", "gradient_of_loop", "scan"])
def test_clusters_of_the_usual_size(control_flow: str, name: str) -> None:
    compare(PROGRAMS[name], 4)


@pytest.mark.parametrize("control_flow", ["v1", "v2"], indirect=True)
@pytest.mark.parametrize("seed", range(8))
def test_drawn(control_flow: str, seed: int) -> None:
    compare(drawn(seed), 1)
    compare(drawn(seed), 2)
