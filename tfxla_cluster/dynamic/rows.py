"""A module as rows: instructions in an order that follows from what the root needs, so that two modules that TensorFlow
lowered at different sizes can be read side by side, whatever order the bridge wrote them in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dim import capacity, make
from ..ir.literal import Literal
from ..ir.node import CALLED_ATTRS, Computation, Instr, Module, WindowDim
from ..ir.rewrite import keeps
from ..ir.shape import Shape
from ..ir.size_values import SIZED


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction; its operands and control predecessors as rows of its body, what it calls as bodies."""

    instr: Instr
    operands: tuple[int, ...]
    control: tuple[int, ...]
    called: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """A computation; `root` is a row."""

    comp: Computation
    rows: tuple[Row, ...]
    root: int


@dataclass(frozen=True, slots=True)
class Rows:
    """A module: the entry first, then what its rows call in the order in which they do."""

    module: Module
    bodies: tuple[Body, ...]


def of_module(module: Module) -> Rows:
    """The rows of a module."""
    numbers: dict[Computation, int] = {module.entry: 0}
    waiting, bodies = [module.entry], []
    for comp in waiting:  # grows while it is walked
        body = _body(comp, numbers, waiting)
        bodies.append(body)
    return Rows(module, tuple(bodies))


def _body(comp: Computation, numbers: dict[Computation, int], waiting: list[Computation]) -> Body:
    place: dict[Instr, int] = {}
    rows = []
    for instr in _ordered(comp):
        for callee in instr.called:
            if callee not in numbers:
                numbers[callee] = len(numbers)
                waiting.append(callee)
        rows.append(
            Row(
                instr,
                tuple([place[o] for o in instr.operands]),
                tuple([place[c] for c in instr.control]),
                tuple([numbers[c] for c in instr.called]),
            )
        )
        place[instr] = len(place)
    return Body(comp, tuple(rows), place[comp.root])


def _ordered(comp: Computation) -> Iterator[Instr]:
    """Operands first: what the root needs, from left to right, then parameters and what has an effect as the
    computation has it. The rest is dead: the bridge leaves some constants, not the same ones in each module."""
    seen: set[Instr] = set()
    kept = [i for i in comp.instrs if i.opcode == "parameter" or keeps(i)]
    for start in (comp.root, *kept):
        stack = [start]
        while stack:
            instr = stack[-1]
            if instr in seen:
                stack.pop()
                continue
            wanted = [i for i in (*instr.operands, *instr.control) if i not in seen]
            if wanted:
                stack.extend(reversed(wanted))
                continue
            seen.add(stack.pop())
            yield instr


def structure(rows: Rows) -> str:
    """A digest of all but the numbers that may follow a size: modules that can be one have the same."""
    digest = hashlib.sha256(repr(rows.module.aliases).encode())
    for body in rows.bodies:
        digest.update(repr((body.root, [_form(row) for row in body.rows])).encode())
    return digest.hexdigest()


def content(rows: Rows) -> str:
    """A digest of all but names and metadata: modules that compute the same in the same way have the same."""
    digest = hashlib.sha256(structure(rows).encode())
    for instr in (row.instr for body in rows.bodies for row in body.rows):
        digest.update(f"{instr.shape} {instr.attrs.get(SIZED.get(instr.opcode, ''))}".encode())
        for part in _parts(instr.attrs.get("literal", ())):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _parts(literal: Literal) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(literal, tuple):
        for element in literal:
            yield from _parts(element)
    else:
        yield literal


def structural_attributes(instr: Instr) -> Mapping[str, Any]:
    """The attributes that modules have to share to be one: those that are fixed, of a window all but its sizes, of
    other sizes how many there are: transforms over one dimension and over two have arrays of the same rank."""
    fixed, sized = fixed_attributes(instr), SIZED.get(instr.opcode)
    if sized is None:
        return fixed
    return {**fixed, sized: _window_form(instr) if sized == "window" else len(instr.attrs[sized])}


def _window_form(instr: Instr) -> tuple[tuple[Any, ...], ...]:
    """The window without its numbers that may follow a size: how many taps it has, and of one over a whole dimension
    padding as long as that or one less, as cumulative ops have. Other padding, of strided windows, takes turns, 0 and 1
    for even and odd sizes: each has modules of its own."""
    window, dims = instr.attrs["window"], instr.operands[0].shape.dims
    own = (
        [w.size != capacity(dim) for w, dim in zip(window, dims)]
        if instr.opcode != "convolution"
        else [True] * len(window)
    )
    return tuple(_dim_form(w, is_own) for w, is_own in zip(window, own))


def _dim_form(w: WindowDim, is_own: bool) -> tuple[Any, ...]:
    marks = {} if is_own else {w.size: "whole", make("add", w.size, -1): "others"}
    pads = tuple(marks.get(pad, pad) for pad in (w.pad_low, w.pad_high))
    return w.stride, *pads, w.base_dilation, w.window_dilation, w.reversal


def fixed_attributes(instr: Instr) -> Mapping[str, Any]:
    """The attributes that are no size, no literal and no computation."""
    sized = SIZED.get(instr.opcode)
    return {
        name: value
        for name, value in instr.attrs.items()
        if name != sized and name != "literal" and name not in CALLED_ATTRS
    }


def _form(row: Row) -> tuple[Any, ...]:
    instr = row.instr
    fixed = sorted(structural_attributes(instr).items())
    return instr.opcode, shape_form(instr.shape), row.operands, row.control, row.called, fixed


def shape_form(shape: Shape) -> tuple[Any, ...]:
    """What a shape is but for its dimensions' sizes."""
    dtype = shape.dtype.name if shape.dtype is not None else ""
    return shape.kind, dtype, len(shape.dims), shape.layout, tuple(map(shape_form, shape.elements))
