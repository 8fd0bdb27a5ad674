"""Is a generic module, at the sizes of a module that TensorFlow lowered there, that very module?

All is compared but names and places: opcodes, operands, shapes, attributes, the bits of literals, and the types of
TensorFlow's ops, by which passes tell products. So the generic module computes at these sizes what the program
computes, whatever was guessed when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..decision import YES, Decision, no
from ..ir import guard
from ..ir.dim import DimExpr, leaves
from ..ir.guard import Guard
from ..ir.literal import Literal, equal_bits
from ..ir.node import Instr
from ..ir.shape import Shape
from ..ir.size_values import SIZED, replaced
from .forms import Handed
from .misfit import Misfit
from .rows import Row, Rows, fixed_attributes
from .unifier import Generic, at

RULE = "dynamic-proof"


def prove(generic: Generic, module: Rows) -> Decision:
    """Yes, or the first instruction where the two differ."""
    misfit = parted(generic, module)
    return YES if misfit is None else no(RULE, str(misfit))


def parted(generic: Generic, module: Rows) -> Misfit | None:
    """Where the two differ first, None where the module is the generic one at its sizes."""
    env = sizes_of(generic, module.module.param_shapes)
    if isinstance(env, Decision):
        return Misfit(None, env.reason)
    template = generic.template
    if template.module.aliases != module.module.aliases or len(template.bodies) != len(module.bodies):
        return Misfit(None, "another number of computations, or other aliases")
    at_sizes = _AtSizes(generic, env)
    for number, (body, other) in enumerate(zip(template.bodies, module.bodies)):
        if len(body.rows) != len(other.rows) or body.root != other.root:
            return Misfit(None, f"{other.comp.name} has {len(other.rows)} instructions, not {len(body.rows)}")
        for place, (row, found) in enumerate(zip(body.rows, other.rows)):
            wrong = at_sizes.difference((number, place), row, found)
            if wrong:
                return Misfit(found.instr, wrong)
    return None


def sizes_of(generic: Generic, shapes: Sequence[Shape]) -> dict[str, int] | Decision:
    """What each size is, from the parameters' shapes; no where that does not fit."""
    env: dict[str, int] = {}
    params = generic.template.module.entry.params
    if len(params) != len(shapes):
        return no(RULE, f"{len(shapes)} arguments, not {len(params)}")
    pairs = list(zip(params, shapes))
    for param, shape in pairs:
        for dim, number in zip(param.shape.dims, shape.dims):
            if isinstance(dim, DimExpr) and dim.is_size and isinstance(number, int):
                if env.setdefault(dim.name, number) != number:
                    return no(RULE, f"{dim.name} is {env[dim.name]} and {number}")
                if not dim.admits(number):
                    return no(RULE, f"the size {dim.name} is {number}, but must be {dim.values}")
    missing = {size.name for param, _ in pairs for d in param.shape.dims for size in leaves(d)} - env.keys()
    return no(RULE, f"nothing tells {', '.join(sorted(missing))}") if missing else env


def handed_over(generic: Generic, module: Rows) -> tuple[np.ndarray, ...]:
    """What the generic module takes behind the parameters of a module that it is proven to be: literals of this one."""
    found: dict[int, np.ndarray] = {}
    for (body, row), form in generic.literals.items():
        if isinstance(form, Handed):
            part = form.part(module.bodies[body].rows[row].instr.attrs["literal"])
            assert part is not None
            found[form.parameter] = part
    return tuple(found[number] for number in sorted(found))


@dataclass(frozen=True)
class _Parameter:
    """As guards on sizes see it."""

    dims: tuple[int, ...]
    dtype: int = 0

    def bytes(self) -> bytes:
        return b""


def holds(guards: Iterable[Guard], shapes: Iterable[Shape]) -> Decision:
    """Are the sizes of a module, by its parameters' shapes, such as an executable was made for? Those of literals that
    are handed over follow."""
    params = [_Parameter(shape.sample_dims) for shape in shapes]
    sizes = (g for g in guards if guard.KINDS[g.kind].about == "size" and g.place[0] < len(params))
    failed = guard.failed(sizes, params)
    return no(RULE, f"its kernels are for other sizes ({failed[0]})") if failed else YES


class _AtSizes:
    """A generic module at some sizes; its rows and those of the module to be proven are kept by who asks."""

    def __init__(self, generic: Generic, env: Mapping[str, int]) -> None:
        self.generic, self.env = generic, env
        # Modules have few shapes, which are read once: pairs that are equal, by identity.
        self.equal: set[tuple[int, int]] = set()

    def difference(self, place: tuple[int, int], row: Row, found: Row) -> str:
        """What differs in row `place` = (body, row), '' for nothing."""
        one, two = row.instr, found.instr
        if one.opcode != two.opcode or (row.operands, row.control, row.called) != (
            found.operands,
            found.control,
            found.called,
        ):
            return f"there is %{one.name} ({one.opcode})"
        if one.metadata.op_type != two.metadata.op_type:
            return f"it is of {two.metadata.op_type}, not of {one.metadata.op_type}"
        if (id(one.shape), id(two.shape)) not in self.equal:
            shape = self._numbers(one.shape)
            if shape != two.shape:
                return f"{two.shape}, not {shape}"
            self.equal.add((id(one.shape), id(two.shape)))
        if not one.attrs and not two.attrs:
            return ""
        if one.opcode == "constant":
            return "" if self._is_literal(place, one, two.attrs["literal"]) else "another literal"
        sized = SIZED.get(one.opcode)
        if sized is not None:
            value = self._numbers(one.attrs.get(sized))
            if value != two.attrs.get(sized):
                return f"{sized}={two.attrs.get(sized)}, not {value}"
        fixed, other = fixed_attributes(one), fixed_attributes(two)
        return "" if fixed == other else f"other attributes: {dict(other)}, not {dict(fixed)}"

    def _is_literal(self, place: tuple[int, int], one: Instr, literal: Literal) -> bool:
        form = self.generic.literals.get(place)
        if isinstance(form, Handed):
            return not isinstance(literal, tuple) and form.part(literal) is not None
        return equal_bits(one.attrs["literal"] if form is None else form.at(self.env), literal)

    def _numbers(self, value: Any) -> Any:
        """A shape or an attribute at the sizes."""
        return replaced(value, lambda dim: at(dim, self.env))
