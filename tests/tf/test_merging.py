"""Merging: clusters form, and the graph of clusters never has a cycle."""

from __future__ import annotations

import random

import pytest

from tfxla_cluster.tf.clustering.merging import NO_COLOUR, merge

BIG = 2**31 - 1


def has_cycle(sources: list[list[int]], cluster: list[int]) -> bool:
    before = {c: set() for c in cluster}
    for node, found in enumerate(sources):
        before[cluster[node]] |= {cluster[s] for s in found} - {cluster[node]}
    ready = [c for c, found in before.items() if not found]
    for done in ready:
        for c, found in before.items():
            if done in found:
                found.discard(done)
                if not found:
                    ready.append(c)
    return len(ready) != len(before)


def clusters(sources, colour, weight=None, max_size=BIG):
    n = len(sources)
    return merge(sources, range(n), colour, weight or [1] * n, max_size).cluster


@pytest.mark.parametrize(
    ("sources", "colour", "expected"),
    [
        ([[], [0], [1]], [0, 0, 0], [0, 0, 0]),
        ([[], [0], [1]], [0, NO_COLOUR, 0], [0, 1, 2]),
        ([[], [0], [0, 1]], [0, NO_COLOUR, 0], [0, 1, 2]),  # a direct edge beside the path through 1
        ([[], [0], [0], [1, 2]], [0, 0, NO_COLOUR, 0], [0, 0, 2, 3]),
        ([[], [0], [1]], [0, 1, 1], [0, 1, 1]),
        # 1 is ready early but only 3, after the barrier 2, uses it: the second stage brings it there.
        ([[], [], [0], [1, 2]], [0, 0, NO_COLOUR, 0], [0, 1, 2, 1]),
    ],
)
def test_merges(sources, colour, expected) -> None:
    assert clusters(sources, colour) == expected


def test_max_size_holds() -> None:
    chain = [[], *([i] for i in range(9))]
    found = clusters(chain, [0] * 10, max_size=4)
    assert max(found.count(c) for c in found) <= 4
    assert not has_cycle(chain, found)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("max_size", [3, BIG])
def test_random_graphs_stay_acyclic_and_maximal(seed: int, max_size: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(2, 60)
    sources = [sorted({rng.randrange(i) for _ in range(rng.randint(0, 3))}) if i else [] for i in range(n)]
    colour = [rng.choice([NO_COLOUR, 0, 0, 0, 1]) for _ in range(n)]
    found = clusters(sources, colour, max_size=max_size)
    assert not has_cycle(sources, found)
    assert all(len({colour[i] for i in range(n) if found[i] == c}) == 1 for c in found)
    assert all(found.count(found[i]) == 1 for i in range(n) if colour[i] == NO_COLOUR)
    if max_size == BIG:
        for node, before in enumerate(sources):
            for source in before:
                if colour[node] == colour[source] != NO_COLOUR and found[node] != found[source]:
                    joined = [found[source] if c == found[node] else c for c in found]
                    assert has_cycle(sources, joined), "an edge that could be merged was left"


def test_large_graph_needs_little_work() -> None:
    """100,000 nodes with a barrier every tenth; bounded by work, not time."""
    rng = random.Random(0)
    n = 100_000
    sources = [sorted({rng.randrange(max(0, i - 50), i) for _ in range(3)}) if i else [] for i in range(n)]
    colour = [NO_COLOUR if i % 10 == 0 else 0 for i in range(n)]
    found = merge(sources, range(n), colour, [1] * n, BIG)
    assert not found.refused.get("the limit on merging work was reached")
