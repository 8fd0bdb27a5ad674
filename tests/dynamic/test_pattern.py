"""Modules that are recognised by their bytes (tfxla_cluster.dynamic.pattern): those that are proven, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dynamic.test_unify import FITTED, floats, unified
from tests.fuzz import symbolic
from tests.fuzz.modules import nested_program, program
from tfxla_cluster.dynamic import pattern, prove, rows, unify
from tfxla_cluster.dynamic.lowered import Lowered
from tfxla_cluster.dynamic.unifier import Generic
from tfxla_cluster.errors import ParseError
from tfxla_cluster.ir import proto
from tfxla_cluster.ir.builder import Builder
from tfxla_cluster.ir.node import Instr, Module
from tfxla_cluster.ir.size_values import instantiate, named_sizes

PAIR = ((32, 10), (48, 14))  # of the modules that are made one


def _windows(b: Builder, n: int, m: int) -> list[Instr]:
    x = floats(b, n, m)
    return [b.pad(b.slice(x, [(1, n, 1), (0, m, 1)]), b.constant(0.0), [(n, 0), (0, m)])]


BODIES = {**FITTED, "padding": _windows}


def module(name: str, *sizes: int) -> Module:
    b = Builder(f"of {sizes}")  # names and metadata are no part of a proof
    return b.module(*BODIES[name](b, *sizes))


def lowered(name: str, *sizes: int) -> Lowered:
    return Lowered(proto.write(module(name, *sizes)))


def made(generic: Generic, known: Lowered) -> pattern.Pattern:
    found = pattern.made(generic, known)
    assert found is not None
    return found


@pytest.mark.parametrize("name", BODIES)
def test_other_sizes_are_recognised(name: str) -> None:
    generic = unified(BODIES[name], *PAIR)
    found = made(generic, lowered(name, *PAIR[1]))
    for sizes in (*PAIR, (5, 2), (2, 31), (23, 29), (5, 2)):
        assert found.is_one(lowered(name, *sizes)), sizes
    for other in BODIES.keys() - {name}:
        assert not found.is_one(lowered(other, 23, 29))


def test_sizes_outside_of_a_range_and_tied_ones_are_not() -> None:
    tied = unified(BODIES["moves"], (6, 6), (9, 9))
    found = made(tied, lowered("moves", 9, 9))
    assert found.is_one(lowered("moves", 31, 31))
    assert not found.is_one(lowered("moves", 31, 32))
    assert not found.is_one(lowered("moves", 1, 1))


def test_none_of_what_it_is_not() -> None:
    generic = unified(BODIES["moves"], *PAIR)
    assert pattern.made(generic, lowered("products", 48, 14)) is None


def test_names_and_places_do_not_count() -> None:
    generic = unified(BODIES["control"], *PAIR)
    found = made(generic, lowered("control", *PAIR[1]))
    message = proto.decode(proto.write(module("control", 23, 29)))
    for comp in message.computations:
        comp.name += ".other"
        for instr in comp.instructions:
            instr.name, instr.metadata.op_name = f"{instr.name}.7", "elsewhere"
    assert found.is_one(Lowered(message.SerializeToString()))


def with_dead(n: int, m: int) -> Any:
    """The bytes of a module with the last row of an array, which nothing takes."""
    message = proto.decode(proto.write(module("padding", n, m)))
    body = next(comp for comp in message.computations if comp.id == message.entry_computation_id)
    dead = body.instructions.add()
    dead.CopyFrom(next(instr for instr in body.instructions if instr.opcode == "slice"))
    dead.name, dead.id = "dead", max(instr.id for instr in body.instructions) + 1
    for bounds, size in zip(dead.slice_dimensions, (n, m), strict=True):
        bounds.start, bounds.limit = size - 1, size
    dead.shape.dimensions[:] = [1, 1]
    return message


def test_numbers_of_what_nothing_takes_do_not_count() -> None:
    generic = unified(BODIES["padding"], *PAIR)
    known = Lowered(with_dead(*PAIR[1]).SerializeToString())
    found = made(generic, known)
    for sizes in ((5, 2), (23, 29)):
        message = with_dead(*sizes)
        assert found.is_one(Lowered(message.SerializeToString())), sizes
        body = next(comp for comp in message.computations if comp.id == message.entry_computation_id)
        body.instructions[-1].opcode = "negate"
        assert not found.is_one(Lowered(message.SerializeToString()))


def _changes(message: Any) -> Iterator[Any]:
    """Each way to change one number, word or list in a message; undone before the next."""
    for field, value in list(message.ListFields()):
        if field.type != field.TYPE_MESSAGE and not field.is_repeated:
            setattr(message, field.name, _other(value))
            yield field.name
            setattr(message, field.name, value)
        elif field.type != field.TYPE_MESSAGE:
            for place, part in enumerate(list(value)):
                value[place] = _other(part)
                yield field.name
                value[place] = part
        else:
            for part in value if field.is_repeated else [value]:
                yield from _changes(part)


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + (b"x" if isinstance(value, bytes) else "x" if isinstance(value, str) else 1)


@pytest.mark.parametrize("name", BODIES)
def test_no_other_program_is_recognised(name: str) -> None:
    """Of all protos that differ from a right one in one place, those that are recognised are proven too."""
    generic = unified(BODIES[name], *PAIR)
    found = made(generic, lowered(name, *PAIR[1]))
    message, refused = proto.decode(proto.write(module(name, 5, 3))), 0
    for field in _changes(message):
        try:
            changed = Lowered(message.SerializeToString())
        except (ParseError, UnicodeDecodeError):
            continue
        if found.is_one(changed):
            assert prove.prove(generic, changed.rows), field
        else:
            refused += 1
    assert refused > 40
    assert found.is_one(Lowered(message.SerializeToString()))


@pytest.mark.parametrize("make", [lambda number: program(number, 4), nested_program], ids=["flat", "nested"])
def test_drawn_programs(make: Any) -> None:
    """What is recognised at drawn sizes is proven, and nearly all that is proven is recognised."""
    recognised = proven = 0
    for number in range(25):
        drawn = symbolic.draw(make(number), number)
        if drawn is None:
            continue
        rng = random.Random(number)
        low = {name: max(2, size.low) for name, size in named_sizes(drawn.module).items()}
        every = [instantiate(drawn.module, {name: n + rng.randint(0, 30) for name, n in low.items()}) for _ in range(4)]
        generic = unify.unify([rows.of_module(one) for one in every[:2]])
        if not isinstance(generic, Generic):
            continue
        protos = [Lowered(proto.write(one)) for one in every]
        found = made(generic, protos[1])
        for one in protos:
            proven += bool(prove.prove(generic, one.rows))
            if found.is_one(one):
                recognised += 1
                assert prove.prove(generic, one.rows), number
    assert 20 < 0.8 * proven < recognised
