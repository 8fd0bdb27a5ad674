"""Graphs as the columns that assets/graph.js draws: of HLO modules and of TensorFlow graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfxla_cluster.ir.opcode import OPCODES

from .graph_layout import layout
from .model import where
from .parsers.graphdef import Graph, Node, split_input
from .parsers.hlo import Block, Hlo, Row, named

# More nodes than this are not laid out as a whole: neighbourhoods and search stay.
LAYOUT_LIMIT = 150_000
# Ops that every function has and that compute nothing.
PLUMBING = {
    "_Arg": "an argument of the function",
    "_Retval": "a result of the function",
    "NoOp": "computes nothing",
    "_DeviceArg": "an argument of the function",
    "_DeviceRetval": "a result of the function",
}
# Layouts, and the counting comments of tuples; the comment after a symbolic size (`8/*n*/`) stays.
_LAYOUTS = re.compile(r"\{[^{}]*\}|/\*index=\d+\*/")

# What an instruction does: title and hue (-1 neutral).
_GROUPS = (
    ("parameter, constant", -1),
    ("contraction", 210),
    ("fusion with contraction", 225),
    ("reduction", 20),
    ("fusion with reduction", 35),
    ("elementwise", 130),
    ("fusion, loop", 150),
    ("data movement", 55),
    ("control flow", 285),
    ("tuple", -1),
    ("random, sort", 320),
    ("collective, host", 0),
    ("other", 95),
)
_NUMBER = {title: number for number, (title, _) in enumerate(_GROUPS)}
_BY_CATEGORY = {
    "elementwise": "elementwise",
    "leaf": "parameter, constant",
    "move": "data movement",
    "reduce": "reduction",
    "contraction": "contraction",
    "control": "control flow",
    "random": "random, sort",
    "sort": "random, sort",
    "tuple": "tuple",
    "collective": "collective, host",
    "host": "collective, host",
    "dynamic": "data movement",
}


def short_shape(shape: str) -> str:
    """A shape without layouts, cut for a label."""
    text = _LAYOUTS.sub("", shape)
    return text if len(text) <= 90 else text[:60] + f" … ({text.count('[')} arrays)"


def width(label: str, detail: str) -> int:
    """Pixels of a node's box."""
    return min(260, max(90, 10 + max(7 * len(label), round(6.6 * len(detail)))))


