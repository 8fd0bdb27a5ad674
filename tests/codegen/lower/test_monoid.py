"""What partial results of a reduction may start from."""

from __future__ import annotations

import numpy as np
import pytest

from tfxla_cluster.codegen.kernel.lower.monoid import identities, starts
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr

LARGEST = """{ a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GE
  same = pred[] compare(a, b), direction=EQ
  first = s32[] minimum(i, j)
  chosen = s32[] select(more, i, j)
  place = s32[] select(same, first, chosen)
  value = f32[] select(more, a, b)
  ROOT r = (f32[], s32[]) tuple(value, place) }"""


def reduce_of(combiner: str, initial: dict[str, str]) -> Instr:
    """The reduce of a module: one operand for each (dtype, HLO of its initial value)."""
    lines = [f"x{n} = {d}[5,7] parameter({n})\n  s{n} = {d}[] {v}" for n, (d, v) in enumerate(initial.items())]
    operands = ", ".join([*(f"x{n}" for n in range(len(lines))), *(f"s{n}" for n in range(len(lines)))])
    shape = ", ".join(f"{d}[5]" for d in initial)
    body = "\n  ".join(lines)
    root = f"({shape})" if len(lines) > 1 else shape
    return text.parse(
        f"HloModule m\nc {combiner}\nENTRY e {{ {body}\n"
        f"  ROOT r = {root} reduce({operands}), dimensions={{1}}, to_apply=c }}"
    ).entry.root


def scalar(op: str) -> str:
    return f"{{ a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] {op} }}"


def test_a_neutral_element_is_taken_whatever_the_initial_value() -> None:
    found = starts(reduce_of(scalar("add(a, b)"), {"f32": "constant(3)"}))
    assert found == identities(reduce_of(scalar("add(a, b)"), {"f32": "constant(3)"}).attrs["to_apply"], 1)
    assert np.signbit(found[0])  # -0.0


def test_an_initial_value_that_may_count_often() -> None:
    assert starts(reduce_of(LARGEST, {"f32": "constant(-inf)", "s32": "constant(0)"})) == (-np.inf, 0)
    assert starts(reduce_of(LARGEST, {"f32": "constant(2)", "s32": "constant(9)"})) == (2, 9)


@pytest.mark.parametrize(
    ("combiner", "initial"),
    [
        (
            "{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] multiply(a, b)\n ROOT r = f32[] add(c, a) }",
            "1",
        ),
        (scalar("subtract(a, b)"), "1"),
        (scalar("power(a, b)"), "2"),
    ],
)
def test_one_that_counts_differs(combiner: str, initial: str) -> None:
    assert starts(reduce_of(combiner, {"f32": f"constant({initial})"})) == (None,)


def test_one_that_is_not_known_while_compiling() -> None:
    found = starts(reduce_of(LARGEST, {"f32": "parameter(2)", "s32": "constant(0)"}))
    assert found == (None, None)
