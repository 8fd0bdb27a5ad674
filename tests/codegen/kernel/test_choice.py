"""Choices: every candidate of a lowering computes what the default does; what is not offered is refused, named."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from tests.fuzz.modules import program
from tests.hlo_case import Array
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu, interpreter
from tfxla_cluster.codegen.kernel.choice import DEFAULT, Candidates, Choice, Chosen, Given, Knobs
from tfxla_cluster.codegen.kernel.key import key
from tfxla_cluster.codegen.kernel.unit import UnitKernel
from tfxla_cluster.errors import UnsupportedError
from tfxla_cluster.ir import text
from tfxla_cluster.ir.dim import Dim
from tfxla_cluster.ir.node import Instr, Module

PLUS = "plus { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
# Name -> (text, the knobs of its one instruction).
MODULES = {
    "elementwise": (
        "HloModule m\nENTRY e { x = f32[307,211] parameter(0)\n  ROOT r = f32[307,211] tanh(x) }",
        {"block"},
    ),
    "transpose": (
        "HloModule m\nENTRY e { x = f32[131,77] parameter(0)\n  ROOT r = f32[77,131] transpose(x), dimensions={1,0} }",
        {"tile"},
    ),
    "row sums": (
        f"HloModule m\n{PLUS}ENTRY e {{ x = f32[57,700] parameter(0)\n  z = f32[] constant(0)\n"
        "  ROOT r = f32[57] reduce(x, z), dimensions={1}, to_apply=plus }",
        {"block"},
    ),
    "column sums": (
        f"HloModule m\n{PLUS}ENTRY e {{ x = f32[61,900] parameter(0)\n  z = f32[] constant(0)\n"
        "  ROOT r = f32[900] reduce(x, z), dimensions={0}, to_apply=plus }",
        {"tile", "unroll"},
    ),
    "product": (
        "HloModule m\nENTRY e { x = f32[600,130] parameter(0)\n  y = f32[130,140] parameter(1)\n"
        f"  ROOT r = f32[600,140] dot(x, y), {DOT} }}",
        {"rows", "cols"},
    ),
    "flat product": (
        "HloModule m\nENTRY e { x = f64[7,130] parameter(0)\n  y = f64[130,256] parameter(1)\n"
        f"  ROOT r = f64[7,256] dot(x, y), {DOT} }}",
        {"cols"},
    ),
    "one form": (
        "HloModule m\nENTRY e { x = f32[40] parameter(0)\n  ROOT r = f32[40] sort(x), dimensions={0}, to_apply=less }",
        set(),
    ),
}
LESS = "less { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = pred[] compare(a, b), direction=LT }\nENTRY"


def parsed(name: str) -> tuple[Module, Instr]:
    source = MODULES[name][0]
    module = text.parse(source.replace("ENTRY", LESS) if "less" in source else source)
    return module, module.entry.root


def hostile(module: Module, name: str) -> list[Array]:
    """Numbers of all sizes, with NaN, infinities and both zeros among them."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays = [np.asarray(rng.normal(size=p.shape.dims), p.shape.element_type.numpy) for p in module.entry.params]
    for array in arrays:
        array.reshape(-1)[:5] = [np.nan, np.inf, -np.inf, -0.0, 1e30]
        rng.shuffle(array.reshape(-1))
    return arrays


def run(module: Module, instr: Instr, choice: Choice, args: list[Array]) -> bytes:
    made = compiler.compile_module(module, cpu.this_machine(), choices=Given(instr.name, choice))
    return b"".join(a.tobytes() for a in made.executable.run(args))


@pytest.mark.parametrize("name", MODULES)
def test_every_candidate_gives_the_same_bits(name: str) -> None:
    """Choices on the CPU change no order of operations."""
    module, instr = parsed(name)
    args = hostile(module, name)
    found = cpu.this_machine().candidates(instr)
    assert set(found[0]) == MODULES[name][1]
    assert len(found) == len(set(found)) > (1 if MODULES[name][1] else 0)
    want = run(module, instr, DEFAULT, args)
    assert all(run(module, instr, choice, args) == want for choice in found)


