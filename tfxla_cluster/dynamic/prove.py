"""Is a generic module, at the sizes of a module that TensorFlow lowered there, that very module?

All is compared but names and metadata: opcodes, operands, shapes, attributes, the bits of literals. So the generic
module computes at these sizes what the program computes, whatever was guessed when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..decision import YES, Decision, no
from ..ir import guard
from ..ir.dim import Dim, DimExpr, leaves
from ..ir.guard import Guard
from ..ir.literal import equal_bits
from ..ir.node import Module
from ..ir.size_values import SIZED, replaced
from .rows import Row, Rows, fixed_attributes
from .unify import Generic, at

RULE = "dynamic-proof"


def prove(generic: Generic, module: Rows) -> Decision:
    """Yes, or the first instruction where the two differ."""
    env = sizes_of(generic, module)
    if isinstance(env, Decision):
        return env
    template = generic.template
    if template.module.aliases != module.module.aliases or len(template.bodies) != len(module.bodies):
        return no(RULE, "another number of computations, or other aliases")
    for number, (body, other) in enumerate(zip(template.bodies, module.bodies)):
        if len(body.rows) != len(other.rows) or body.root != other.root:
            return no(RULE, f"{other.comp.name} has {len(other.rows)} instructions, not {len(body.rows)}")
        for place, (row, found) in enumerate(zip(body.rows, other.rows)):
            wrong = _difference(generic, (number, place), row, found, env)
            if wrong:
                return no(RULE, f"%{found.instr.name} ({found.instr.opcode}): {wrong}")
    return YES


def sizes_of(generic: Generic, module: Rows) -> dict[str, int] | Decision:
    """What each size is, from the parameters' shapes; no where that does not fit."""
    env: dict[str, int] = {}
    pairs = list(zip(generic.template.module.entry.params, module.module.entry.params))
    for param, found in pairs:
        for dim, number in zip(param.shape.dims, found.shape.dims):
            if isinstance(dim, DimExpr) and dim.is_size and isinstance(number, int):
                if env.setdefault(dim.name, number) != number:
                    return no(RULE, f"{dim.name} is {env[dim.name]} and {number}")
                if number < dim.low or (dim.high is not None and number > dim.high):
                    return no(RULE, f"the size {dim.name} is {number}, but must be {dim.low} to {dim.high}")
    missing = {size.name for param, _ in pairs for d in param.shape.dims for size in leaves(d)} - env.keys()
    return no(RULE, f"nothing tells {', '.join(sorted(missing))}") if missing else env


@dataclass(frozen=True)
class _Parameter:
    """As guards on sizes see it."""

    dims: tuple[int, ...]
    dtype: int = 0

    def bytes(self) -> bytes:
        return b""


def holds(guards: Iterable[Guard], module: Module) -> Decision:
    """Are the sizes of a module such as an executable was made for?"""
    params = [_Parameter(param.shape.sample_dims) for param in module.entry.params]
    failed = guard.failed((g for g in guards if guard.KINDS[g.kind].about == "size"), params)
    return no(RULE, f"its kernels are for other sizes ({failed[0]})") if failed else YES


def _difference(generic: Generic, place: tuple[int, int], row: Row, found: Row, env: Mapping[str, int]) -> str:
    """What differs, '' for nothing."""
    one, two = row.instr, found.instr
    if one.opcode != two.opcode or (row.operands, row.control, row.called) != (
        found.operands,
        found.control,
        found.called,
    ):
        return f"there is %{one.name} ({one.opcode})"

    def number(dim: DimExpr) -> Dim:
        return at(dim, env)

    if one.shape != two.shape and replaced(one.shape, number) != two.shape:
        return f"{two.shape}, not {replaced(one.shape, number)}"
    sized = SIZED.get(one.opcode)
    if sized is not None and one.attrs.get(sized) != two.attrs.get(sized):
        value = replaced(one.attrs.get(sized), number)
        if value != two.attrs.get(sized):
            return f"{sized}={two.attrs.get(sized)}, not {value}"
    if one.opcode == "constant":
        form = generic.literals.get(place)
        literal = one.attrs["literal"] if form is None else form.at(env)
        return "" if equal_bits(literal, two.attrs["literal"]) else "another literal"
    fixed, other = fixed_attributes(one), fixed_attributes(two)
    return "" if fixed == other else f"other attributes: {dict(other)}, not {dict(fixed)}"
