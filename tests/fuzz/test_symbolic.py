"""Fuzz modules with sizes: the verifier passes them exactly when it passes their instances; code made once is right
at all sizes.

`TFXLA_FUZZ=COUNT[:FIRST]` runs that many programs, from number FIRST.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from tests import oracle
from tests.fuzz import symbolic
from tests.fuzz.modules import Program, nested_program, program
from tests.fuzz.test_fuzz import NUMBERS, check
from tfxla_cluster import compiler
from tfxla_cluster.backends import cpu
from tfxla_cluster.errors import VerifierError
from tfxla_cluster.ir import proto, text
from tfxla_cluster.ir.evaluator import evaluate
from tfxla_cluster.ir.node import Module
from tfxla_cluster.ir.size_values import instantiate
from tfxla_cluster.ir.verifier import verify
from tfxla_cluster.options import CompileOptions


def environments(drawn: symbolic.Drawn, seed: int, most: int = 1000) -> list[dict[str, int]]:
    """Five: the sizes that were drawn, none, one, a few, and many (up to `most`)."""
    rng = random.Random(seed)
    found = [dict(drawn.sizes), dict.fromkeys(drawn.sizes, 0), dict.fromkeys(drawn.sizes, 1)]
    few, many = ({name: rng.randint(low, high) for name in drawn.sizes} for low, high in ((2, 5), (most // 2, most)))
    return [*found, few, many]


def broken(module: Module) -> str:
    """The rule that the verifier says is broken; '' where none is."""
    try:
        verify(module)
    except VerifierError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("make", [lambda number: program(number, 4), nested_program], ids=["flat", "nested"])
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_verifier(first: int, make: Callable[[int], Program]) -> None:
    right = wrong = 0
    for number in range(first, first + 50):
        drawn = symbolic.draw(make(number), number)
        if drawn is None:
            continue
        found = broken(drawn.module)
        instances = [broken(instantiate(drawn.module, env)) for env in environments(drawn, number)]
        assert bool(found) == any(instances), (
            f"{number}: {found or 'right'}, but {instances}\n{text.render(drawn.module)}"
        )
        right, wrong = right + (not found), wrong + bool(found)
    assert right > 10 < wrong


def test_text_and_protos_keep_sizes() -> None:
    kept = 0
    for number in range(60):
        drawn = symbolic.draw(program(number), number)
        if drawn is None:
            continue
        written = text.render(drawn.module)
        for again in (text.parse(written), proto.read(proto.write(drawn.module))):
            assert text.render(again) == written, number
            assert [i.shape for i in again.entry.instrs] == [i.shape for i in drawn.module.entry.instrs], number
        if number % 10 == 0:
            oracle.parse(written)
        kept += 1
    assert kept > 30


def right_at_all_sizes(number: int) -> tuple[int, symbolic.Drawn]:
    """The first program from `number` * 100 on that the verifier passes; one of four is made of control flow."""
    make = program if number % 4 else nested_program
    for seed in itertools.count(number * 100):
        drawn = symbolic.draw(make(seed), seed)
        if drawn is not None and not broken(drawn.module):
            return seed, drawn
    raise AssertionError


@pytest.mark.parametrize("number", NUMBERS)
def test_compiled_once(number: int) -> None:
    seed, drawn = right_at_all_sizes(number)
    try:
        options = CompileOptions(fusion=number % 5 > 0)
        executable = compiler.compile_module(drawn.module, cpu.this_machine(), options).executable
        for env in environments(drawn, seed, most=37):
            instance = instantiate(drawn.module, env)
            args = symbolic.arguments(random.Random(seed), instance, drawn.program)
            check(executable.run(args), evaluate(instance, args), drawn.program, f"at {env}")
    except Exception:
        print(text.render(drawn.module))
        raise
