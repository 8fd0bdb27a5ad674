"""The picture of clusters: no circles that are none, order that can be seen, labels that can be read."""

from __future__ import annotations

import random
import re

from tests.inspect.test_findings import graph
from tfxla_inspect import cluster_map, graph_layout
from tfxla_inspect.parsers.graphdef import Graph


def boxes(picture: str) -> list[str]:
    return re.findall(r"<title>([^<]*: \d+ nodes[^<]*)</title>", picture)


def edges(picture: str) -> dict[str, str]:
    """What an edge says -> its class."""
    found = re.findall(r"<path([^>]*)><title>([^<]*)</title>", picture)
    return {title: re.search(r'class="([^"]*)"', attributes)[1] for attributes, title in found if " to " in title}


def test_ops_of_one_type_before_and_after_a_cluster_are_two_boxes() -> None:
    picture = cluster_map.cluster_map(graph("u Unique -\na Add c0 u\nv Unique - a\nw Unique - a\nb Add c1 v w"))
    wanted = ["c0: 1 nodes", "c1: 1 nodes", "Unique: 1 nodes, in no cluster", "Unique: 2 nodes, in no cluster"]
    assert sorted(boxes(picture)) == sorted(wanted)


def test_what_only_waits_is_marked_and_says_so() -> None:
    found = edges(cluster_map.cluster_map(graph("p Print -\na Add c0 ^p\nb Foo - a")))
    assert found == {"Print to c0: order only: it waits for it": "edge waits", "c0 to Foo: 1 value": "edge"}


def test_drawn_circles_are_circles_of_the_graph() -> None:
    """In random graphs without circles no boxes depend on one another both ways."""
    dice = random.Random(8)
    for _ in range(60):
        text = "\n".join(
            f"n{i} {dice.choice('ABC')} - " + " ".join(f"n{j}" for j in range(i) if dice.random() < 0.2)
            for i in range(dice.randrange(1, 25))
        )
        made: Graph = graph(text)
        found = cluster_map._boxes(made)
        assert all(a[1] < b[1] for a, b in found.values)
        assert len(edges(cluster_map.cluster_map(made))) <= len(found.values)


def test_a_circle_and_an_empty_graph_are_drawn() -> None:
    assert edges(cluster_map.cluster_map(graph("a Enter - b\nb Next - a")))
    assert "<svg" in cluster_map.cluster_map(Graph([]))


def test_boxes_beyond_the_most_are_counted() -> None:
    lines = "\n".join(f"n{i} Op{i} -" for i in range(cluster_map._MOST_BOXES + 7))
    picture = cluster_map.cluster_map(graph(f"{lines}\nc Add c0"))
    assert len(boxes(picture)) == cluster_map._MOST_BOXES
    assert "Not drawn: 8 nodes" in picture
    assert any(box.startswith("c0") for box in boxes(picture))


def test_depths() -> None:
    assert graph_layout.depths(4, [(0, 1), (1, 2), (0, 2), (2, 3)]) == [0, 1, 2, 3]
    assert graph_layout.depths(3, [(0, 1), (1, 0), (1, 2)])[2] == 2
    assert graph_layout.depths(0, []) == []
