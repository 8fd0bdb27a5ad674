"""The folded TensorFlow graph as one picture: a box a cluster, a box for the left-out nodes of an op."""

from __future__ import annotations

from collections import Counter

from .graph_layout import NODE_HEIGHT, layout
from .graphs import PLUMBING, hue
from .markup import Html, el
from .parsers.graphdef import Graph, Node, split_input

_MOST_BOXES = 60


def cluster_map(graph: Graph) -> Html:
    """An SVG of clusters and left-out ops with the number of edges between them."""
    box_of = _boxes(graph)
    names = list(dict.fromkeys(box_of.values()))
    number = {name: n for n, name in enumerate(names)}
    sizes = Counter(box_of.values())
    edges: Counter[tuple[int, int]] = Counter()
    for node in graph.nodes:
        for source, _ in map(split_input, node.inputs):
            if source in box_of and node.name in box_of and box_of[source] != box_of[node.name]:
                edges[number[box_of[source]], number[box_of[node.name]]] += 1
    widths = [max(100, 8 * len(name) + 20) for name in names]
    made = layout(widths, list(edges))
    clusters = list(dict.fromkeys(n.cluster for n in graph.nodes if n.cluster))
    parts = [_edge(made.x, made.y, a, b, points, edges[a, b]) for a, b, points in made.edges]
    parts += [_edge(made.x, made.y, a, b, [], edges[a, b], long=True) for a, b in made.stubs]
    parts += [
        _box(name, sizes[name], made.x[n], made.y[n], widths[n], hue(clusters.index(name)) if name in clusters else -1)
        for n, name in enumerate(names)
    ]
    wide, high = round(made.width) + 10, round(made.height) + 10
    # Shrunk to the page, but never below where the names can be read.
    fit = f"width:max({wide * 0.6:.0f}px, min({wide}px, 100%))"
    return el(
        "div",
        el(
            "svg",
            *parts,
            viewBox=f"0 0 {wide} {high}",
            style=fit,
            role="img",
            aria_label="Clusters and the ops between them",
        ),
        class_="picture",
    )


def _boxes(graph: Graph) -> dict[str, str]:
    """Node -> box: its cluster, else its op; only the largest boxes, the others are 'others'."""
    found = {node.name: _home(node) for node in graph.nodes if node.op not in PLUMBING}
    kept = {name for name, _ in Counter(found.values()).most_common(_MOST_BOXES)}
    return {node: home if home in kept else "others" for node, home in found.items()}


def _home(node: Node) -> str:
    return node.cluster or node.op


def _box(name: str, count: int, x: float, y: float, width: float, colour: int) -> Html:
    fill = "fill:var(--node)" if colour < 0 else f"fill:hsl({colour} var(--node-s) var(--node-l))"
    what = "nodes, in no cluster" if colour < 0 else "nodes"
    return el(
        "g",
        el("title", f"{name}: {count} {what}"),
        el(
            "rect",
            x=round(x - width / 2),
            y=round(y - NODE_HEIGHT / 2),
            width=round(width),
            height=NODE_HEIGHT,
            rx=5,
            style=fill,
        ),
        el("text", name, x=round(x), y=round(y - 2)),
        el("text", f"{count:,} {'node' if count == 1 else 'nodes'}", x=round(x), y=round(y + 12), class_="small"),
    )


def _edge(
    x: list[float], y: list[float], a: int, b: int, points: list[tuple[float, float]], count: int, long: bool = False
) -> Html:
    path = [(x[a], y[a]), *points, (x[b], y[b])]
    d = "M" + "L".join(f"{px:.0f} {py:.0f}" for px, py in path)
    return el(
        "path",
        el("title", f"{count} edges"),
        d=d,
        class_="edge long" if long else "edge",
        stroke_width=min(1 + count / 20, 5),
    )
