"""A module at smaller sizes: one extent, wherever it stands, made another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TfxlaError
from ..ir import verifier
from ..ir.literal import Literal, freeze
from ..ir.node import Computation, Instr, Module, WindowDim
from ..ir.rewrite import relinked
from ..ir.shape import Shape
from .surgery import Program

# Attributes that hold extents.
_EXTENTS = ("dynamic_slice_sizes", "slice_sizes", "fft_length")
_TRIED = (1, 2, 3, 5, 9)


def smaller(program: Program) -> Iterator[Program]:
    """Programs in which one extent is smaller, the largest first; those that are valid modules. None where a size is
    symbolic."""
    dims = _extents(program.module)
    for extent in sorted(dims or (), reverse=True):
        for target in sorted({*(t for t in _TRIED if t < extent), extent // 2} - {0}):
            for mapping in _mappings(extent, target, dims or frozenset()):
                made = resized(program, mapping)
                if made is not None:
                    yield made


def _mappings(extent: int, target: int, dims: frozenset[int]) -> Iterator[dict[int, int]]:
    """The extent alone; and with its multiples, which reshapes make of it."""
    yield {extent: target}
    multiples = {d: d // extent * target for d in dims if d > extent and d % extent == 0}
    if multiples:
        yield {extent: target, **multiples}


def _extents(module: Module) -> frozenset[int] | None:
    found: set[int] = set()
    for comp in module.computations():
        for instr in comp.instrs:
            for shape in _arrays(instr.shape):
                if not shape.is_static:
                    return None
                found.update(d for d in shape.dims if isinstance(d, int) and d > 1)
    return frozenset(found)


def _arrays(shape: Shape) -> Iterator[Shape]:
    if shape.is_tuple:
        for element in shape.elements:
            yield from _arrays(element)
    else:
        yield shape


def resized(program: Program, mapping: Mapping[int, int]) -> Program | None:
    """The program with each extent mapped; None where that is no valid module."""
    try:
        module = _Resizer(mapping).module(program.module)
        verifier.verify(module)
    except (TfxlaError, ValueError, TypeError):
        return None
    inputs = tuple(_fitted(a, p.shape.sample_dims) for a, p in zip(program.inputs, module.entry.params))
    return Program(module, inputs)


class _Resizer:
    def __init__(self, mapping: Mapping[int, int]) -> None:
        self.mapping = mapping
        self.comps: dict[Computation, Computation] = {}

    def module(self, module: Module) -> Module:
        for comp in module.computations():
            new: dict[Instr, Instr] = {}
            for instr in comp.instrs:
                new[instr] = self._instr(instr, new)
            self.comps[comp] = Computation(comp.name, tuple(new.values()), new[comp.root])
        return module.replace(entry=self.comps[module.entry])

    def _instr(self, instr: Instr, new: Mapping[Instr, Instr]) -> Instr:
        shape = self._shape(instr.shape)
        operands = tuple(new[o] for o in instr.operands)
        attrs: dict[str, Any] = relinked(instr, self.comps) if instr.called else dict(instr.attrs)
        for name in _EXTENTS:
            if name in attrs:
                attrs[name] = tuple(map(self._number, attrs[name]))
        if instr.opcode == "constant":
            attrs["literal"] = _literal(attrs["literal"], shape)
        if instr.opcode == "slice":
            attrs["slice"] = self._slices(instr, operands[0].shape)
        if instr.opcode in ("reduce-window", "select-and-scatter", "convolution") and attrs.get("window"):
            attrs["window"] = tuple(self._window(w) for w in attrs["window"])
        control = tuple(new[c] for c in instr.control)
        return instr.replace(shape=shape, operands=operands, attrs=attrs, control=control)

    def _number(self, value: Any) -> Any:
        return self.mapping.get(value, value) if isinstance(value, int) else value

    def _shape(self, shape: Shape) -> Shape:
        if shape.is_tuple:
            return replace(shape, elements=tuple(map(self._shape, shape.elements)))
        return replace(shape, dims=tuple(map(self._number, shape.dims)))

    def _slices(self, instr: Instr, operand: Shape) -> tuple[Any, ...]:
        """A whole dimension stays whole; else what still lies inside."""
        found = []
        for (start, limit, stride), old, new in zip(instr.attrs["slice"], instr.operands[0].shape.dims, operand.dims):
            end = new if limit == old else min(self._number(limit), new)
            found.append((min(start, end), end, stride))
        return tuple(found)

    def _window(self, window: WindowDim) -> WindowDim:
        return replace(window, size=self._number(window.size))


def _literal(value: Literal, shape: Shape) -> Literal:
    if isinstance(value, tuple):
        return tuple(_literal(v, s) for v, s in zip(value, shape.elements))
    return _fitted(value, shape.sample_dims)


def _fitted(value: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Its first elements along each dimension, repeated where there are too few."""
    if value.shape == dims:
        return value
    cut = value[tuple(slice(0, d) for d in dims)]
    pads = [(0, d - s) for d, s in zip(dims, cut.shape)]
    return freeze(np.pad(cut, pads, mode="wrap") if cut.size else np.zeros(dims, value.dtype))
