"""Boxes of sizes: where a module for many sizes may run unproven, since it is right at all corners and within.

What shapes follow by TensorFlow's own rules, and what it decides by one comparison of sums and products of sizes, is
the same program at all sizes between those at which it is. Beyond them it need not be, and questions that have more
sides (two comparisons, an equality, a remainder) have to be looked for in the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import guard
from ..ir.dim import LEAST_GENERIC, DimExpr
from ..ir.guard import Guard
from ..ir.node import Instr, Module
from ..ir.shape import Shape
from ..size_spec import ANY, Size
from .sources import Place

MOST_SIDES = 3  # for each more the corners are twice as many
_MORE = 16  # that the largest size of a box is beyond twice its own
_NEAR = 128  # sizes from where a corner should be that are tried


@dataclass(frozen=True)
class Side:
    """A size, by the dimensions that have it, from `least` to `most`."""

    places: tuple[Place, ...]
    least: int
    most: int


Box = tuple[Side, ...]


def around(generic: Module, shapes: Sequence[Shape], may_vary: Collection[Place], said: Mapping[Place, Size]) -> Box:
    """From about half to about twice the sizes that are in `shapes`, of the module's sizes at `may_vary`. Ends are an
    odd number away, where ranges allow that: a program that rounds sizes to even ones is another one there."""
    places: dict[DimExpr, list[Place]] = {}
    for number, param in enumerate(generic.entry.params):
        for axis, dim in enumerate(param.shape.dims):
            if isinstance(dim, DimExpr) and (number, axis) in may_vary:
                places.setdefault(dim, []).append((number, axis))
    return tuple(
        _side(size, tuple(of), shapes[of[0][0]].sample_dims[of[0][1]], [said.get(place, ANY) for place in of])
        for size, of in places.items()
    )


def _side(size: DimExpr, places: tuple[Place, ...], own: int, said: Sequence[Size]) -> Side:
    def first(near: range) -> int:
        fits = [n for n in near if size.admits(n) and all(n in one and one.case(n) == one.case(own) for one in said)]
        return next((n for n in fits if (n - own) % 2), fits[0] if fits else own)

    about, beyond = max(own // 2, LEAST_GENERIC), 2 * own + _MORE
    return Side(places, first(range(about, min(own, about + _NEAR))), first(range(beyond, beyond + _NEAR)))


def corners(box: Box) -> Iterator[dict[Place, int]]:
    """The sizes of the dimensions there."""
    for ends in itertools.product(*((side.least, side.most) for side in box)):
        yield {place: end for side, end in zip(box, ends) for place in side.places}


def has(box: Box, shapes: Sequence[Shape]) -> bool:
    """Are these sizes in it?"""
    return all(side.least <= shapes[n].sample_dims[axis] <= side.most for side in box for n, axis in side.places)


def guards(box: Box) -> tuple[Guard, ...]:
    """That say so."""
    return tuple(guard.in_range(side.places[0], side.least, side.most) for side in box)


def rounding(module: Module) -> Instr | None:
    """An instruction whose padding may follow the rest that a size leaves: a window that goes along it in steps."""
    comps = module.computations()
    return next((i for comp in comps for i in comp.instrs if "window" in i.attrs and _is_rounding(i)), None)


def _is_rounding(instr: Instr) -> bool:
    dims, shapes = instr.attrs.get("dim_labels"), [operand.shape for operand in instr.operands]
    whole = range(len(instr.attrs["window"]))
    pairs = [(shapes[0], whole)] if dims is None else [(shapes[0], dims.lhs_spatial), (shapes[1], dims.rhs_spatial)]
    return any(
        max(window.stride, window.base_dilation, window.window_dilation) > 1
        and any(isinstance(shape.dims[axes[k]], DimExpr) for shape, axes in pairs)
        for k, window in enumerate(instr.attrs["window"])
    )
