"""What is wrong in marks and in `dynamic`, or is no function: the catalogue's error with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tfxla_cluster
from tfxla_cluster.errors import UsageError


def doubled(x: Any) -> Any:
    return x * 2.0


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("no size is from 5 to 2", {"min": 5, "max": 2}),
        ("'2 n' is no name of a size", {"name": "2 n"}),
        ("3 is no name of a size", {"name": 3}),
        ("'a' is no end of a range of sizes", {"min": "a"}),
        ("specialize_on has 3, which is no predicate. Give a list of functions of one size", {"specialize_on": 3}),
        ("specialize_on has 4, which is no predicate", {"specialize_on": [bool, 4]}),
        ("specialize_on has <function .*, which is no predicate", {"specialize_on": lambda n: True}),
        ("1.5 is no dimension of a tensor of shape", {"dim": 1.5}),
    ],
)
def test_a_wrong_mark_is_told_with_the_users_line(said: str, words: dict[str, Any]) -> None:
    def mark(x: Any) -> Any:
        tfxla_cluster.mark_dynamic(x, **{"dim": 0, **words})
        return x

    line = mark.__code__.co_firstlineno + 1
    for function in (mark, tf.function(mark), tf.function(mark, jit_compile=True)):
        with pytest.raises(UsageError, match=f"^{__file__}:{line}: {said}"):
            function(tf.ones([3]))
    with pytest.raises(UsageError, match=f"^{__file__}:.*: -1 is no end of a range"):
        tfxla_cluster.maybe_mark_dynamic(tf.ones([3]), 0, max=-1)


def test_a_specification_that_is_none() -> None:
    wrong: dict[str, Any] = {
        r"dynamic is 3, which has to be True, False, None, 'x:0=batch' or": 3,
        r"dynamic is \{'x': 0\}, which has to be": {"x": 0},
        "dynamic: .* does not say what a size is": "x:0=2..4",
        r"dynamic: 'a' in 'x:a' is no number of an axis\. Axes count from 0": "x:a",
        "dynamic: 0 is no name of an argument. Name it as the function does": {0: {0: "b"}},
        "dynamic: '' is no name of an argument": {"": {0: "b"}},
        "dynamic: ':0=b' does not name an input": ":0=b",
        "dynamic: 'a' in 'x' is no number of an axis": {"x": {"a": "b"}},
        "dynamic: -1 in 'x' is no number of an axis": {"x": {-1: "b"}},
        "dynamic: 7 does not say what size 0 of 'x' is": {"x": {0: 7}},
        r"dynamic: 'x\(' is no regular expression": {"x(": {0: "b"}},
    }
    for said, dynamic in wrong.items():
        with pytest.raises(UsageError, match=f"^{__file__}:.*: jit: {said}"):
            tfxla_cluster.jit(doubled, dynamic=dynamic)
    said = (
        rf"{__file__}:{doubled.__code__.co_firstlineno}: doubled has no argument or dimension 'z:0'. It has x\(3, 2\)"
    )
    with pytest.raises(UsageError, match=said):
        tfxla_cluster.jit(doubled, dynamic="z:0")(tf.ones([3, 2]))
    with pytest.raises(UsageError, match="no argument or dimension 'x:2'"):
        tfxla_cluster.jit(doubled, dynamic="x:2")(tf.ones([3, 2]))


@pytest.mark.parametrize(
    "call", [tfxla_cluster.jit, tfxla_cluster.jit(), tfxla_cluster.autotune, tfxla_cluster.explain]
)
def test_what_is_no_function(call: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match=f"^{__file__}:.*: what is to be compiled is of type int, no function"):
        call(5)
