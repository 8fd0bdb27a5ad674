"""Sizes inside what instructions hold: shapes, and attributes that are numbers, tuples of them, or windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from . import dim as dims_
from .dim import Dim, DimExpr
from .node import Computation, Instr, Module, WindowDim, callees_first
from .rewrite import relinked
from .shape import Shape

# opcode -> its attribute that may hold sizes.
SIZED = {
    "slice": "slice",
    "pad": "padding",
    "dynamic-slice": "dynamic_slice_sizes",
    "gather": "slice_sizes",
    "fft": "fft_length",
    "reduce-window": "window",
    "select-and-scatter": "window",
    "convolution": "window",
}


def replaced(value: Any, size: Callable[[DimExpr], Dim]) -> Any:
    """A Shape, a Dim, a WindowDim or (nested) tuples of these with `size` of every expression; itself where none is
    in it."""
    if isinstance(value, DimExpr):
        return size(value)
    if isinstance(value, Shape):
        if value.is_static:
            return value
        dims, elements = replaced(value.dims, size), replaced(value.elements, size)
        same = dims is value.dims and elements is value.elements
        return value if same else replace(value, dims=dims, elements=elements)
    if isinstance(value, WindowDim):
        old = window_sizes(value)
        found = replaced(old, size)
        return value if found is old else with_window_sizes(value, found)
    if type(value) is not tuple:
        return value
    new = tuple(replaced(part, size) for part in value)
    return value if all(a is b for a, b in zip(new, value)) else new


def window_sizes(window: WindowDim) -> tuple[Dim, Dim, Dim]:
    """What of a window may be a size."""
    return window.size, window.pad_low, window.pad_high


def with_window_sizes(window: WindowDim, sizes: tuple[Dim, Dim, Dim]) -> WindowDim:
    """A window with other numbers in the places of `window_sizes`."""
    size, low, high = sizes
    return replace(window, size=size, pad_low=low, pad_high=high)


def expressions(value: Any) -> Iterator[DimExpr]:
    """The expressions in a Shape, a Dim, a WindowDim or (nested) tuples of these."""
    if isinstance(value, DimExpr):
        yield value
    elif isinstance(value, Shape):
        yield from expressions(value.dims)
        yield from expressions(value.elements)
    elif isinstance(value, WindowDim):
        yield from expressions(window_sizes(value))
    elif type(value) is tuple:
        for part in value:
            yield from expressions(part)


def sampled(value: Any) -> Any:
    """`value` with every expression at its sample."""
    return replaced(value, dims_.sample)


def sizes_of(instr: Instr) -> Iterator[DimExpr]:
    """The named sizes in an instruction's shape and attributes, as often as they come, those in a bound before what
    it is the bound of."""
    for expression in expressions((instr.shape, instr.attrs.get(SIZED.get(instr.opcode, "")))):
        for size in dims_.leaves(expression):
            if dims_.is_produced(size):
                yield from dims_.leaves(size.bound)
            if not dims_.is_bounded_only(size):
                yield size


def has_sizes(instr: Instr) -> bool:
    """Has it an expression in its shape or attributes? (Asked of every instruction of every module.)"""
    shape = instr.shape
    if shape.elements or instr.opcode in SIZED:
        return any(expressions((shape, instr.attrs.get(SIZED.get(instr.opcode, "")))))
    for dim in shape.dims:  # noqa: SIM110  (a generator would take as long as the rest of the printer)
        if type(dim) is not int:
            return True
    return False


def named_sizes(module: Module) -> dict[str, DimExpr]:
    """The named sizes of a module in the order in which they come."""
    found: dict[str, DimExpr] = {}
    for comp in module.computations():
        for instr in filter(has_sizes, comp.instrs):
            for size in sizes_of(instr):
                found.setdefault(size.name, size)
    return found


def instantiate(module: Module, env: Mapping[str, int]) -> Module:
    """The module with the sizes of inputs that `env` names at those numbers; sizes that instructions produce stay.

    UsageError where a number is out of its size's range.
    """
    return _Instance(lambda dim: dims_.instantiate(dim, env)).module(module)


def with_sizes(instr: Instr, size: Callable[[DimExpr], Dim]) -> Instr:
    """An instruction with other sizes of inputs in it, in what it calls, and in the shapes of its operands, which are
    new nodes that have nothing else of theirs; constants stay."""
    instance = _Instance(lambda dim: dims_.substituted(dim, size))
    for comp in callees_first(instr.called):
        instance.called[comp] = instance.computation(comp)
    operands = {o: o if o.opcode == "constant" else instance.alone(o) for o in instr.operands}
    return instance.instruction(instr.replace(control=()), operands)


class _Instance:
    def __init__(self, number: Callable[[DimExpr], Dim]) -> None:
        self._number = number
        self.called: dict[Computation, Computation] = {}

    def module(self, module: Module) -> Module:
        for comp in module.computations():
            self.called[comp] = self.computation(comp)
        return module.replace(entry=self.called[module.entry])

    def computation(self, comp: Computation) -> Computation:
        done: dict[Instr, Instr] = {}
        for instr in comp.instrs:
            done[instr] = self.instruction(instr, done)
        if all(old is new for old, new in done.items()):
            return comp
        return Computation(comp.name, tuple(done.values()), done[comp.root])

    def alone(self, instr: Instr) -> Instr:
        """Its result, wherever that comes from."""
        attrs = {} if instr.called else instr.attrs
        return instr.replace(shape=replaced(instr.shape, self._number), operands=(), control=(), attrs=attrs)

    def instruction(self, instr: Instr, done: Mapping[Instr, Instr]) -> Instr:
        operands, control = (tuple(done[i] for i in listed) for listed in (instr.operands, instr.control))
        shape = replaced(instr.shape, self._number)
        linked = relinked(instr, self.called) if instr.called else instr.attrs
        sized = SIZED.get(instr.opcode)
        attrs = {n: replaced(value, self._number) if n == sized else value for n, value in linked.items()}
        same = shape is instr.shape and operands == instr.operands and control == instr.control
        if same and all(value is instr.attrs[name] for name, value in attrs.items()):
            return instr
        return instr.replace(operands=operands, control=control, shape=shape, attrs=attrs)
