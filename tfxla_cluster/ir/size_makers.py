"""Which instructions make the sizes that others have to know: what reads no array of such a size may still be of it."""

from __future__ import annotations

from collections.abc import Callable

from .dim import Dim, has_produced, is_bounded_only, leaves
from .node import Computation, Instr
from .shape import Shape

SizeMakers = Callable[[Instr], frozenset[Instr]]
"""The set-dimension-size instructions that make the produced sizes in an instruction's result and in what it calls."""


def size_makers(comp: Computation) -> SizeMakers | None:
    """Those of `comp`, for its instructions and for what replaces them; None where it makes no size."""
    makers: dict[str, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode == "set-dimension-size":
            for name in _produced(instr.shape.dims[int(instr.attrs["dimensions"][0])]):
                makers.setdefault(name, instr)
    if not makers:
        return None
    return lambda instr: frozenset(makers[name] for name in _sizes_in(instr) if name in makers) - {instr}


def _sizes_in(instr: Instr) -> frozenset[str]:
    return _of_shape(instr.shape).union(*(_sizes_in(inner) for comp in instr.called for inner in comp.instrs))


def _of_shape(shape: Shape) -> frozenset[str]:
    return frozenset().union(*map(_of_shape, shape.elements), *map(_produced, shape.dims))


def _produced(dim: Dim) -> frozenset[str]:
    """Not a size known by its bound alone: before the pass size-namer, many makers share that name."""
    if not has_produced(dim):
        return frozenset()
    return frozenset(size.name for size in leaves(dim) if not is_bounded_only(size))
