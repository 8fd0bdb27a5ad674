"""What is compiled for the modules of one function: the first as it is, then one for all sizes, with reasons."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tfxla_cluster.dynamic import families, rows
from tfxla_cluster.dynamic.families import Choice, Families
from tfxla_cluster.dynamic.misfit import SMALL_SIZES
from tfxla_cluster.dynamic.rows import Rows
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.shape import array


def module(size: int, opcode: str = "negate") -> Module:
    b = Builder("m")
    return b.module(b.add_op(opcode, b.parameter(array(F32, (size, 3)))))


def read(size: int, opcode: str = "negate") -> Rows:
    return rows.of_module(module(size, opcode))


def table(size: int) -> Module:
    """Adds numbers that follow no size."""
    b = Builder("m")
    literal = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
    return b.module(b.add(b.parameter(array(F32, (size, 3))), b.constant(literal)))


def chosen(found: Families, *sizes: int) -> list[Choice]:
    return [found.choose("f", read(size)) for size in sizes]


def test_the_second_size_makes_it_generic() -> None:
    first, second, third, one, none = chosen(Families(), 4, 6, 9, 1, 0)
    assert (first.generic, first.misfit) == (None, None)
    assert second.generic is third.generic is not None
    assert (second.proofs, third.proofs) == (0, 1)
    assert second.digest == third.digest != first.digest
    for small in (one, none):
        assert small.generic is None
        assert small.misfit is not None
        assert "sizes below 2" in str(small.misfit)


def test_a_size_that_was_compiled_first_may_come_again() -> None:
    again = chosen(Families(), 4, 4)[1]
    assert again.generic is None
    assert "no size of an argument differs" in str(again.misfit)
    assert chosen(Families(), 1, 4, 6)[2].generic is not None
    assert chosen(Families(), 4, 6, 4)[2].generic is not None


def test_a_sample_makes_the_first_generic() -> None:
    found, asked = Families(), []

    def sample(size: int) -> Module:
        asked.append(size)
        return module(size)

    for size in (4, 6, 9):
        assert found.choose("f", read(size), samples=[lambda: sample(20)]).generic is not None
    assert asked == [20]
    assert found.choose("g", read(1), samples=[lambda: sample(20)]).generic is None
    assert found.choose("h", read(4), samples=[lambda: module(20, "abs")]).generic is None


def two(rows_: int, columns: int) -> Module:
    b = Builder("m")
    x, w = (b.parameter(array(F32, dims)) for dims in ((rows_, 3), (columns, 3)))
    return b.module(b.add_op("tuple", b.negate(x), b.negate(w)))


def test_what_a_sample_leaves_earlier_modules_tell() -> None:
    """A trace that leaves one size open, and another one that came with two sizes."""
    found = Families()
    calls = ((5, 4), (6, 7), (8, 9), (9, 9), (9, 7), (6, 4))
    made = [
        found.choose("f", rows.of_module(two(n, m)), samples=[lambda every=0, n=n, m=m: two(n + 16 + every, m)]).generic
        for n, m in calls
    ]
    assert made[0] is not made[1]
    assert {id(generic) for generic in made[1:]} == {id(made[1])}
    limits = Limits({(1, 0): "it is a variable's"})
    kept = [
        found.choose("g", rows.of_module(two(n, m)), limits, [lambda every=0, n=n, m=m: two(n + 16 + every, m)]).generic
        for n, m in ((5, 4), (6, 7), (9, 4), (9, 7))
    ]
    assert kept[0] is kept[2]
    assert kept[1] is kept[3]
    assert kept[0] is not kept[1]


def parts(size: int, least: int = 2) -> Module:
    """All rows but the first two and the last two, of a program that is another one below `least`."""
    b = Builder("m")
    x = b.parameter(array(F32, (size, 3)))
    return b.module(b.slice(x, [(2, max(size - 2, 2), 1), (0, 3, 1)]) if size >= least else b.add_op("negate", x))


def test_what_two_modules_do_not_tell_a_further_sample_does() -> None:
    """Two rows have none left, as min(n, 34) rows in place of n - 2 would: a third one tells."""
    found, asked = Families(), []

    def sample(every: int = 0) -> Module:
        asked.append(every)
        return parts(71 if every else 34)

    for proofs, size in enumerate((2, 3, 5, 40, 100)):
        assert found.choose("f", rows.of_module(parts(size)), samples=[sample]).proofs == proofs
    assert asked == [0, 1]


def test_what_a_further_sample_is_not_is_left_out() -> None:
    found = Families()
    for size in (70, 36):
        choice = found.choose(
            "f", rows.of_module(parts(size, 9)), samples=[lambda every=0: parts(3 if every else 34, 9)]
        )
        assert choice.generic is not None


def test_what_a_sample_told_wrongly_a_further_one_tells() -> None:
    """A literal that is the same at the sample and at the size."""

    def rest(size: int) -> Module:
        b = Builder("m")
        x = b.parameter(array(F32, (size,)))
        return b.module(b.add(x, b.broadcast(b.constant(np.float32(size % 8)), [size], ())))

    def other(size: int, every: int = 0) -> Module:
        return rest(size + (67 if every else 32))

    found, limits = Families(), Limits(hands=True)
    made = [
        found.choose("f", rows.of_module(rest(size)), limits, [partial(other, size)]).generic
        for size in (5, 8, 9, 15, 30)
    ]
    assert made[0] is not made[1] is made[2] is made[3] is made[4]


def test_a_module_of_another_trace_makes_no_literal_vary() -> None:
    def scaled(size: int, factor: float) -> Module:
        b = Builder("m")
        x = b.parameter(array(F32, (size,)))
        return b.module(b.multiply(x, b.broadcast(b.constant(np.float32(factor)), [size], ())))

    found, limits = Families(), Limits(hands=True)
    for factor, size in ((6.0, 5), (5.0, 5), (2.5, 9)):
        sample = partial(lambda factor, every=0: scaled(100 if every else 40, factor), factor)
        generic = found.choose("f", rows.of_module(scaled(size, factor)), limits, [sample]).generic
        assert generic is not None
        assert generic.is_guarded


def test_what_serves_is_told_without_making_more() -> None:
    found = Families()
    assert found.serving("f", read(4)) is None
    chosen(found, 4, 6)
    for size in (9, 4):
        served = found.serving("f", read(size))
        assert served is not None
        assert served.generic is not None
    assert served.proofs == 2
    assert found.serving("f", read(9, "abs")) is found.serving("g", read(9)) is None


def test_functions_do_not_share() -> None:
    found = Families()
    found.choose("f", read(4))
    assert found.choose("g", read(6)).generic is None
    assert found.choose("f", read(6)).generic is not None


def test_what_parts_is_said() -> None:
    found = Families()
    found.choose("f", read(4))
    other = found.choose("f", read(6, "abs"))
    assert "%abs (abs): the programs part here" in str(other.misfit)
    assert found.choose("f", read(8, "abs")).generic is not None


@pytest.mark.parametrize("small", [0, 1])
def test_that_a_small_size_is_another_program_is_not_why(small: int) -> None:
    """TensorFlow folds what is empty. Nor is the next one held against it."""
    found = Families()
    chosen(found, 4, 6)
    assert found.choose("f", read(small, "abs")).misfit is SMALL_SIZES
    assert "%cosine (cosine): the programs part here: %negate" in str(found.choose("f", read(8, "cosine")).misfit)
    only = Families()
    only.choose("f", read(small))
    assert only.choose("f", read(8, "abs")).misfit is SMALL_SIZES


def test_one_that_does_not_compile_is_made_once() -> None:
    found = Families()
    generic = chosen(found, 4, 6)[1].generic
    assert generic is not None
    found.refuse("f", generic, "no kernel for it")
    for size in (6, 9):
        choice = found.choose("f", read(size))
        assert choice.generic is None
        assert str(choice.misfit) == "no kernel for it"


def test_many_modules_are_not_kept() -> None:
    found = Families()
    for size in range(2, 40):
        choice = found.choose("f", rows.of_module(table(size)))
        assert choice.generic is None
        assert choice.misfit is None or "follows no size" in str(choice.misfit)
    (family,) = found._families.values()
    assert [len(kept) for kept in family.seen.values()] == [families._MOST_MODULES]
    for number in range(families._MOST_FAMILIES + 5):
        found.choose(f"g{number}", read(3))
    assert len(found._families) == families._MOST_FAMILIES


def test_threads_get_one() -> None:
    found = Families()
    found.choose("f", read(3))
    with ThreadPoolExecutor(8) as pool:
        choices = list(pool.map(lambda size: found.choose("f", read(size)), range(4, 40)))
    assert len({id(choice.generic) for choice in choices}) == 1


def test_content_is_all_but_names() -> None:
    def content(module: Module) -> str:
        return rows.content(rows.of_module(module))

    assert content(module(5)) == content(module(5).replace(name="another"))
    distinct = [module(5), module(6), module(5, "abs"), table(5), table(6)]
    assert len({content(m) for m in distinct}) == len(distinct)
    positive, negative = (_constant(np.full(3, zero, np.float32)) for zero in (0.0, -0.0))
    assert content(positive) != content(negative)


def _constant(literal: np.ndarray) -> Module:
    b = Builder("m")
    return b.module(b.constant(literal))
