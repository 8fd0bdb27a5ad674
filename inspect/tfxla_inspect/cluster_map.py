"""The folded TensorFlow graph as one picture: a box a cluster, a box for the left-out nodes of an op at one depth.

Depth is the longest way from the inputs with each cluster as one node, so that nodes that are joined never depend on
one another: what the picture shows as a circle is one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .graph_layout import NODE_HEIGHT, depths, layout
from .graphs import PLUMBING, hue
from .markup import Html, el
from .parsers.graphdef import Graph, Node, split_input

_MOST_BOXES = 80
_Key = tuple[str, int]  # a cluster and -1, or an op and its depth


@dataclass(slots=True)
class _Boxes:
    """`home`: node -> its box; `values`, `waits`: how many values, and how many control edges, go between two."""

    home: dict[str, _Key]
    values: Counter[tuple[_Key, _Key]] = field(default_factory=Counter)
    waits: Counter[tuple[_Key, _Key]] = field(default_factory=Counter)


def cluster_map(graph: Graph) -> Html:
    """An SVG of clusters and left-out ops with what goes between them."""
    boxes = _boxes(graph)
    sizes = Counter(boxes.home.values())
    kept = {key for key, _ in sorted(sizes.items(), key=lambda item: (item[0][1] >= 0, -item[1]))[:_MOST_BOXES]}
    names = [key for key in dict.fromkeys(boxes.home.values()) if key in kept]
    number = {key: n for n, key in enumerate(names)}
    drawn = [pair for pair in boxes.values | boxes.waits if pair[0] in kept and pair[1] in kept]
    widths = [max(100, 8 * len(name) + 20) for name, _ in names]
    made = layout(widths, [(number[a], number[b]) for a, b in drawn])
    lines = [(a, b, points, False) for a, b, points in made.edges] + [(a, b, [], True) for a, b in made.stubs]
    clusters = list(dict.fromkeys(n.cluster for n in graph.nodes if n.cluster))
    parts = [_edge(made.x, made.y, line, boxes, names) for line in lines]
    parts += [
        _box(name, sizes[name, depth], made.x[n], made.y[n], widths[n], hue(clusters.index(name)) if depth < 0 else -1)
        for n, (name, depth) in enumerate(names)
    ]
    wide, high = round(made.width) + 10, round(made.height) + 10
    left_out = sum(count for key, count in sizes.items() if key not in kept)
    return el(
        "div",
        el(
            "svg",
            _ARROW,
            *parts,
            viewBox=f"0 0 {wide} {high}",
            style=f"width:{wide}px;height:{high}px",  # labels keep their size: what is wide scrolls
            role="img",
            aria_label="Clusters and the ops between them",
        ),
        el("p", f"Not drawn: {left_out:,} nodes of the smallest boxes.", class_="soft") if left_out else None,
        class_="picture",
    )


_ARROW = el(
    "defs",
    el(
        "marker",
        el("path", d="M0 0L8 4L0 8z", class_="arrow"),
        id="map-arrow",
        viewBox="0 0 8 8",
        refX=7,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
        markerUnits="userSpaceOnUse",
    ),
)


def _boxes(graph: Graph) -> _Boxes:
    shown = {node.name: node for node in graph.nodes if node.op not in PLUMBING}
    depth = _depths(shown)
    boxes = _Boxes({n.name: (n.cluster, -1) if n.cluster else (n.op, depth[n.name]) for n in shown.values()})
    for node in shown.values():
        for source, output in map(split_input, node.inputs):
            a, b = boxes.home.get(source), boxes.home[node.name]
            if a is not None and a != b:
                (boxes.values if output >= 0 else boxes.waits)[a, b] += 1
    return boxes


def _depths(shown: dict[str, Node]) -> dict[str, int]:
    """Longest way from the inputs, a cluster as one node."""
    unit = {name: node.cluster or f"/{name}" for name, node in shown.items()}
    number = {name: n for n, name in enumerate(dict.fromkeys(unit.values()))}
    edges = {
        (number[unit[source]], number[unit[name]])
        for name, node in shown.items()
        for source, _ in map(split_input, node.inputs)
        if source in unit and unit[source] != unit[name]
    }
    found = depths(len(number), sorted(edges))
    return {name: found[number[unit[name]]] for name in shown}


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
    x: list[float],
    y: list[float],
    line: tuple[int, int, list[tuple[float, float]], bool],
    boxes: _Boxes,
    names: list[_Key],
) -> Html:
    a, b, points, is_long = line
    values, waits = boxes.values[names[a], names[b]], boxes.waits[names[a], names[b]]
    down = NODE_HEIGHT / 2 if y[a] < y[b] else -NODE_HEIGHT / 2
    path = [(x[a], y[a] + down), *points, (x[b], y[b] - down)]
    said = [f"{values} {'value' if values == 1 else 'values'}"] if values else []
    said += ["order only: it waits for it"] if waits else []
    style = "edge" + ("" if values else " waits") + (" long" if is_long else "")
    return el(
        "path",
        el("title", f"{names[a][0]} to {names[b][0]}: {', '.join(said)}"),
        d="M" + "L".join(f"{px:.0f} {py:.0f}" for px, py in path),
        class_=style,
        stroke_width=min(1 + values / 20, 5),
        marker_end="url(#map-arrow)",
    )
