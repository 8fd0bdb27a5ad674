"""Why modules are not one: where they part, and what each of them has there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dim import LEAST_GENERIC
from ..ir.literal import Literal, equal_bits
from ..ir.node import Instr
from ..ir.size_values import SIZED
from .rows import Row, Rows, shape_form, structural_attributes

PARTED = "the programs part here"
_NO_SIZE = "no size of an argument differs"
_LONGEST = 60  # characters of a value


@dataclass(frozen=True)
class Misfit:
    """The instruction, of the module that came last, where modules part (None: the whole), what it is about, and what
    each of them has there."""

    instr: Instr | None
    what: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = f"%{self.instr.name} ({self.instr.opcode}): " if self.instr is not None else ""
        return f"{at}{self.what}{': ' if self.values else ''}{', '.join(self.values)}"


SMALL_SIZES = Misfit(None, f"sizes below {LEAST_GENERIC} have modules of their own")
"""Of modules that differ in such a size: where their programs part besides is not the reason."""


def short(value: Any) -> str:
    """A value in a line, cut where it is long."""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def difference(modules: Sequence[Rows]) -> Misfit:
    """Where modules of different structure part."""
    first = modules[0]
    for other in modules[1:]:
        for body, peer in zip(first.bodies, other.bodies):
            for row, found in zip(body.rows, peer.rows):
                misfit = _between(row, found)
                if misfit is not None:
                    return misfit
            if len(body.rows) != len(peer.rows):
                counts = tuple(f"{len(b.rows)} instructions" for b in (body, peer))
                return Misfit(None, f"{peer.comp.name} is longer in one", counts)
        if len(first.bodies) != len(other.bodies):
            counts = tuple(f"{len(rows.bodies)} computations" for rows in (first, other))
            return Misfit(None, "one has more computations", counts)
    return Misfit(None, "variables are updated in other places")


def numbers(modules: Sequence[Rows]) -> Misfit:
    """The first number in which modules of one structure and of the same sizes of arguments differ."""
    last = modules[-1]
    for other in modules[:-1]:
        for body, peer in zip(other.bodies, last.bodies):
            for row, found in zip(body.rows, peer.rows):
                if differing := _numbers(row.instr, found.instr):
                    what, *values = differing
                    return Misfit(found.instr, f"{_NO_SIZE}, but {what} does", tuple(values))
    return Misfit(None, _NO_SIZE)


def _numbers(one: Instr, two: Instr) -> tuple[str, str, str] | None:
    """What differs, and what it is in each; None where the instructions have the same numbers."""
    sized = SIZED.get(one.opcode, "")
    if one.opcode == "constant" and not equal_bits(one.attrs["literal"], two.attrs["literal"]):
        return "this constant", *_elements(one.attrs["literal"], two.attrs["literal"])
    if one.attrs.get(sized) != two.attrs.get(sized):
        return f"its {sized}", short(one.attrs[sized]), short(two.attrs[sized])
    return None if one.shape == two.shape else ("its shape", str(one.shape), str(two.shape))


def _elements(one: Literal, two: Literal) -> tuple[str, str]:
    """Of two arrays of one shape and several elements the first that differs, with its place; else all."""
    if isinstance(one, tuple) or isinstance(two, tuple) or one.shape != two.shape or one.size == 1:
        return short(one), short(two)
    at = next(at for at in np.ndindex(one.shape) if one[at].tobytes() != two[at].tobytes())
    return short(f"{one[at]} at {list(at)}"), short(f"{two[at]} at {list(at)}")


def _between(row: Row, other: Row) -> Misfit | None:
    one, two = row.instr, other.instr
    if (one.opcode, row.operands, row.control, row.called) != (two.opcode, other.operands, other.control, other.called):
        return Misfit(two, PARTED, (repr(one), repr(two)))
    attrs, found = structural_attributes(one), structural_attributes(two)
    for name in {**attrs, **found}:
        if attrs.get(name) != found.get(name):
            return Misfit(two, f"{name} differs", (short(one.attrs.get(name)), short(two.attrs.get(name))))
    if shape_form(one.shape) != shape_form(two.shape):
        return Misfit(two, "the type, rank or layout differs", (str(one.shape), str(two.shape)))
    return None
