"""`explain`: a line an op, in its cluster or with the rule that left it out; and the groups of ops flags name."""

from __future__ import annotations

import tensorflow as tf

from tfxla_cluster import flags
from tfxla_cluster.tf.clustering.explain import explain
from tfxla_cluster.tf.graph.op_groups import GROUPS


def mixed(x: tf.Tensor) -> tf.Tensor:
    y = tf.tanh(x) * 2.0 + 1.0
    return tf.strings.as_string(tf.exp(y) - y)


def lines(**changes: object) -> dict[str, str]:
    """Op type -> its line."""
    with flags.patch(tf_xla_min_cluster_size=2, **changes):
        return {line.split()[0]: line for line in explain(mixed, tf.ones([2])).splitlines()}


def test_in_a_cluster_or_why_not() -> None:
    found = lines()
    assert ": in cluster_" in found["Tanh"]
    assert "test_explain.py:" in found["Tanh"]
    assert "left out" in found["AsString"]
    assert ": in " not in found["AsString"]


def test_asking_works_while_clustering_is_off_and_changes_nothing() -> None:
    before = flags.values()
    assert ": in cluster_" in lines(tf_xla_auto_jit="-1")["Exp"]
    assert flags.values() == before


def test_only_the_ops_that_the_flag_names() -> None:
    found = lines(tf_xla_ops_to_cluster="PW")
    assert all(": in cluster_" in found[op] for op in ("Tanh", "Exp") if op in GROUPS["PW"])
    assert "left out" in lines(tf_xla_ops_to_cluster="RED")["Tanh"]


def test_fusible_is_all_groups_together() -> None:
    assert GROUPS["FUSIBLE"] == frozenset().union(*(ops for name, ops in GROUPS.items() if name != "FUSIBLE"))
    assert {"Tanh", "Sum", "TopKV2"} <= GROUPS["FUSIBLE"]
