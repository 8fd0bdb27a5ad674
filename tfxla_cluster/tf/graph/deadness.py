"""When does a node run? Nodes with different answers must not share a cluster.

In lowered control flow a Switch sends a dead tensor down one side, and everything it reaches does not run. A
cluster runs as one op, so one dead input would kill all of it. Each node gets the set of conditions under which
it runs; two sets are equal only if they certainly mean the same.

Conditions: ('switch', predicate, branch) for one side of a Switch, ('merge', node) for the result of a Merge whose
inputs are not the two sides of one Switch, ('frame', name) inside a v1 loop, ('loop', name) for its iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .view import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES, Graph, attr

Conditions = frozenset[tuple[object, ...]]


def frame_of(graph: Graph, i: int) -> str:
    """The frame name of an Enter node."""
    return str(attr(graph.nodes[i], "frame_name", b"").decode())


def frames(graph: Graph, order: Iterable[int]) -> list[str]:
    """The innermost v1 loop each node runs in, by frame name ('' outside loops); an Exit belongs to its loop."""
    found = [""] * len(graph)
    parent: dict[str, str] = {}
    for i in order:
        around = ""
        for source in graph.sources(i):
            frame = found[source]
            around = around or (parent.get(frame, "") if graph.nodes[source].op in EXITS else frame)
        if graph.nodes[i].op in ENTERS:
            found[i] = frame_of(graph, i)
            parent.setdefault(found[i], around)
        else:
            found[i] = around
    return found


def analyse(graph: Graph, order: Sequence[int]) -> list[Conditions]:
    """The conditions of each node. `order`: topological, as Graph.topological gives it.

    A Switch's own entry is that of its inputs; its outputs add a condition, which `of_edge` applies. An Exit runs
    when its loop was entered.
    """
    found: list[Conditions] = [frozenset()] * len(graph)
    pool: dict[Conditions, Conditions] = {}
    frame = frames(graph, order)
    entered: dict[str, Conditions] = {}
    for i in order:
        op = graph.nodes[i].op
        if op in MERGES:
            value = _merge(graph, found, i)
        elif op in EXITS and frame[i] in entered:
            value = entered[frame[i]]
        else:
            value = _union(graph, found, i)
            if op in ENTERS:
                entered[frame[i]] = entered.get(frame[i], frozenset()) | value
                value |= {("frame", frame[i])}
        found[i] = pool.setdefault(value, value)
    return found


def _union(graph: Graph, found: list[Conditions], i: int) -> Conditions:
    inputs = {of_edge(graph, found, source, port) for source, port in graph.data[i]}
    inputs.update(found[s] for s in graph.control[i])
    if len(inputs) == 1:
        return inputs.pop()
    return frozenset().union(*inputs)


def of_edge(graph: Graph, found: list[Conditions], source: int, port: int) -> Conditions:
    """The conditions under which this output is alive."""
    if graph.nodes[source].op not in SWITCHES:
        return found[source]
    predicate = graph.data[source][1] if len(graph.data[source]) > 1 else (source, 0)
    return found[source] | {("switch", predicate, port)}


def _merge(graph: Graph, found: list[Conditions], i: int) -> Conditions:
    sources = graph.data[i]
    back = [s for s, _ in sources if graph.nodes[s].op in NEXT_ITERATIONS]
    outer = [of_edge(graph, found, s, port) for s, port in sources if s not in back]
    if back or len(outer) < len([t for t in graph.nodes[i].input if not t.startswith("^")]):
        frames = {c[1] for conditions in outer for c in conditions if c[0] == "frame"}
        return frozenset().union(*outer) | {("loop", *sorted(map(str, frames)))}
    common = frozenset.intersection(*outer) if outer else frozenset()
    if _covers_switch([conditions - common for conditions in outer]):
        return common
    return common | {("merge", i)}


def _covers_switch(rests: list[Conditions]) -> bool:
    """Are these exactly the two sides of one Switch, so that one of them always runs?"""
    if len(rests) != 2 or any(len(rest) != 1 for rest in rests):
        return False
    (left,), (right,) = rests
    return left[0] == right[0] == "switch" and left[1] == right[1] and {left[2], right[2]} == {0, 1}
