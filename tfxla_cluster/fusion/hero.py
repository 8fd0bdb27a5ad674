"""Fusions around one contraction: the hero, what feeds it, what follows it.

The rule, which `check` holds and a lowering of contractions may rely on:
* exactly one dot or convolution in the fused computation: the hero (`hero_of`);
* epilogue: instructions from the hero to the outputs are elementwise work at the hero's own index, so
  that an output element needs exactly one element of the hero; other inputs of the epilogue may be
  broadcast, reshaped, transposed or converted. An output may be a reshape or transpose of the hero's
  dims that keeps the minor one minor and whole (`epilogue` gives the indices). The hero's own value may
  be an output too;
* prologue: operands of the hero are parameters, or cheap work on them (`PROLOGUE`): an element may be
  computed several times, once each time its block is packed. Nothing in it depends on the hero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..decision import YES, Decision, no
from ..errors import UnsupportedError
from ..ir.dim import product
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.polynomial import same
from .cost import costly
from .index import Access, Computed, Index, Refiner, Seq, flatten, regroup
from .legality import HEROES, MOVES_BEFORE
from .moves import sources
from .program import MAX_RESTARTS, Group, digits, runs_together


@dataclass(frozen=True)
class Epilogue:
    """`own`: the hero's index, made of digits. `roots`: the access of each output, of the same digits.
    `groups`: for each dim of the hero the loops that make up its index, major first (one for the minor)."""

    own: Index
    roots: tuple[Access, ...]
    groups: tuple[tuple[Group, ...], ...]


def hero_of(comp: Computation) -> Instr | None:
    """The one contraction of a fused computation; None where there is none."""
    found = [i for i in comp.instrs if i.opcode in HEROES]
    return found[0] if len(found) == 1 else None


def is_prologue(instr: Instr) -> bool:
    """Cheap enough to compute whenever an operand is packed."""
    return instr.opcode in MOVES_BEFORE or (is_elementwise(instr.opcode) and not costly(instr))


def check(hero: Instr, outputs: Sequence[Instr], inside: Sequence[Instr], max_prologue: int) -> Decision:
    """Whether instructions form a fusion around `hero`; `inside` holds all of them. `max_prologue`: operations an
    element of an operand."""
    members = set(inside)
    before: set[Instr] = set()
    for operand in hero.operands:
        decision = _prologue(operand, members, before, max_prologue)
        if not decision:
            return decision
    if hero in before:
        return no("hero-prologue", f"{hero.name} would feed itself")
    try:
        epilogue(hero, outputs, inside)
    except UnsupportedError as error:
        return no("hero-epilogue", error.message)
    return YES


def _prologue(operand: Instr, members: set[Instr], seen: set[Instr], most: int) -> Decision:
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
    if operations > most:
        return no("hero-prologue", f"{operations} operations an element of {operand.name}")
    return YES


def epilogue(hero: Instr, outputs: Sequence[Instr], inside: Sequence[Instr]) -> Epilogue:
    """The indices of what follows `hero`; UnsupportedError says why it cannot follow element by element."""
    refiner = Refiner()
    finest = max(outputs, key=lambda i: (sum(d != 1 for d in i.shape.dims), i is not hero))
    first = digits(finest.shape.dims, "o")
    for _ in range(MAX_RESTARTS):
        refiner.changed = False
        walk = _Walk(hero, set(inside), refiner)
        seq = refiner.expand(flatten(first))
        own = walk.visit(Access(finest, regroup(seq, finest.shape.dims, refiner)))
        roots = [Access(o, walk.index_of(o, own, seq)) for o in outputs]
        for root in roots:
            walk.visit(root)
        if not refiner.changed:
            return Epilogue(own, tuple(roots), walk.groups(own))
    raise UnsupportedError("reshapes split the loops too often")


class _Walk:
    """One walk from the outputs to the hero; every access to it must be the same."""

    def __init__(self, hero: Instr, members: set[Instr], refiner: Refiner) -> None:
        self.hero, self.members, self.refiner = hero, members, refiner
        self.found: Access | None = None
        self.runs: dict[Seq, None] = {}
        self.seen: set[Access] = set()

    def index_of(self, output: Instr, own: Index, seq: Seq) -> Index:
        """The hero's own index for the hero, else what its dims make of the first output's digits."""
        if output is self.hero:
            return own
        dims = output.shape.dims
        if not same(product(dims), product(self.hero.shape.dims)):
            raise UnsupportedError(f"{output.name} is not one element for each of {self.hero.name}")
        return regroup(seq, dims, self.refiner)

    def visit(self, root: Access) -> Index:
        self.runs[flatten(root.index)] = None
        todo = [] if root in self.seen else [root]
        self.seen.add(root)
        while todo:
            for source in self._step(todo.pop()):
                if source not in self.seen:
                    self.seen.add(source)
                    todo.append(source)
        if self.found is None:
            raise UnsupportedError(f"{root.instr.name} does not depend on {self.hero.name}")
        return self.found.index

    def _step(self, access: Access) -> tuple[Access, ...]:
        instr, index, _ = access
        if any(isinstance(atom, Computed) for seq in index for atom in seq) and not self.refiner.changed:
            raise UnsupportedError(f"{instr.name} is used at a computed index")
        if instr is self.hero:
            if self.found not in (None, access) and not self.refiner.changed:
                raise UnsupportedError(f"{instr.name} is used at several indices")
            self.found = access
            return ()
        if instr not in self.members or instr.opcode == "parameter":
            self.runs[flatten(index)] = None
            return ()
        if not is_elementwise(instr.opcode) and instr.opcode not in MOVES_BEFORE:
            raise UnsupportedError(f"{instr.name} ({instr.opcode}) is not elementwise")
        if instr.opcode == "iota":
            self.runs[index[instr.attrs["iota_dimension"]]] = None
        return sources(access, self.refiner)

    def groups(self, own: Index) -> tuple[tuple[Group, ...], ...]:
        """The loops of each of the hero's dims: digits that always stand together make one."""
        minor = next((seq for seq in reversed(own) if seq), ())
        for seq in own:
            self.runs[seq] = None
        found = tuple(tuple(runs_together(seq, self.runs)) for seq in own)
        last = [run for run in self.runs if set(run) & set(minor)]
        if len(found[own.index(minor)]) > 1 if minor else False:
            raise UnsupportedError(f"the minor dimension of {self.hero.name} would be cut")
        if any(run[-len(minor) :] != minor for run in last):
            raise UnsupportedError(f"the minor dimension of {self.hero.name} would lie across memory")
        return found
