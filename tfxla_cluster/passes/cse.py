"""cse: of instructions that must give the same value, keep the first.

deduplicate-computations: of computations that combiners use (reduce, sort, ...) and that read the same,
keep the first, so that cse sees equal reductions as equal.
"""

from __future__ import annotations

from typing import Any

from ..ir.literal import Literal
from ..ir.node import CALLED_ATTRS, Computation, Instr, Module
from ..ir.rewrite import map_computations, rebuild
from .base import Pass, of_computations
from .match import is_pure

_LITERAL_LIMIT = 1 << 20
_COMBINING = ("reduce", "reduce-window", "scatter", "select-and-scatter", "sort", "map", "all-reduce")


def _literal_key(value: Literal) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_literal_key, value))
    return value.dtype.str, value.shape, value.tobytes() if value.nbytes <= _LITERAL_LIMIT else id(value)


def attributes_key(instr: Instr) -> Any:
    """The attributes that have a say in the value, hashable; called computations by identity."""
    return tuple(
        (name, _literal_key(value) if name == "literal" else value)
        for name, value in sorted(instr.attrs.items())
        if name != "frontend_attributes"
    )


def run(comp: Computation) -> Computation:
    """The first of equal pure instructions in place of the others."""
    first: dict[Any, Instr] = {}
    same: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if not is_pure(instr) or instr.control:
            continue
        operands = tuple([same.get(o, o) for o in instr.operands])
        key = (instr.opcode, instr.shape, operands, attributes_key(instr))
        known = first.setdefault(key, instr)
        if known is not instr:
            same[instr] = known
    return rebuild(comp, same) if same else comp


def _computation_key(comp: Computation) -> Any:
    numbers = {instr: n for n, instr in enumerate(comp.instrs)}
    rows = tuple((i.opcode, i.shape, tuple(numbers[o] for o in i.operands), attributes_key(i)) for i in comp.instrs)
    return rows, numbers[comp.root]


def _deduplicate(module: Module) -> Module:
    combiners = {c for comp in module.computations() for i in comp.instrs if i.opcode in _COMBINING for c in i.called}
    first: dict[Any, Computation] = {}
    same: dict[Computation, Computation] = {}
    for comp in module.computations():
        if comp in combiners and not any(key in i.attrs for i in comp.instrs for key in CALLED_ATTRS):
            known = first.setdefault(_computation_key(comp), comp)
            if known is not comp:
                same[comp] = known
    if not same:
        return module
    return map_computations(module, lambda comp: rebuild(comp, {}, called=same))


PASS = of_computations("cse", run)
DEDUPLICATE = Pass("deduplicate-computations", _deduplicate)
