"""Fuzz modules with sizes: some of the numbers in a module become names, and what follows from them expressions.

What is drawn may be right at every size, or wrong at some: numbers that agree by chance stay or become one size.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.draft import drawn_array
from tests.fuzz.modules import Program
from tfxla_cluster.errors import VerifierError
from tfxla_cluster.ir import dim as dims
from tfxla_cluster.ir.dim import Dim, DimExpr
from tfxla_cluster.ir.infer import infer
from tfxla_cluster.ir.node import Computation, Instr, Module
from tfxla_cluster.ir.rewrite import relinked
from tfxla_cluster.ir.shape import Shape

LIKELY = 0.93  # that a number which can be a size is one
_ROWS = ("slice", "slice_sizes", "dynamic_slice_sizes")


@dataclass
class Drawn:
    """`program`: what was drawn as numbers. `module`: the same with sizes. `sizes`: their names and samples."""

    program: Program
    module: Module
    sizes: dict[str, int]


def draw(made: Program, seed: int) -> Drawn | None:
    """Two sizes at most; None where the program has no dimensions for them."""
    rng = random.Random(seed)
    numbers = sorted({d for p in made.module.entry.params for d in p.shape.dims if d > 1})
    if not numbers:
        return None
    chosen = rng.sample(numbers, min(len(numbers), rng.randint(1, 2)))
    sizes = {number: dims.sym(name, number) for name, number in zip("nm", chosen)}
    entry = _Rewriter(rng, sizes).entry(made.module.entry)
    if not set(sizes.values()) <= {d for p in entry.params for d in p.shape.dims}:
        return None  # a size that no argument tells
    return Drawn(made, made.module.replace(entry=entry), {size.name: number for number, size in sizes.items()})


@dataclass
class _Rewriter:
    rng: random.Random
    sizes: Mapping[int, DimExpr]

    def entry(self, comp: Computation) -> Computation:
        return self.computation(comp, [p.shape.with_dims(tuple(map(self.size, p.shape.dims))) for p in comp.params])

    def size(self, number: int) -> Dim:
        """A size for a number, a multiple of one, or the number."""
        if self.rng.random() > LIKELY:
            return number
        if number in self.sizes:
            return self.sizes[number]
        for sample, size in self.sizes.items():
            if number and number % sample == 0:
                return size * (number // sample)
        return number

    def computation(self, comp: Computation, params: Sequence[Shape]) -> Computation:
        done: dict[Instr, Instr] = {}
        for instr in comp.instrs:
            if instr.opcode == "parameter":
                done[instr] = instr.replace(shape=params[instr.attrs["parameter_number"]])
            else:
                done[instr] = self.instruction(instr, tuple(done[o] for o in instr.operands))
        return Computation(comp.name, tuple(done.values()), done[comp.root])

    def instruction(self, instr: Instr, operands: tuple[Instr, ...]) -> Instr:
        attrs = self.attributes(instr, operands)
        claimed = instr.shape
        if instr.opcode in ("broadcast", "reshape", "iota"):
            claimed = claimed.with_dims(self.claimed(instr, operands))
        try:
            shape = infer(instr.opcode, [o.shape for o in operands], attrs, claimed)
        except VerifierError:  # wrong at the sizes that inference knows: let the verifier find it
            shape = claimed
        return instr.replace(operands=operands, attrs=attrs, shape=shape)

    def claimed(self, instr: Instr, operands: tuple[Instr, ...]) -> tuple[Dim, ...]:
        """A broadcast has its operand's sizes; a reshape of all but one of a size's factors keeps that one."""
        found = list(map(self.size, instr.shape.dims))
        if instr.opcode == "broadcast":
            for dim, at in zip(operands[0].shape.dims, instr.attrs["dimensions"]):
                found[at] = dim
        return tuple(found)

    def attributes(self, instr: Instr, operands: tuple[Instr, ...]) -> Mapping[str, Any]:
        """Windows that span a dimension span its size; called computations get the operands' shapes."""
        attrs = dict(instr.attrs)
        for key in _ROWS:
            if key in attrs:
                rows = zip(attrs[key], operands[0].shape.dims)
                attrs[key] = tuple(self.row(row, dim) for row, dim in rows)
        if instr.opcode in ("while", "conditional", "call"):
            params = [o.shape for o in (operands if instr.opcode == "call" else operands[-1:])]
            called = {c: self.computation(c, params) for c in instr.called}
            return relinked(instr.replace(attrs=attrs), called)
        return attrs

    def row(self, row: Any, dim: Dim) -> Any:
        if isinstance(dim, int) or self.rng.random() > LIKELY:
            return row
        if isinstance(row, tuple):
            start, limit, stride = row
            return (start, dim - (dims.sample(dim) - limit), stride)
        return dim if row == dims.sample(dim) else row


def arguments(rng: random.Random, module: Module, like: Program) -> list[np.ndarray]:
    """Arguments for the parameters of a module without sizes, of numbers such as those of `like`."""
    found = []
    for param, old in zip(module.entry.params, like.args):
        ends = (-2, 9) if param.shape.element_type.name in ("s32", "s64") else (-4, 4)
        hostile = not np.isfinite(old.astype(np.float64)).all()
        found.append(drawn_array(rng, param.shape.element_type.name, param.shape.sample_dims, *ends, hostile))
    return found