def hlo_graph(
    hlo: Hlo, sources: dict[str, Any], tabs: Sequence[tuple[str, str]], measures: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """All instructions; every computation that runs as steps laid out, the others on demand; `measures`: columns
    that they can be coloured by."""
    rows: list[Row] = []
    bodies: dict[str, list[int]] = {}
    operands: list[list[int]] = []
    for block in hlo.blocks:
        number = {row.name: len(rows) + n for n, row in enumerate(block.rows)}
        bodies[block.name] = list(number.values())
        operands.extend([number[o] for o in row.operands if o in number] for row in block.rows)
        rows.extend(block.rows)
    inside = {block.name: dict.fromkeys(r.origin for r in block.rows if r.origin) for block in hlo.blocks}
    origins = [_origins(row, inside) for row in rows]
    heroes = {block.name: _hero(block) for block in hlo.blocks}
    group = [_NUMBER[_group(row, heroes)] for row in rows]
    nodes: dict[str, list[Any]] = {
        "name": [r.name for r in rows],
        "label": [r.name for r in rows],
        "kind": [r.opcode for r in rows],
        "detail": [short_shape(r.shape) for r in rows],
        "group": group,
        "note": [_some(named(names), ", ") for names in origins],
        "where": [_some(dict.fromkeys(where(sources, n) for n in names), "\n") for names in origins],
        "ins": operands,
        "body": [r.called[0] if r.called else "" for r in rows],
    }
    views = [_view(b.name, bodies[b.name], nodes) for b in hlo.stepped() if len(b.rows) <= LAYOUT_LIMIT]
    groups = [{"t": t, "hue": hue, "n": group.count(n)} for n, (t, hue) in enumerate(_GROUPS)]
    return {
        "nodes": nodes,
        "groups": groups,
        "views": views,
        "bodies": bodies,
        "tabs": tabs,
        "measures": list(measures),
        "words": {
            "scope": "origin",
            "detail": "Shape",
            "group": "What it does",
            "note": "TensorFlow node",
            "hint": "Click a colour to find its instructions. Click a node for its operands, line, kernel; "
            "double click opens a scope or a fusion (+) where it stands, and shows the neighbourhood of others. "
            "▾3: three edges too long to draw.",
        },
    }


def _origins(row: Row, inside: dict[str, dict[str, None]]) -> dict[str, None]:
    """What an instruction came from (Row.origin): a fusion's are those of its body too."""
    own = {row.origin: None} if row.origin else {}
    return own | inside.get(row.called[0], {}) if row.opcode == "fusion" and row.called else own


def _some(texts: Iterable[str], separator: str, most: int = 8) -> str:
    """The first texts that are not empty, and how many more."""
    found = [text for text in texts if text]
    more = f"{separator}and {len(found) - most} more" if len(found) > most else ""
    return separator.join(found[:most]) + more


def _hero(block: Block) -> str:
    kinds = {OPCODES[row.opcode].category for row in block.rows if row.opcode in OPCODES}
    if "contraction" in kinds:
        return "fusion with contraction"
    return "fusion with reduction" if "reduce" in kinds else "fusion, loop"


def _group(row: Row, heroes: dict[str, str]) -> str:
    if row.opcode == "fusion":
        return heroes.get(row.called[0], "fusion, loop") if row.called else "fusion, loop"
    opcode = OPCODES.get(row.opcode)
    return _BY_CATEGORY.get(opcode.category, "other") if opcode else "other"


def tf_graph(graph: Graph, reason: Callable[[Node], str], place: Callable[[Node], str]) -> dict[str, Any]:
    """A TensorFlow graph, a colour a cluster; `reason`: why a node is in none, `place`: its user line."""
    number = {node.name: n for n, node in enumerate(graph.nodes)}
    clusters = list(dict.fromkeys(n.cluster for n in graph.nodes if n.cluster))
    position = {name: n + 1 for n, name in enumerate(clusters)}
    group = [position.get(n.cluster, 0) for n in graph.nodes]
    nodes: dict[str, list[Any]] = {
        "name": [n.name for n in graph.nodes],
        "label": [_label(n.name, n.op) for n in graph.nodes],
        "kind": [n.op for n in graph.nodes],
        "detail": [n.dtype for n in graph.nodes],
        "group": group,
        "note": [reason(n) for n in graph.nodes],
        "where": [place(n) for n in graph.nodes],
        "ins": [[number[name] for name, _ in map(split_input, n.inputs) if name in number] for n in graph.nodes],
        "body": [""] * len(graph.nodes),
    }
    everything = list(range(len(graph.nodes)))
    computing = [n for n in everything if graph.nodes[n].op not in PLUMBING]
    views = [("without arguments and results", computing), ("all nodes", everything)]
    whole = [_view(title, ids, nodes) for title, ids in views if 0 < len(ids) <= LAYOUT_LIMIT]
    groups = [{"t": "in no cluster", "hue": -1, "n": group.count(0)}]
    groups += [{"t": name, "hue": hue(n), "n": group.count(n + 1)} for n, name in enumerate(clusters)]
    return {
        "nodes": nodes,
        "groups": groups,
        "views": whole,
        "bodies": {},
        "tabs": [("row", "nodes")],
        "words": {
            "scope": "name",
            "detail": "Type",
            "group": "Cluster",
            "note": "Why in no cluster",
            "hint": "A colour a cluster; grey is in none. Click one to light it up. Click a node for inputs, "
            "users and the reason; double click opens a scope (+) where it stands, and shows the neighbourhood of "
            "others. ▾3: three edges too long to draw.",
        },
    }


def hue(number: int) -> int:
    """Hues far from one another for neighbouring numbers (golden angle)."""
    return int(number * 137.508 + 210) % 360


def _label(name: str, op: str) -> str:
    """The last part of a node's name; the last two where that one is short or only repeats the op."""
    parts = name.split("/")
    return "/".join(parts[-2:]) if len(parts[-1]) < 12 or parts[-1].startswith(op) else parts[-1]


def _view(title: str, ids: list[int], nodes: dict[str, list[Any]]) -> dict[str, Any]:
    """The layout of some nodes, coordinates rounded to pixels."""
    at = {node: n for n, node in enumerate(ids)}
    edges = [(at[a], at[b]) for b in ids for a in nodes["ins"][b] if a in at]
    widths = [width(nodes["label"][i], f"{nodes['kind'][i]} {nodes['detail'][i]}") for i in ids]
    made = layout(widths, edges)
    return {
        "t": title,
        "ids": ids,
        "w": widths,
        "x": [round(v) for v in made.x],
        "y": [round(v) for v in made.y],
        "W": round(made.width),
        "H": round(made.height),
        "edges": [[ids[a], ids[b], *(round(c) for point in points for c in point)] for a, b, points in made.edges],
    }
