"""Canonical text: equal for equal work, another for other work, and HLO."""

from __future__ import annotations

import pytest

from tests.fuzz.modules import program
from tfxla_cluster import compiler
from tfxla_cluster.backends import interpreter
from tfxla_cluster.ir import text
from tfxla_cluster.ir.node import Instr
from tfxla_cluster.tuning.fingerprint import canonical

FUSION = """HloModule m
{add} {{ {a} = f32[] parameter(0)
  {b} = f32[] parameter(1)
  ROOT s = f32[] {op}({a}, {b}) }}
{body} {{ {x} = f32[{rows},5] parameter(0)
{lines}
  z = f32[] constant({zero})
  ROOT r = f32[{rows}] reduce({y}, z), dimensions={{1}}, to_apply={add} }}
ENTRY e {{ p = f32[{rows},5] parameter(0)
  ROOT f = f32[{rows}] fusion(p), kind=kInput, calls={body}, metadata={{op_name="{node}"}} }}
"""
FIRST = {
    "add": "plus",
    "a": "a",
    "b": "b",
    "op": "add",
    "body": "body",
    "x": "x",
    "rows": "7",
    "lines": "  t = f32[7,5] tanh(x)\n  n = f32[7,5] negate(x)\n  y = f32[7,5] multiply(t, n)",
    "y": "y",
    "zero": "0",
    "node": "one",
}


def fusion(**changes: str) -> Instr:
    return text.parse(FUSION.format(**{**FIRST, **changes})).entry.root


def test_names_sources_and_order_do_not_matter() -> None:
    other = "  m = f32[7,5] negate(q)\n  u = f32[7,5] tanh(q)\n  w = f32[7,5] multiply(u, m)"
    renamed = fusion(add="sum", a="c", b="d", body="fused", x="q", lines=other, y="w", node="two")
    assert canonical(renamed) == canonical(fusion())


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "maximum"},
        {"rows": "8", "lines": FIRST["lines"].replace("7", "8")},
        {"zero": "1"},
        {"lines": FIRST["lines"].replace("tanh", "sine")},
        {"lines": FIRST["lines"].replace("multiply(t, n)", "multiply(n, t)")},
    ],
)
def test_what_is_computed_does(changes: dict[str, str]) -> None:
    assert canonical(fusion(**changes)) != canonical(fusion())


def test_the_form_of_xlas_keys() -> None:
    assert canonical(fusion()) == (
        "{\n"
        "  tmp_0 = f32[7,5]{1,0} parameter(0)\n"
        "  tmp_1 = f32[7,5]{1,0} tanh(tmp_0)\n"
        "  tmp_2 = f32[7,5]{1,0} negate(tmp_0)\n"
        "  tmp_3 = f32[7,5]{1,0} multiply(tmp_1, tmp_2)\n"
        "  tmp_4 = f32[] constant(0)\n"
        "  ROOT tmp_5 = f32[7]{0} reduce(tmp_3, tmp_4), dimensions={1}, to_apply=called_1\n"
        "}\n"
        "called_1 {\n"
        "  tmp_0 = f32[] parameter(0)\n"
        "  tmp_1 = f32[] parameter(1)\n"
        "  ROOT tmp_2 = f32[] add(tmp_0, tmp_1)\n"
        "}"
    )


def test_an_instruction_alone_is_told_by_its_operands_shapes() -> None:
    source = """HloModule m
ENTRY e { x = f32[8,4]{1,0} parameter(0)
  y = f32[4,3]{1,0} parameter(1)
  ROOT d = f32[8,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    found = canonical(text.parse(source).entry.root)
    assert found.splitlines()[1:3] == ["  tmp_0 = f32[8,4]{1,0} parameter(0)", "  tmp_1 = f32[4,3]{1,0} parameter(1)"]
    assert canonical(text.parse(source.replace("4", "6")).entry.root) != found


@pytest.mark.parametrize("seed", range(3))
def test_it_is_hlo(seed: int) -> None:
    """What is written reads back, and is then told the same."""
    made = compiler.compile_module(program(seed).module, interpreter.this_machine())
    for instr in made.chosen:
        found = canonical(instr)
        body, *called = found.split("\n}\n")
        comps = [f"{c.strip().removesuffix('}')}\n}}" for c in called]
        module = "HloModule m\n" + "\n".join([*reversed(comps), f"ENTRY body {body.removesuffix('}')}\n}}"])
        root = text.parse(module).entry
        again = Instr("f", "fusion", root.root.shape, root.params, {"calls": root})
        assert canonical(again) == found
