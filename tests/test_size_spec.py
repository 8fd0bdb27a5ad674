"""The one form in which sizes are specified: text, ranges, names, predicates, marks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfxla_cluster import flags
from tfxla_cluster.errors import FlagError, UsageError
from tfxla_cluster.size_spec import ANY, How, Mark, Size, Source, nameless, parse, pattern, size, stronger, text


@pytest.mark.parametrize(
    ("written", "name", "axis", "holds"),
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
        ("(?=x).:0=n", "x", 0, True),
        ("x[=]y:0=n[2..]", "x=y", 0, True),
        ("b : 0", "b", 0, True),
        ("a[:]b", "a:b", 0, True),
        (r"a\:b", "a:b", 0, True),
        ("(?:a|b)c", "bc", 0, True),
        ("(?i:A)c", "ac", 0, True),
        ("x:253", "x", 253, True),
    ],
)
def test_what_an_entry_is_about(written: str, name: str, axis: int, holds: bool) -> None:
    assert any(source.matches(name, axis) for source in parse(written)) is holds


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("", ()),
        ("x:1", (Source("x", 1),)),
        ("x=n", (Source("x", None, Size("n")),)),
        ("x:0=n[2..512],y:0=n", (Source("x", 0, Size("n", 2, 512)), Source("y", 0, Size("n")))),
        ("x:0=[..8]", (Source("x", 0, Size(max=8)),)),
        ("x:0=[8..]", (Source("x", 0, Size(min=8)),)),
        ("x[0-9]:0", (Source("x[0-9]", 0),)),
    ],
)
def test_entries(written: str, wanted: tuple[Source, ...]) -> None:
    assert parse(written) == wanted
    assert text(wanted) == written


NAMES = st.text("ab/._:,=[(?x 1", min_size=1, max_size=6)
SIZES = st.builds(
    lambda name, ends: Size(name, *ends),
    st.sampled_from(["", "n", "batch_2"]),
    st.one_of(
        st.just((None, None)),
        st.integers(0, 9).map(lambda low: (low, None)),
        st.integers(0, 9).map(lambda low: (low, low + 5)),
    ),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.lists(st.tuples(NAMES, st.one_of(st.none(), st.integers(0, 12)), SIZES), max_size=3))
def test_any_name_can_be_written(drawn: list[tuple[str, int | None, Size]]) -> None:
    sources = tuple(Source(pattern(name), axis, one) for name, axis, one in drawn)
    read = parse(text(sources))
    assert [(s.axis, s.size) for s in read] == [(s.axis, s.size) for s in sources]
    assert all(source.matches(name, axis or 0) for source, (name, axis, _) in zip(read, drawn, strict=True))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("b, a(:1", r"'a\(:1' is no regular expression"),
        ("y,x:a", "'a' in 'x:a' is no number of an axis"),
        ("x:-1", "'-1' in 'x:-1' is no number of an axis"),
        ("x:=n", "'' in 'x:=n' is no number of an axis"),
        ("x:0=", "'x:0=' does not say what a size is behind '='"),
        ("x:0=2..5", "does not say what a size is behind '='"),
        ("x:0=n[5-2]", "does not say what a size is behind '='"),  # 5-2 is no range of letters either
        ("x:0=n[5..2]", "no size is from 5 to 2"),
        ("x=n[2..5]:0", "does not say what a size is"),
        ("x:" + "9" * 5000, "is no number of an axis"),
        ("x:0=[.." + "9" * 5000 + "]", "does not say what a size is behind '='"),
        *((word, f"'{word}' does not name an input") for word in ("=n", ":0", ":0=n")),
        *((word, f"'{word}' has an axis that no input has") for word in ("x:254", "x:9999999999999999=n")),
    ],
)
def test_what_is_no_entry(written: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(written)
    with pytest.raises(FlagError, match=f"--tfxla_dynamic_sources: .*{said}"):
        flags.convert("tfxla_dynamic_sources", written)


@pytest.mark.parametrize("word", ["x:", ":0", "x:9999999999999999"])
def test_what_is_no_static_source(word: str) -> None:
    with pytest.raises(FlagError, match=f"--tfxla_static_sources: .*'{word}'"):
        flags.convert("tfxla_static_sources", word)


def test_entries_of_one_tensor() -> None:
    written = (Source("", 0, Size("n", 2, 8)), Source("", 1))
    assert nameless(text(written)) == written
    assert nameless("") == ()


def test_a_static_source_has_no_size() -> None:
    assert flags.convert("tfxla_static_sources", "x:0,y") == "x:0,y"
    with pytest.raises(FlagError, match="--tfxla_static_sources: 'x:0=n' says what a size is"):
        flags.convert("tfxla_static_sources", "x:0=n")


@pytest.mark.parametrize("ends", [(-1, None), (None, 2.5), (True, None), (3, 2)])
def test_ends_that_are_none(ends: tuple[int, int]) -> None:
    with pytest.raises(UsageError):
        Size("n", *ends)


def test_names_and_predicates_that_are_none() -> None:
    with pytest.raises(UsageError, match="'2x' is no name of a size"):
        Size("2x")
    with pytest.raises(UsageError, match="specialize_on has 3, which is no predicate"):
        Size(specialize_on=(3,))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'n]' does not say what a size is"):
        size("n]")
    with pytest.raises(UsageError, match="a predicate of specialize_on fails for 4: ZeroDivisionError"):
        Size(specialize_on=(lambda n: n % 0 == 1,)).case(4)


def test_what_a_size_is() -> None:
    assert size("n[2..8]") == Size("n", 2, 8)
    assert size("") == ANY
    assert [n in Size(min=2, max=4) for n in range(6)] == [False, False, True, True, True, False]
    both = Size("n", 2).joined(Size("m", 4, 9))
    assert both == Size("n", 4, 9)
    assert Size(max=3).joined(Size(min=5)) == Size(max=3)
    assert Size(specialize_on=[lambda n: n == 8, lambda n: n % 4 == 0]).case(8) == (0, 1)  # type: ignore[arg-type]


def test_the_stronger_mark_stays() -> None:
    dynamic, static, maybe = (Mark(how) for how in (How.DYNAMIC, How.STATIC, How.MAYBE))
    assert stronger(dynamic, static) is dynamic
    assert stronger(static, dynamic) is dynamic
    assert stronger(static, maybe) is static
    assert stronger(None, maybe) is maybe
    assert stronger(dynamic, Mark(How.DYNAMIC, Size("n"))).size.name == "n"
