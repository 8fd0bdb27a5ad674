"""Names of clusters: the same in each trace of a function, others for other clusters (tf.clustering.cluster_names)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfxla_cluster.tf.clustering import cluster_names
from tfxla_cluster.tf.clustering.cluster_names import ClusterNames

Named = Callable[..., str]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Named:
    """The name of a cluster of a trace whose program has its nodes in the order of the alphabet."""
    monkeypatch.setattr(cluster_names, "_order", lambda trace: {letter: k for k, letter in enumerate("abcdefgh")})
    names = ClusterNames()
    return lambda trace, nodes, defined="a.py:1": names.name("f", defined, trace, list(nodes))


def test_the_first_op_of_the_program(named: Named) -> None:
    assert named("t1", "cba") == "a"
    assert named("t1", "fed") == "d"
    assert named("t2", "bca") == "a"
    assert named("t2", "df") == "d"


def test_another_op_before_the_first(named: Named) -> None:
    """Half of the nodes are not enough; another function's clusters are no candidates."""
    assert named("t1", "bcd") == "b"
    assert named("t2", "abcd") == "b"
    assert named("t3", "abcdefgh") == "b"
    assert named("t4", "ab") == "b", "as the latest"
    assert named("t5", "acde") == "a"
    assert named("t6", "abcd", "a.py:9") == "a"


def test_clusters_of_one_trace_have_names_of_their_own(named: Named) -> None:
    """Those of a function that is called and not inlined may have nodes of the same names; the graph of a trace may be
    made twice."""
    assert named("t1", "abc") == "a"
    other = named("t1", "abcd")
    assert other.startswith("a (")
    assert named("t1", "abcd") == other
    assert named("t2", "abc") == "a"


def test_of_no_function_that_is_known(named: Named) -> None:
    one, two = named("", "cba"), named("", "cbd")
    assert one.startswith("c (")
    assert one != two
    assert named("", "cba") == one


def test_ops_of_functions_that_are_inlined_stand_where_these_are_called() -> None:
    inner = tf.function(tf.sin)

    @tf.function
    def outer(x: Any) -> Any:
        return tf.exp(inner(tf.cos(x)))

    trace = outer.get_concrete_function(tf.TensorSpec([2])).name.decode()
    (call,) = [
        n.name for n in outer.get_concrete_function(tf.TensorSpec([2])).graph.as_graph_def().node if "Call" in n.op
    ]
    names = ClusterNames()
    assert names.name("f", "", trace, ["Exp", f"{call}/Sin"]) == f"{call}/Sin"
    assert names.name("g", "", trace, ["Exp", f"{call}/Sin", "Cos"]) == "Cos"
