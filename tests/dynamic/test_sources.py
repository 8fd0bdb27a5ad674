"""Which dimensions are sizes and from when on: the order of weight of all that says so, and the lists of names."""

from __future__ import annotations

import pytest

from tfxla_cluster.dynamic.sources import Asked, Lists, Source, When, parse, samples
from tfxla_cluster.errors import FlagError

STATIC, DYNAMIC = parse("s", "x"), parse("d", "x:0")


def when(lists: Lists, asked: Asked, axis: int = 0) -> When:
    return lists.rule(0, "x", axis, asked).when


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
        (Lists(), Asked(dynamic=False, open=frozenset({(0, 0)}), profile={"x": (0,)}), When.NEVER),
        (Lists(dynamic=DYNAMIC), Asked(), When.FIRST),
        (Lists(dynamic=DYNAMIC), Asked(dynamic=False), When.FIRST),
        (Lists(dynamic=DYNAMIC), Asked(variables=frozenset({0})), When.FIRST),
        (Lists(dynamic=parse("d", "x:1")), Asked(), When.CHANGE),
        (Lists(static=STATIC), Asked(dynamic=True), When.NEVER),
        (Lists(static=STATIC), Asked(profile={"x": (0,)}), When.NEVER),
        (Lists(dynamic=DYNAMIC, static=STATIC), Asked(), When.NEVER),
        (Lists(static=parse("s", "x:1")), Asked(dynamic=True), When.FIRST),
    ],
)
def test_order_of_weight(lists: Lists, asked: Asked, wanted: When) -> None:
    rule = lists.rule(0, "x", 0, asked)
    assert rule.when is wanted
    assert bool(rule.reason) == (wanted is not When.CHANGE)


@pytest.mark.parametrize(
    ("text", "name", "axis", "holds"),
    [
        ("x", "x", 3, True),
        ("x:1", "x", 1, True),
        ("x:1", "x", 0, False),
        ("batch/.*", "batch/features", 0, True),
        ("batch/.*:2", "batch/features", 2, True),
        ("features", "batch/features", 0, False),
        ("x", "xs", 0, True),  # a pattern matches from the start, as torch.compile's
        ("x$", "xs", 0, False),
        ("a,b : 0,,y:0", "y", 0, True),
    ],
)
def test_entries(text: str, name: str, axis: int, holds: bool) -> None:
    assert any(source.matches(name, axis) for source in parse("f", text)) is holds


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(FlagError, match=r"--tfxla_static_sources: 'a\(:1' is no regular expression"):
        parse("tfxla_static_sources", "b, a(:1")
    assert parse("f", "") == ()
    assert parse("f", "x:1") == (Source("x", 1),)


def test_samples() -> None:
    dims = {(0, 0): 32, (1, 0): 32, (1, 1): 7, (2, 0): 1, (3, 0): 0}
    found = samples(dims)
    assert found == {(0, 0): 64, (1, 0): 64, (1, 1): 23}
    assert all((new - dims[place]) % 16 == 0 for place, new in found.items())
