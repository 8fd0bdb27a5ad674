"""What a cluster is given, in the user's words: an argument of the function it lies in, the value of a variable, or
what an op outside of it computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..graph.view import Graph, NodeDef, attr

_ARGUMENTS = frozenset({"_Arg", "Placeholder"})
_SAME = frozenset({"Identity", "ReadVariableOp"})  # what they give is what they take


@dataclass(frozen=True, slots=True)
class Given:
    """name: as the graph has it. kind: 'argument', 'variable', or 'value' of an op. argument: its number among those of
    the function around, -1 for what is none."""

    name: str
    kind: str
    argument: int = -1

    def named(self, names: Mapping[int, str]) -> str:
        """Its name, where `names` of the function's arguments may know it better."""
        return names.get(self.argument, self.name)


def given(graph: Graph, source: int, port: int) -> Given:
    """Of output `port` of a node outside of the cluster."""
    node, start = graph.nodes[source], source
    kind = "argument"
    while node.op in _SAME and graph.data[start]:
        kind = "variable" if node.op == "ReadVariableOp" else kind
        start, read = graph.data[start][0]
        node = graph.nodes[start]
        if read:
            break
    if node.op not in _ARGUMENTS:
        name = graph.nodes[source].name
        return Given(f"{name}:{port}" if port else name, "value")
    return Given(_argument_name(node), kind, int(attr(node, "index", -1)))


def _argument_name(node: NodeDef) -> str:
    named = attr(node, "_user_specified_name", b"").decode()
    return named if named not in ("", "resource") else node.name
