"""Layered layout of a directed graph: ranks, dummies for short edges, stubs for long ones, sweeps.

Made for instruction graphs of training steps, where half of the edges span dozens of ranks and no
general engine ends: an edge over more than MAX_SPAN ranks is no line but a stub at both ends.
The order of the nodes given (the schedule) breaks every tie, so that two passes of one module look alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_SPAN = 4
SWEEPS = 5
NODE_HEIGHT, RANK_GAP, NODE_GAP, DUMMY_WIDTH = 34, 46, 18, 12
# Ranks with more nodes than this are staggered over several lines.
WIDE = 24


@dataclass(slots=True)
class Layout:
    """`x`, `y`: centre of each node, pixels. `edges`: (source, target, points between them);
    `stubs`: (source, target) of edges that are not drawn."""

    x: list[float]
    y: list[float]
    width: float
    height: float
    edges: list[tuple[int, int, list[tuple[float, float]]]]
    stubs: list[tuple[int, int]]


@dataclass(slots=True)
class _Graph:
    """Nodes and dummies of the drawing: `layers[rank]` in order, neighbours one rank up and down."""

    widths: list[float]
    ranks: list[int]
    layers: list[list[int]] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    chains: list[tuple[int, int, list[int]]] = field(default_factory=list)
    stubs: list[tuple[int, int]] = field(default_factory=list)


def layout(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """Lay out nodes 0..n-1 of the given widths; `edges` are (source, target), cycles are allowed."""
    count = len(widths)
    if not count:
        return Layout([], [], 0, 0, [], [])
    distinct = list(dict.fromkeys((a, b) for a, b in edges if a != b))
    graph = _Graph(list(widths), _ranks(count, distinct))
    _add_edges(graph, distinct)
    _order(graph)
    x = _coordinates(graph)
    y, height = _lines(graph)
    shift = min(x[i] - graph.widths[i] / 2 for i in range(len(x))) - NODE_GAP
    x = [value - shift for value in x]
    width = max(x[i] + graph.widths[i] / 2 for i in range(len(x))) + NODE_GAP
    drawn = [(a, b, [(x[d], y[d]) for d in chain]) for a, b, chain in graph.chains]
    return Layout(x[:count], y[:count], width, height, drawn, graph.stubs)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from the inputs; a node without inputs stands one rank above its first user."""
    ranks = depths(count, edges)
    users: list[list[int]] = [[] for _ in range(count)]
    read = [False] * count
    for a, b in edges:
        users[a].append(b)
        read[b] = True
    for i in range(count):
        if users[i] and not read[i]:
            ranks[i] = max(min(ranks[u] for u in users[i]) - 1, 0)
    used = {rank: place for place, rank in enumerate(sorted(set(ranks)))}
    return [used[rank] for rank in ranks]