def form(instr: Instr, choice: Choice) -> list[tuple[str, Dim]]:
    """What of its kernels a choice can change."""
    steps = cpu.this_machine().lower(instr, choice).steps
    return [(key(s.kernel), s.kernel.tasks) for s in steps if isinstance(s, UnitKernel)]


@pytest.mark.parametrize("name", [name for name, (_, knobs) in MODULES.items() if knobs])
def test_candidates_are_other_kernels(name: str) -> None:
    """A knob that changes nothing is no knob."""
    _, instr = parsed(name)
    first, *others = cpu.this_machine().candidates(instr)
    for knob in first:
        alone = [c for c in others if all(c[n] == first[n] for n in first if n != knob)]
        assert any(form(instr, c) != form(instr, first) for c in alone), knob


@pytest.mark.parametrize("seed", range(4))
def test_the_default_is_the_first_candidate(seed: int) -> None:
    """In drawn programs: lowered with it named, every instruction has the kernels it has without."""
    made = program(seed)
    backend = interpreter.this_machine()
    fused = compiler.compile_module(made.module, backend).chosen
    assert fused
    for instr in fused:
        assert form(instr, backend.candidates(instr)[0]) == form(instr, DEFAULT)


def test_what_is_not_offered_is_refused() -> None:
    _, instr = parsed("transpose")
    backend = cpu.this_machine()
    with pytest.raises(UnsupportedError, match="tile=17 is not one of the values that are offered: 16, 32, 64, 128"):
        backend.lower(instr, Choice({"tile": 17}))
    with pytest.raises(UnsupportedError, match="there is no 'rows' to choose"):
        backend.lower(instr, Choice({"rows": 24}))
    _, sort = parsed("one form")
    with pytest.raises(UnsupportedError, match="there is no 'tile'"):
        backend.lower(sort, Choice({"tile": 64}))


class Stubborn:
    """Choices that offer what no lowering takes, and keep what was said to that."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, instrs: Sequence[Instr]) -> None:
        self.said.append(f"begin {len(instrs)}")

    def choose(self, instr: Instr) -> Chosen:
        return Chosen(Choice({"tile": 17}), "file")

    def refused(self, instr: Instr, chosen: Chosen, reason: str) -> Chosen:
        self.said.append(f"{instr.name}: {reason}")
        return Chosen(reason=reason)


def test_a_refused_choice_gives_way_to_the_default() -> None:
    module, instr = parsed("transpose")
    args, choices = hostile(module, "transpose"), Stubborn()
    made = compiler.compile_module(module, cpu.this_machine(), choices=choices)
    assert choices.said == [
        "begin 1",
        f"{instr.name}: tile=17 is not one of the values that are offered: 16, 32, 64, 128",
    ]
    assert [c.source for c in made.chosen.values()] == ["default"]
    np.testing.assert_array_equal(made.executable.run(args)[0], args[0].T)


def test_a_choice_is_a_mapping_that_can_be_a_key() -> None:
    a, b = Choice({"x": 1, "y": 2}), Choice({"y": 2, "x": 1})
    assert a == b
    assert {a: 1}[b] == 1
    assert (repr(a), repr(DEFAULT), bool(DEFAULT)) == ("x=1 y=2", "default", False)
    assert a != Choice({"x": 1})


def test_a_space_is_what_was_asked() -> None:
    knobs = Knobs(Choice({"rows": 8}))
    assert knobs.take("rows", 4, (2, 4, 8)) == 8
    assert knobs.take("cols", 16, ()) == 16
    knobs.check()
    found = Candidates(knobs.space)
    assert [dict(c) for c in found] == [{"rows": n, "cols": 16} for n in (4, 2, 8)]
    assert (len(found), found[-1], found[1:]) == (3, list(found)[2], list(found)[1:])
    assert Choice({"rows": 2, "cols": 16}) in found
    assert not any(c in found for c in (Choice({"rows": 3, "cols": 16}), Choice({"rows": 2}), DEFAULT))
    other = Choice({"library": 7})
    more = Candidates(knobs.space, [other])
    assert list(more) == [*found, other]
    assert (len(more), more[-1], more[3:]) == (4, other, [other])
    assert other in more
    assert Choice({"library": 8}) not in more
    assert list(more.space_alone()) == list(found)
