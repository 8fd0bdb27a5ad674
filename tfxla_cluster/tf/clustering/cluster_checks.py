"""Nodes around clusters that look at their values: the numeric checks and the printing that flags ask for.

They stand outside, in the graph, so they hold for compiled clusters and for clusters that fell back alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorflow.core.framework import graph_pb2, types_pb2

from ... import flags
from .mark_for_compilation import CLUSTERED_ATTR

_CHECKED = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE})
_SHOWN = 20  # elements of an output that are printed


@dataclass(frozen=True)
class Checks:
    """`inputs`, `outputs`: raise where one has a NaN or an infinity. `show`: print the outputs."""

    inputs: bool
    outputs: bool
    show: bool

    def input(self, result: graph_pb2.GraphDef, cluster: str, number: int, value: str, kind: int) -> str:
        """As encapsulate.Checks."""
        if not self.inputs or kind not in _CHECKED:
            return value
        what = f"input {number} ({value.partition(':')[0]})"
        return _check(result, cluster, what, f"check_input_{number}", value, kind)

    def output(self, result: graph_pb2.GraphDef, cluster: str, number: int, value: str, kind: int) -> str:
        """As encapsulate.Checks."""
        if self.show and kind not in (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT):
            value = _print(result, cluster, number, value, kind)
        if not self.outputs or kind not in _CHECKED:
            return value
        return _check(result, cluster, f"output {number}", f"check_output_{number}", value, kind)


def from_flags() -> Checks | None:
    """What the flags ask for; None where it is nothing."""
    checks = Checks(
        flags.get("tf_xla_check_cluster_input_numerics"),
        flags.get("tf_xla_check_cluster_output_numerics"),
        flags.get("tf_xla_print_cluster_outputs"),
    )
    return checks if checks.inputs or checks.outputs or checks.show else None


def _check(result: graph_pb2.GraphDef, cluster: str, what: str, name: str, value: str, kind: int) -> str:
    node = result.node.add(name=f"{cluster}/{name}", op="CheckNumerics", input=[value])
    node.attr["T"].type = kind
    node.attr["message"].s = f"{what} of {cluster}".encode()
    node.attr[CLUSTERED_ATTR].b = True
    return node.name


def _print(result: graph_pb2.GraphDef, cluster: str, number: int, value: str, kind: int) -> str:
    node = result.node.add(name=f"{cluster}/print_output_{number}", op="Print", input=[value, value])
    node.attr["T"].type = kind
    node.attr["U"].list.type.append(kind)
    node.attr["message"].s = f"output {number} of {cluster}: ".encode()
    node.attr["summarize"].i = _SHOWN
    node.attr["first_n"].i = -1
    node.attr[CLUSTERED_ATTR].b = True
    return node.name
