"""select-and-scatter on a GPU: which element each window chooses, then what each element is chosen for.

An element combines the windows that hold it in their order, so that results do not depend on which program is first.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....errors import UnsupportedError
from .....ir import dim as dims_
from .....ir.dim import Dim
from .....ir.dtype import S32, S64, DType
from .....ir.node import Instr, WindowDim
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks
from ..inline import inline
from ..select_and_scatter import choose
from ..space import all_of, delinearize, linearize
from ..window import for_each_position, position_count
from .shapes import lanes

BLOCK = 512  # windows, or elements, of a program


def lower(instr: Instr, target: Target) -> Unit:
    """operand (read for the choice), source (a value a window), init; result like operand."""
    if any(dim.base_dilation != 1 for dim in instr.attrs["window"]):
        raise UnsupportedError(f"select-and-scatter with base dilation has no GPU kernel ({instr.name})")
    count = dims_.product(instr.shape.dims)
    place = S32 if isinstance(count, int) and count < 2**31 else S64
    windows = dims_.product(instr.operands[1].shape.dims)
    return Unit((_choices(instr, place), _combine(instr, place)), (dims_.make("mul", windows, place.itemsize),))


def _choices(instr: Instr, place: DType) -> UnitKernel:
    """For each window the number of the element that it chooses."""
    b = KernelBuilder("select_and_scatter.choose", constant=True)
    operand, chosen = b.input(instr.operands[0].shape.element_type), b.output(place)
    small = instr.operands[1].shape.dims
    blocks = _blocks(small)
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as window:
        found = choose(b, instr, operand, delinearize(b, window, small))
        b.store(chosen, window, found if place == S64 else b.op("convert", found, dtype=place))
    kernel = b.finish(blocks.count, position_count(instr.attrs["window"]) * (2 * blocks.size))
    return UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("temp", 0),))


def _combine(instr: Instr, place: DType) -> UnitKernel:
    """Each element of the result, from the windows that may hold it."""
    b = KernelBuilder("select_and_scatter", constant=True)
    chosen, source, start = b.input(place), b.input(instr.shape.element_type), b.input(instr.shape.element_type)
    result = b.output(instr.shape.element_type)
    around = [WindowDim(dims_.ceil_div(_reach(dim), dim.stride)) for dim in instr.attrs["window"]]
    full, blocks = instr.shape.dims, _blocks(instr.shape.dims)
    init = b.load(start, b.index(0))
    with b.tile(*blocks.bounds(b, b.task), blocks.size) as element:
        index = delinearize(b, element, full)

        def visit(steps: list[Var], total: Var) -> Sequence[Var]:
            return (_visit(b, instr, (chosen, source), (element, index), steps, total),)

        b.store(result, element, for_each_position(b, around, [init], visit)[0])
    kernel = b.finish(blocks.count, position_count(around) * (4 * blocks.size))
    return UnitKernel(
        kernel, (UnitRef("temp", 0), UnitRef("operand", 1), UnitRef("operand", 2)), (UnitRef("result", 0),)
    )


def _visit(
    b: KernelBuilder,
    instr: Instr,
    buffers: tuple[Buffer, Buffer],
    element: tuple[Var, list[Var]],
    steps: Sequence[Var],
    total: Var,
) -> Var:
    """The element's value after the window `steps` on from the first that may hold it."""
    (chosen, source), (number, index) = buffers, element
    small = instr.operands[1].shape.dims
    window = [b.add(_first(b, dim, at), step) for dim, at, step in zip(instr.attrs["window"], index, steps)]
    exists = all_of(b, [b.compare(w, b.size(d), "LT") for w, d in zip(window, small)])
    at = linearize(b, window, small)
    found = b.load(chosen, at, exists, None if exists is None else b.const(-1, chosen.dtype))
    here = b.compare(found, number if chosen.dtype == S64 else b.op("convert", number, dtype=chosen.dtype), "EQ")
    value = inline(b, instr.attrs["scatter"], [total, b.load(source, at, here)])[0]
    return b.op("select", here, value, total, dtype=value.dtype)


def _reach(dim: WindowDim) -> Dim:
    """Elements from a window's first to its last."""
    return (dim.size - 1) * dim.window_dilation + 1


def _first(b: KernelBuilder, dim: WindowDim, at: Var) -> Var:
    """The first window whose last element is not before `at`."""
    # Ceiling of (at + pad - reach + 1) / stride, at least 0.
    shift = dim.pad_low - _reach(dim) + dim.stride
    low = b.op("maximum", b.add(at, b.number(shift)), b.index(0))
    return b.quotient(low, b.index(dim.stride)) if dim.stride != 1 else low


def _blocks(dims: Sequence[Dim]) -> Blocks:
    count = dims_.product(dims)
    return Blocks(count, lanes(count, BLOCK))
