from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tfxla_inspect.graph_layout import MAX_SPAN, NODE_HEIGHT, layout

GRAPHS = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(20, 240), min_size=n, max_size=n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n),
    )
)


@settings(max_examples=150, deadline=None)
@given(GRAPHS)
def test_any_graph_is_laid_out_without_overlap(graph):
    widths, edges = graph
    made = layout(widths, edges)
    boxes = sorted(zip(made.y, made.x, widths))
    for (y1, x1, w1), (y2, x2, w2) in itertools.pairwise(boxes):
        assert y1 != y2 or x2 - x1 >= (w1 + w2) / 2, "two boxes of one line overlap"
    distinct = {(a, b) for a, b in edges if a != b}
    assert {(a, b) for a, b, _ in made.edges} | set(made.stubs) == distinct
    assert all(made.y[a] < made.y[b] for a, b, _ in made.edges)
    assert all(x - w / 2 >= 0 and x + w / 2 <= made.width for x, w in zip(made.x, widths))
    assert all(y > 0 and y + NODE_HEIGHT / 2 < made.height for y in made.y)


def test_empty():
    assert layout([], []).width == 0


def test_long_edges_are_stubs_and_inputs_stand_by_their_users():
    chain = [(n, n + 1) for n in range(20)]
    made = layout([50] * 22, [*chain, (0, 20), (21, 18)])
    assert made.stubs == [(0, 20)]
    assert made.y[21] == made.y[17], "an input used late is not drawn at the top"
    spans = [len(points) + 1 for _, _, points in made.edges]
    assert max(spans) <= MAX_SPAN


def test_wide_ranks_are_staggered():
    made = layout([100] * 501, [(n, 500) for n in range(500)])
    assert made.width < 500 * 118 / 10
    assert len(set(made.y)) > 10


def test_a_long_chain_needs_no_recursion():
    made = layout([50] * 20_000, [(n, n + 1) for n in range(19_999)])
    assert len(made.edges) == 19_999


def test_same_input_same_picture():
    edges = [(n // 3, n) for n in range(1, 200)]
    assert layout([80] * 200, edges) == layout([80] * 200, edges)
