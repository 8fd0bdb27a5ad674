"""The nodes that numeric checks and printing put around a cluster."""

from __future__ import annotations

import pytest
from tensorflow.core.framework import graph_pb2, types_pb2

from tfxla_cluster import flags
from tfxla_cluster.tf.clustering import cluster_checks
from tfxla_cluster.tf.clustering.cluster_checks import Checks

FLOAT, INT = types_pb2.DT_FLOAT, types_pb2.DT_INT32


def test_flags_off_ask_for_nothing() -> None:
    assert cluster_checks.from_flags() is None


@pytest.mark.parametrize(
    ("flag", "checks"),
    [
        ("tf_xla_check_cluster_input_numerics", Checks(True, False, False)),
        ("tf_xla_check_cluster_output_numerics", Checks(False, True, False)),
        ("tf_xla_print_cluster_outputs", Checks(False, False, True)),
    ],
)
def test_each_flag_asks_for_its_own(flag: str, checks: Checks) -> None:
    with flags.patch(**{flag: True}):
        assert cluster_checks.from_flags() == checks


def test_an_input_is_checked_under_its_name() -> None:
    made = graph_pb2.GraphDef()
    assert Checks(True, False, False).input(made, "cluster_0", 1, "x:2", FLOAT) == "cluster_0/check_input_1"
    (node,) = made.node
    assert (node.op, list(node.input), node.attr["T"].type) == ("CheckNumerics", ["x:2"], FLOAT)
    assert node.attr["message"].s == b"input 1 (x) of cluster_0"


def test_an_output_is_printed_and_then_checked() -> None:
    made = graph_pb2.GraphDef()
    value = Checks(False, True, True).output(made, "cluster_0", 0, "cluster_0/call", FLOAT)
    printed, checked = made.node
    assert (printed.op, list(printed.input)) == ("Print", ["cluster_0/call"] * 2)
    assert (checked.op, list(checked.input)) == ("CheckNumerics", [printed.name])
    assert value == checked.name


@pytest.mark.parametrize("checks", [Checks(False, False, False), Checks(True, True, False)])
def test_values_that_cannot_be_nan_pass_as_they_are(checks: Checks) -> None:
    made = graph_pb2.GraphDef()
    assert checks.input(made, "c", 0, "x", INT) == "x"
    assert checks.output(made, "c", 0, "y", INT) == "y"
    assert not made.node


def test_no_later_pass_clusters_the_checks() -> None:
    made = graph_pb2.GraphDef()
    Checks(True, True, True).output(made, "c", 0, "y", FLOAT)
    assert all(node.attr[cluster_checks.CLUSTERED_ATTR].b for node in made.node)
