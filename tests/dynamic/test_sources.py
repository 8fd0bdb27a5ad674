"""Which dimensions are sizes and from when on: the order of weight of all that says so, and samples of sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfxla_cluster.dynamic.sources import Asked, Lists, When, samples
from tfxla_cluster.size_spec import ANY, How, Mark, Size, parse

STATIC, DYNAMIC = parse("x"), parse("x:0")
PLACE = (0, 0)


def marked(how: How, size: Size = ANY) -> dict[tuple[int, int], Mark]:
    return {PLACE: Mark(how, size)}


@pytest.mark.parametrize(
    ("lists", "asked", "wanted"),
    [
        (Lists(), Asked(), When.CHANGE),
        (Lists(), Asked(dynamic=True), When.FIRST),
        (Lists(), Asked(dynamic=False), When.NEVER),
        (Lists(), Asked(open=frozenset({(0, 0)})), When.FIRST),
        (Lists(), Asked(open=frozenset({(0, 1), (1, 0)})), When.CHANGE),
        (Lists(), Asked(profile={"x": (0,)}), When.FIRST),
        (Lists(), Asked(profile={"x": (1,), "y": (0,)}), When.CHANGE),
        (Lists(), Asked(variables=frozenset({0})), When.NEVER),
        (Lists(), Asked(dynamic=True, variables=frozenset({0})), When.NEVER),
        (Lists(), Asked(constants=frozenset({0})), When.NEVER),
        (Lists(), Asked(marks=marked(How.MAYBE), constants=frozenset({0})), When.FIRST),
        (Lists(), Asked(dynamic=False, open=frozenset({(0, 0)}), profile={"x": (0,)}), When.NEVER),
        (Lists(dynamic=DYNAMIC), Asked(), When.FIRST),
        (Lists(dynamic=DYNAMIC), Asked(dynamic=False), When.FIRST),
        (Lists(dynamic=DYNAMIC), Asked(variables=frozenset({0})), When.FIRST),
        (Lists(dynamic=parse("x:1")), Asked(), When.CHANGE),
        (Lists(static=STATIC), Asked(dynamic=True), When.NEVER),
        (Lists(static=STATIC), Asked(profile={"x": (0,)}), When.NEVER),
        (Lists(dynamic=DYNAMIC, static=STATIC), Asked(), When.NEVER),
        (Lists(static=parse("x:1")), Asked(dynamic=True), When.FIRST),
        (Lists(), Asked(marks=marked(How.DYNAMIC), dynamic=False), When.FIRST),
        (Lists(static=STATIC), Asked(marks=marked(How.DYNAMIC)), When.FIRST),
        (Lists(static=STATIC), Asked(marks=marked(How.MAYBE)), When.FIRST),
        (Lists(dynamic=DYNAMIC), Asked(marks=marked(How.STATIC), dynamic=True), When.NEVER),
        (Lists(), Asked(marks={(0, 1): Mark(How.STATIC)}, dynamic=True), When.FIRST),
    ],
)
def test_order_of_weight(lists: Lists, asked: Asked, wanted: When) -> None:
    rule = lists.rule(0, "x", 0, asked)
    assert rule.when is wanted
    assert bool(rule.reason) == (wanted is not When.CHANGE)


def test_what_lies_outside_of_its_range_never_varies() -> None:
    lists = Lists(dynamic=parse("x:0=n[4..8]"))
    for size, wanted in ((3, When.NEVER), (4, When.FIRST), (8, When.FIRST), (9, When.NEVER)):
        rule = lists.rules(["x"], [(size, 3)], Asked())[PLACE]
        assert rule.when is wanted
        assert rule.size == (Size("n", 4, 8) if wanted is When.FIRST else ANY)
    assert lists.rules(["x"], [(9, 3)], Asked())[PLACE].reason == "9 is outside of n[4..8]"
    mark = Asked(marks=marked(How.DYNAMIC, Size(max=16)))
    assert lists.rules(["x"], [(9, 3)], mark)[PLACE].when is When.FIRST


def test_samples() -> None:
    dims = {(0, 0): 32, (1, 0): 32, (1, 1): 7, (2, 0): 1, (3, 0): 0}
    found = samples(dims)
    assert found == {(0, 0): 80, (1, 0): 80, (1, 1): 39}
    assert all((new - dims[place]) % 16 == 0 for place, new in found.items())


def test_sizes_of_several_names_have_several_samples() -> None:
    dims = {(0, 0): 32, (1, 0): 32, (2, 0): 32, (3, 0): 32}
    found = samples(dims, {(0, 0): Size("n"), (1, 0): Size("m"), (2, 0): Size("n")})
    assert found[0, 0] == found[2, 0] == found[3, 0] != found[1, 0]


def test_samples_stay_in_their_range() -> None:
    assert samples({PLACE: 32}, {PLACE: Size(max=40)}) == {PLACE: 16}
    assert samples({PLACE: 32}, {PLACE: Size(min=30, max=40)}) == {PLACE: 33}
    assert samples({PLACE: 32}, {PLACE: Size(min=32, max=32)}) == {}


def even(size: int) -> bool:
    return size % 2 == 0


SIZES = st.builds(
    lambda name, low, length, predicates: Size(name, low, low + length, predicates),
    st.sampled_from(["", "n", "m"]),
    st.integers(0, 40),
    st.integers(0, 200),
    st.sampled_from([(), (even,), (even, lambda size: size == 8)]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.lists(st.tuples(st.integers(0, 60), SIZES), min_size=1, max_size=4))
def test_samples_are_such_sizes(drawn: list[tuple[int, Any]]) -> None:
    dims = {(k, 0): size for k, (size, _) in enumerate(drawn)}
    said = {(k, 0): one for k, (_, one) in enumerate(drawn)}
    found = samples(dims, said)
    for place, other in found.items():
        assert other in said[place]
        assert other >= 2
        assert other != dims[place]
        assert said[place].case(other) == said[place].case(dims[place])
    for one in found:
        for two in found:
            tied = dims[one] == dims[two] and said[one].name == said[two].name
            assert not tied or found[one] == found[two]
            assert found[one] != found[two] or dims[one] == dims[two]