def depths(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from the inputs to each node (Kahn's algorithm); where only cycles are left, the first node of one
    goes ahead. `edges`: each once."""
    users: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        users[a].append(b)
        waiting[b] += 1
    ranks, done = [0] * count, [False] * count
    ready = [i for i in range(count) if not waiting[i]]
    following = 0
    while True:
        while ready:
            i = ready.pop()
            if done[i]:
                continue
            done[i] = True
            for user in users[i]:
                waiting[user] -= 1
                if not done[user]:
                    ranks[user] = max(ranks[user], ranks[i] + 1)
                    if waiting[user] == 0:
                        ready.append(user)
        while following < count and done[following]:
            following += 1
        if following == count:
            return ranks
        ready.append(following)


def _add_edges(graph: _Graph, edges: Sequence[tuple[int, int]]) -> None:
    graph.above = [[] for _ in graph.widths]
    graph.below = [[] for _ in graph.widths]
    for a, b in edges:
        span = graph.ranks[b] - graph.ranks[a]
        if not 1 <= span <= MAX_SPAN:
            graph.stubs.append((a, b))
            continue
        chain = [_dummy(graph, graph.ranks[a] + step) for step in range(1, span)]
        path = [a, *chain, b]
        for upper, lower in itertools.pairwise(path):
            graph.below[upper].append(lower)
            graph.above[lower].append(upper)
        graph.chains.append((a, b, chain))
    graph.layers = [[] for _ in range(max(graph.ranks) + 1)]
    for node, rank in enumerate(graph.ranks):
        graph.layers[rank].append(node)


def _dummy(graph: _Graph, rank: int) -> int:
    graph.widths.append(DUMMY_WIDTH)
    graph.ranks.append(rank)
    graph.above.append([])
    graph.below.append([])
    return len(graph.widths) - 1


def _order(graph: _Graph) -> None:
    """Barycentre sweeps, down and up in turn; nodes without neighbours there keep their place."""
    place = [0.0] * len(graph.widths)
    for layer in graph.layers:
        _spread(layer, place)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        for layer in graph.layers if down else reversed(graph.layers):
            keys = {n: _mean(place, neighbours[n], place[n]) for n in layer}
            layer.sort(key=keys.__getitem__)
            _spread(layer, place)


def _spread(layer: list[int], place: list[float]) -> None:
    """Places in a layer as a share of its length, so that layers of different length compare."""
    for position, node in enumerate(layer):
        place[node] = (position + 0.5) / len(layer)


def _coordinates(graph: _Graph) -> list[float]:
    """x of every node: first packed and centred, then drawn to the mean of the neighbours."""
    x = [0.0] * len(graph.widths)
    gaps = [_gaps(graph, layer) for layer in graph.layers]
    for layer, gap in zip(graph.layers, gaps):
        position = -sum(gap) / 2
        for index, node in enumerate(layer):
            position += gap[index]
            x[node] = position
    for sweep in range(4):
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        numbers = range(len(graph.layers)) if down else reversed(range(len(graph.layers)))
        for number in numbers:
            layer = graph.layers[number]
            wanted = [_mean(x, neighbours[n], x[n]) for n in layer]
            for node, value in zip(layer, _fit(wanted, gaps[number])):
                x[node] = value
    return x


def _mean(values: Sequence[float], nodes: Sequence[int], default: float) -> float:
    return sum(values[n] for n in nodes) / len(nodes) if nodes else default


def _staggered(layer: list[int]) -> int:
    """Over how many lines a layer's nodes are spread."""
    return -(-len(layer) // WIDE)


def _gaps(graph: _Graph, layer: list[int]) -> list[float]:
    """Least distance from each node's predecessor in the layer (0 for the first). On staggered lines
    neighbours stand `lines` places apart, and the widest node sets the distance."""
    lines = _staggered(layer)
    if lines > 1:
        step = (max(graph.widths[n] for n in layer) + NODE_GAP) / lines
        return [0.0] + [step] * (len(layer) - 1)
    half = [graph.widths[n] / 2 + NODE_GAP / 2 for n in layer]
    return [0.0, *(a + b for a, b in itertools.pairwise(half))]


def _fit(wanted: list[float], gaps: list[float]) -> list[float]:
    """The positions nearest to `wanted` (least squares) that keep order and gaps: pool adjacent violators."""
    offsets, total = [], 0.0
    for gap in gaps:
        total += gap
        offsets.append(total)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets):
        mean, size = value - offset, 1
        while pools and pools[-1][0] > mean:
            before, count = pools.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [value + offset for value, offset in zip(flat, offsets)]


def _lines(graph: _Graph) -> tuple[list[float], float]:
    """y of every node, and the height of the picture."""
    y = [0.0] * len(graph.widths)
    top = float(RANK_GAP)
    for layer in graph.layers:
        lines = _staggered(layer)
        for position, node in enumerate(layer):
            y[node] = top + (position % lines) * (NODE_HEIGHT + 8)
        top += (lines - 1) * (NODE_HEIGHT + 8) + NODE_HEIGHT + RANK_GAP
    return y, top
