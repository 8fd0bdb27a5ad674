"""Why modules are not one: where they part, and what each of them has there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.dim import LEAST_GENERIC
from ..ir.node import Instr
from .rows import Row, Rows, shape_form, structural_attributes

PARTED = "the programs part here"
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
