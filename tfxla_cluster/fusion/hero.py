"""Fusions around one contraction: the hero, what feeds it, what follows it.

The rule, which `check` holds and a lowering of contractions may rely on:
* exactly one dot or convolution in the fused computation: the hero (`hero_of`);
* epilogue: instructions from the hero to the outputs are elementwise work at the hero's own index, so
  that an output element needs exactly one element of the hero; other inputs of the epilogue may be
  broadcast, reshaped, transposed or converted. An output has the hero's dims, or a reshape of them that
  leaves the minor one whole (`frame` gives the digits). The hero's own value may be an output too;
* prologue: operands of the hero are parameters, or cheap work on them (`PROLOGUE`): an element may be
  computed several times, once each time its block is packed. Nothing in it depends on the hero.
"""
from __future__ import annotations

from collections.abc import Sequence

from ..decision import YES, Decision, no
from ..errors import UnsupportedError
from ..ir.dim import product
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from .cost import costly
from .extent import same
from .index import Access, Computed, Index, Splitter, flatten, regroup
from .legality import HEROES
from .moves import sources
from .program import digits

MOVES_BEFORE = frozenset("broadcast reshape bitcast transpose iota constant parameter".split())
MAX_PROLOGUE = 4  # operations an element of an operand


def hero_of(comp: Computation) -> Instr | None:
    """The one contraction of a fused computation; None where there is none."""
    found = [i for i in comp.instrs if i.opcode in HEROES]
    return found[0] if len(found) == 1 else None


def is_prologue(instr: Instr) -> bool:
    """Cheap enough to compute whenever an operand is packed."""
    return instr.opcode in MOVES_BEFORE or is_elementwise(instr.opcode) and not costly(instr)


def check(hero: Instr, outputs: Sequence[Instr], inside: Sequence[Instr]) -> Decision:
    """Whether instructions form a fusion around `hero`; `inside` holds all of them."""
    members = set(inside)
    before: set[Instr] = set()
    for operand in hero.operands:
        decision = _prologue(operand, members, before)
        if not decision:
            return decision
    if hero in before:
        return no("hero-prologue", f"{hero.name} would feed itself")
    indices = frame(hero, outputs)
    if indices is None:
        return no("hero-output", f"outputs are not elements of {hero.name} one by one")
    return _epilogue(hero, [Access(o, i) for o, i in zip(outputs, indices[1:])], indices[0], members)


def frame(hero: Instr, outputs: Sequence[Instr]) -> tuple[Index, ...] | None:
    """The index of the hero's element, then of each output's, made of the same digits.

    None where the dims of the outputs and of the hero are not groups of the same finer dims, or where the
    hero's minor dim would be cut (its loop runs in lanes, without divisions).
    """
    arrays = (hero, *outputs)
    finest = max(arrays, key=lambda i: sum(d != 1 for d in i.shape.dims))
    seq = flatten(digits(finest.shape.dims, "o"))
    if not all(same(product(i.shape.dims), product(finest.shape.dims)) for i in arrays):
        return None
    found = tuple(regroup(seq, i.shape.dims, Splitter()) for i in arrays)
    if any(isinstance(atom, Computed) for index in found for part in index for atom in part):
        return None
    minor = [part for part in found[0] if part][-1:]
    return None if minor and len(minor[0]) > 1 else found


def _prologue(operand: Instr, members: set[Instr], seen: set[Instr]) -> Decision:
    """What feeds one operand."""
    todo, operations = [operand], 0
    while todo:
        instr = todo.pop()
        if instr in seen or instr not in members:
            continue
        seen.add(instr)
        if not is_prologue(instr):
            return no("hero-prologue", f"{instr.name} ({instr.opcode}) is too dear to compute at every packing")
        operations += instr.opcode not in MOVES_BEFORE
        todo.extend(instr.operands)
    if operations > MAX_PROLOGUE:
        return no("hero-prologue", f"{operations} operations an element of {operand.name}")
    return YES


def _epilogue(hero: Instr, roots: Sequence[Access], own: Index, members: set[Instr]) -> Decision:
    todo = list(roots)
    seen = set(todo)
    while todo:
        access = todo.pop()
        instr, index, _ = access
        if instr is hero:
            if flatten(index) != flatten(own):
                return no("hero-epilogue", f"{hero.name} is used at another index")
            continue
        if instr not in members:
            continue
        if any(isinstance(atom, Computed) for seq in index for atom in seq):
            return no("hero-epilogue", f"{instr.name} is used at a computed index")
        if not is_elementwise(instr.opcode) and instr.opcode not in MOVES_BEFORE:
            return no("hero-epilogue", f"{instr.name} ({instr.opcode}) is not elementwise")
        try:
            found = sources(access, Splitter())
        except UnsupportedError as error:
            return no("hero-epilogue", str(error))
        todo.extend(f for f in found if f not in seen)
        seen.update(found)
    return YES
