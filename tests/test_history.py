"""What records of compilations say of the earlier ones of their function, and what would have made one of both."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tfxla_cluster import compile_records, flags, size_spec
from tfxla_cluster.dynamic import fit, rows, sources
from tfxla_cluster.dynamic.families import Choice, Families, Told
from tfxla_cluster.dynamic.misfit import PARTED, SMALL_SIZES, Misfit
from tfxla_cluster.dynamic.rows import Rows
from tfxla_cluster.dynamic.unify import Limits
from tfxla_cluster.history import EARLIER, History
from tfxla_cluster.ir import guard
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.dtype import F32
from tfxla_cluster.ir.guard import Guard
from tfxla_cluster.ir.shape import array
from tfxla_cluster.tf.compiler_port import CompileRequest

MODULE: Any = None  # no part of the program is read
EMPTY: Any = SimpleNamespace(module=SimpleNamespace(entry=SimpleNamespace(params=())))
ALONE, GENERIC = Choice(MODULE), Choice(MODULE, generic=EMPTY)
ADD: Any = SimpleNamespace(name="add.4", opcode="add", sources=frozenset({"step/add"}))

CONSTANT: Any = SimpleNamespace(name="c", opcode="constant", sources=frozenset({"step/add"}))


class Names:
    def __init__(self, *inputs: str) -> None:
        self.inputs = inputs

    def input(self, number: int) -> str:
        return self.inputs[number]

    def dtype(self, number: int) -> str:
        return {1: "float32", 2: "float64"}[number]

    def value(self, number: int, data: bytes) -> str:
        return str(list(data))


def request(
    *dims: int, dtype: int = 1, value: bytes = b"", of: str = "argument 'x'", dynamic: bool | None = None, k: str = ""
) -> CompileRequest:
    guards = [Guard("dtype", 0, dtype), *guard.of_shape(0, dims)]
    guards += [Guard("value", 0, value)] if value else []
    lines = {"step/add": "train.py:9"}
    return CompileRequest(
        "f_7",
        "must",
        (of,),
        lines,
        guard.ordered(guards),
        Names(of),
        family="f of 1",
        dynamic=dynamic,
        python={"k": k} if k else {},
    )


def key(**more: object) -> tuple[Guard, ...]:
    return guard.facts({"hlo": "a", **more})


def noted(
    first: CompileRequest, then: CompileRequest, choice: Choice, one: Any = None, two: Any = None
) -> dict[str, Any]:
    """The fields of `then` after `first`, under these keys."""
    history = History()
    assert history.note(first, one or key(), ALONE, 0) == {"reason": "first compilation of this function"}
    return history.note(then, two or key(hlo="b"), choice, 1)


def misfit(what: str, instr: Any = None) -> Choice:
    return Choice(MODULE, misfit=Misfit(instr, what, ("a", "b")))


SIZE = "mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources=x:0 or jit(fn, dynamic=True)"
REMEDIES = {
    "size": (request(8, 4), request(9, 4), GENERIC, SIZE),
    "odd name": (request(8, of="argument 'a,b:0'"), request(9, of="argument 'a,b:0'"), GENERIC, "=a.b[:]0:0 "),
    "variable": (request(8, of="variable 'x'"), request(9, of="variable 'x'"), GENERIC, ""),
    "cluster": (
        dataclasses.replace(request(8), kind="cluster"),
        dataclasses.replace(request(9), kind="cluster"),
        GENERIC,
        "mark_dynamic(x, 0) before each call or --tfxla_dynamic_sources=x:0: the",
    ),
    "value in a cluster": (
        dataclasses.replace(request(8, of="value 'y'"), kind="cluster"),
        dataclasses.replace(request(9, of="value 'y'"), kind="cluster"),
        GENERIC,
        "--tfxla_dynamic_sources=y:0: the",
    ),
    "two dims": (request(8, 8), request(9, 9), GENERIC, "mark_dynamic(x, [0, 1]) before each call"),
    "marked": (request(8), dataclasses.replace(request(9), marks={(0, 0): MODULE}), GENERIC, ""),
    "marked static": (request(8), request(9), misfit(f"no ({sources.MARKED_STATIC})"), "leave out mark_static"),
    "small size": (request(1, 4), request(9, 4), GENERIC, ""),
    "asked for": (request(8), request(9, dynamic=True), GENERIC, ""),
    "parted": (request(8), request(9), misfit(PARTED, ADD), "make train.py:9 the same program at each size"),
    "listed": (request(8), request(9), misfit(f"no ({sources.LISTED_STATIC})"), "out of --tfxla_static_sources"),
    "dynamic=False": (request(8), request(9), misfit(f"no ({sources.ASKED_STATIC})"), "leave out dynamic=False"),
    "constant": (
        request(8),
        request(9),
        misfit("a literal varies that follows no size", CONSTANT),
        "compute the constant of train.py:9 from tf.shape, or pass it as a tensor",
    ),
    "another misfit": (request(8), request(9), misfit("its sizes follow in no way", ADD), ""),
    "dtype": (request(8), request(8, dtype=2), misfit("the type differs"), "cast 'x' to float32 before the call"),
    "rank": (request(8), request(8, 1), misfit("the rank differs"), ""),
    "value": (
        request(8, value=b"\1"),
        request(8, value=b"\2"),
        misfit("no size differs"),
        "where 'x' follows from shapes",
    ),
    "function": (request(8), request(8), misfit("no size differs"), "pass what the function reads from outside"),
    "Python number": (request(8, k="2"), request(8, k="3"), misfit("no size differs"), "pass 'k' as a tensor"),
    "Python object": (request(8, k="A"), request(8, k="B"), misfit("no size differs"), "pass the same 'k' each time"),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_what_would_have_made_one_of_both(name: str) -> None:
    first, then, choice, want = REMEDIES[name]
    found = noted(first, then, choice)
    assert found["closest"] == 0
    assert [want in remedy for remedy in found["remedies"]] == ([True] if want else [])


def test_a_name_is_matched_by_its_entry() -> None:
    for name in ("x", "a,b:0", "inputs/0", "x[", "a b", "é"):
        (entry,) = size_spec.parse(f"{size_spec.pattern(name)}:1")
        assert entry.matches(name, 1)
        assert not entry.matches(name, 0)


def test_what_is_switched_on_needs_no_advice() -> None:
    with flags.patch(tfxla_dynamic_sources="x:0"):
        assert noted(request(8), request(9), GENERIC)["remedies"] == []
    with flags.patch(tfxla_dynamic="off"):
        assert noted(request(8), request(9), ALONE)["remedies"] == ["--tfxla_dynamic=on: one executable for many sizes"]
    assert noted(request(8), request(9), ALONE)["remedies"] == []


def test_flags_and_facts_that_changed() -> None:
    flagged = (*key(), Guard("flag", "fast_math", "True"))
    found = noted(request(8), request(8), ALONE, two=flagged)
    assert found["changed"] == [{"kind": "flag", "of": "fast_math", "axis": -1, "was": "absent", "now": "True"}]
    assert found["reason"] == "fast_math: was absent, is True"
    assert found["remedies"] == ["set the flags once, before the first call"]
    assert noted(request(8), request(8), ALONE, key(llvm="1"), key(llvm="2"))["reason"] == "llvm: was 1, is 2"


def test_python_values_and_constexprs_that_changed() -> None:
    found = noted(request(8, k="2"), request(8, k="3"), ALONE)
    assert found["changed"] == [{"kind": "python", "of": "Python value 'k'", "axis": -1, "was": "2", "now": "3"}]
    assert found["reason"] == "Python value 'k': was 2, is 3"
    keys = [(*key(), Guard("constexpr", "axpy.BLOCK", value)) for value in ("64", "128")]
    found = noted(request(8), request(8), ALONE, *keys)
    assert found["reason"] == "constexpr 'axpy.BLOCK': was 64, is 128"
    (remedy,) = found["remedies"]
    assert remedy.startswith("pass 'axpy.BLOCK' to the kernel as an argument")


def test_what_other_workers_saw() -> None:
    """Of a first compilation too, which is for all sizes then."""
    told = (Told("worker 1", "argument 'x'", 0, 33),)
    choice = dataclasses.replace(GENERIC, told=told)
    since = "compiled for all such sizes since worker 1 saw size 33 in dim 0 of argument 'x'"
    assert History().note(request(8), key(), choice, 0)["reason"] == f"first compilation of this function; {since}"
    assert noted(request(8), request(9), choice)["reason"] == f"argument 'x': dim 0 was 8, is 9; {since}"


def test_a_value_that_is_compiled_in() -> None:
    """Not that no size differs."""
    found = noted(request(8, value=b"\1"), request(8, value=b"\2"), misfit("no size differs"))
    assert found["reason"] == "argument 'x': value was [1], is [2]; each value is compiled in"


def test_the_same_once_more() -> None:
    found = noted(request(8), request(8), ALONE, two=key())
    assert found["reason"].startswith("compiled before")
    assert "--tfxla_cache_capacity" in found["remedies"][0]


def test_why_an_executable_for_many_sizes_did_not_serve() -> None:
    """Another one for many sizes is made then."""
    history, refused = History(), dataclasses.replace(GENERIC, refused=(Misfit(CONSTANT, "another literal"),))
    history.note(request(8), key(), GENERIC, 0)
    found = history.note(request(9), key(hlo="b"), refused, 1)
    assert found["reason"] == (
        "argument 'x': dim 0 was 8, is 9; compiled for all such sizes; the earlier one is not this program: "
        "train.py:9: %c (constant): another literal"
    )
    assert found["apart"]["where"] == "train.py:9"
    first = History()
    first.note(request(8), key(), ALONE, 0)
    assert first.note(request(9), key(hlo="b"), refused, 1)["apart"] is None, "that one is for its own size alone"


def test_sizes_of_which_the_closest_is_for_all_are_a_reason_alone_only() -> None:
    def module(size: int) -> Rows:
        b = Builder("m")
        return rows.of_module(b.module(b.add_op("negate", b.parameter(array(F32, (size,))))))

    found, history = Families(), History()
    for number, size in enumerate((5, 9)):
        history.note(request(size, k="1"), key(hlo=str(number)), found.choose("f", module(size)), number)
    other = history.note(request(33, k="2"), key(hlo="c"), ALONE, 2)
    assert [(c["of"], c["was"], c["now"]) for c in other["changed"]] == [("Python value 'k'", "1", "2")]
    alone = history.note(request(34, k="1"), key(hlo="d"), misfit(PARTED, ADD), 3)
    assert [(c["of"], c["was"], c["now"]) for c in alone["changed"]] == [("argument 'x'", "9", "34")]


def test_functions_of_one_name_are_told_apart_by_their_line() -> None:
    history = History()
    one, two = (dataclasses.replace(request(8), place=lambda line=line: line) for line in ("a.py:1", "b.py:1"))
    assert [history.note(r, key(), ALONE, n)["reason"][:5] for n, r in enumerate((one, two))] == ["first", "first"]
    found = history.note(dataclasses.replace(one, guards=request(9).guards), key(hlo="b"), ALONE, 2)
    assert found["closest"] == 0


def test_the_closest_is_the_latest_of_those_with_most_in_common() -> None:
    history = History()
    for number, dims in enumerate([(8, 4), (8, 5), (7, 7), (8, 6)]):
        history.note(request(*dims), key(), ALONE, number)
    found = history.note(request(9, 5), key(), misfit(PARTED, ADD), 4)
    assert (found["closest"], [(c["axis"], c["was"], c["now"]) for c in found["changed"]]) == (1, [(0, "8", "9")])
    apart = {"where": "train.py:9", "instr": "%add.4 (add)", "what": PARTED, "values": ["a", "b"]}
    assert found["apart"] == {**apart, "stack": []}
    assert found["reason"] == (
        f"argument 'x': dim 0 was 8, is 9; for these alone: train.py:9: %add.4 (add): {PARTED}: a, b"
    )


def test_a_size_is_not_held_against_a_small_one() -> None:
    """Where there is another: these two are never one executable."""
    history = History()
    for number, size in enumerate((5, 9, 1)):
        history.note(request(size), key(), ALONE, number)
    assert history.note(request(33), key(hlo="b"), ALONE, 3)["closest"] == 1
    small = dataclasses.replace(ALONE, misfit=SMALL_SIZES)
    found = history.note(request(0), key(hlo="b"), small, 4)
    assert found["reason"].endswith("; for these alone: sizes below 2 have modules of their own")
    assert found["remedies"] == []


@pytest.mark.parametrize(
    ("noun", "mark"), [("argument", "mark_dynamic(x, 0, max=N) before each call or "), ("value", "")]
)
def test_the_end_of_a_range(noun: str, mark: str) -> None:
    """Of sizes that were small so far; with the remedy it is no end."""

    def module(size: int) -> Rows:
        b = Builder("m")
        return rows.of_module(b.module(b.add_op("negate", b.parameter(array(F32, (size,))))))

    found, history, beyond = Families(), History(), fit.SMALL + 1
    for number, size in enumerate((5, 9, beyond)):
        asked = request(size, of=f"{noun} 'x'")
        noted = history.note(asked, key(hlo=str(number)), found.choose("f", module(size)), number)
    assert noted["reason"] == (
        f"{noun} 'x': dim 0 was 9, is {beyond}; the earlier executable is for at most {fit.SMALL} there; "
        "compiled for all such sizes"
    )
    assert noted["remedies"] == [
        f"{mark}--tfxla_dynamic_sources=x:0=[..N], N the largest size that comes: the first executable is for sizes to "
        "there"
    ]
    ((entry,), limits) = size_spec.parse(f"x:0=[..{beyond}]"), Limits(sizes={(0, 0): size_spec.Size(max=beyond)})
    assert entry.size == limits.sizes[0, 0]
    first, second, third = [found.choose("g", module(size), limits) for size in (5, 9, beyond)]
    assert first.generic is None
    assert second.generic is third.generic is not None


def test_a_line_an_input() -> None:
    """Of what the executable holds for, not of the call's own sizes."""
    asked = request(34, 4, value=b"\1")
    own = [Guard("rank", 0, 2), Guard("range", (0, 0), (2, 99)), Guard("equal", (0, 1), 4)]
    assert compile_records.by_input(asked, own) == ["argument 'x': float32[None,4] = [1]"]
    assert compile_records.by_input(asked, asked.guards) == ["argument 'x': float32[34,4] = [1]"]
    assert compile_records.by_input(dataclasses.replace(asked, names=None), own) == []


def test_the_latest_compilations_are_remembered() -> None:
    """A program may compile one function any number of times; each is held against so many."""
    history = History()
    for number in range(EARLIER + 2):
        history.note(request(8 + number), key(hlo=str(number)), ALONE, number)
    assert "compiled before" in history.note(request(8 + EARLIER), key(hlo=str(EARLIER)), ALONE, 0)["reason"]
    assert "dim 0" in history.note(request(8), key(hlo="0"), ALONE, 0)["reason"]
