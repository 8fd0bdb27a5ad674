"""How the operands of a product lie in memory, for a library that takes them as matrices.

A dot is a product by its dimension numbers. A convolution is one where each spatial dim either has one tap, so that
output points are rows, or is covered whole by the window in one place, so that its points are added up: 1x1 windows and
both their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....errors import UnsupportedError
from .....ir.dim import Dim
from .....ir.node import ConvDims, Instr, WindowDim
from ..contraction_operand import Axis, merged, strides


@dataclass(frozen=True, slots=True)
class Line:
    """`extent` elements that lie `step` apart."""

    extent: int
    step: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand by its batch, free and depth indices."""

    batch: Line
    free: Line
    depth: Line

    def layout(self) -> tuple[int, int, int]:
        """(turned, stride, step), as library_product.Product has them."""
        if self.depth.step == 1:
            return 0, self.free.step if self.free.extent > 1 else self.depth.extent, self.batch.step
        return 1, self.depth.step, self.batch.step


def matrices(hero: Instr) -> tuple[Matrix, Matrix]:
    """Both operands of a dot or convolution; UnsupportedError where one does not lie as a matrix, or has elements of an
    unknown number. The result lies by batch, rows and columns."""
    parts = _of_dot(hero) if hero.opcode == "dot" else _of_convolution(hero)
    left, right = (Matrix(*(_line(hero, axes) for axes in operand)) for operand in parts)
    if any(m.depth.step != 1 and m.free.step != 1 for m in (left, right)):
        raise UnsupportedError(f"an operand of {hero.name} has no contiguous lines")
    return left, right


_Axes = tuple[Sequence[Axis], Sequence[Axis], Sequence[Axis]]  # of batch, free and depth, each outermost first


def _line(hero: Instr, axes: Sequence[Axis]) -> Line:
    """The axes as one."""
    (first, *others) = merged(axes)
    if others or not isinstance(first.extent, int) or not isinstance(first.step, int) or first.extent < 1:
        raise UnsupportedError(f"an operand of {hero.name} does not lie as a matrix of a known size")
    return Line(first.extent, first.step)


def _of_dot(dot: Instr) -> tuple[_Axes, _Axes]:
    batch, depth = (
        [tuple(dot.attrs.get(f"{side}_{kind}_dims", ())) for side in ("lhs", "rhs")]
        for kind in ("batch", "contracting")
    )
    order = sorted(range(len(depth[0])), key=depth[0].__getitem__)
    found = []
    for operand, own_batch, own_depth in zip(dot.operands, batch, depth):
        dims = operand.shape.dims
        free = [d for d in range(len(dims)) if d not in own_batch + own_depth]
        found.append((_axes(dims, own_batch), _axes(dims, free), _axes(dims, [own_depth[i] for i in order])))
    return found[0], found[1]


def _axes(dims: Sequence[Dim], chosen: Sequence[int]) -> list[Axis]:
    steps = strides(dims)
    return [Axis(dims[d], steps[d]) for d in chosen]


def _of_convolution(conv: Instr) -> tuple[_Axes, _Axes]:
    labels: ConvDims = conv.attrs["dim_labels"]
    window: Sequence[WindowDim] = conv.attrs.get("window", ())
    left, right, out = conv.operands[0].shape.dims, conv.operands[1].shape.dims, conv.shape.dims
    points, added = [], []
    for d, w in enumerate(window):
        if w.size == 1 and _is_plain(w) and w.stride == 1:
            points.append(d)
        elif out[labels.out_spatial[d]] == 1 and left[labels.lhs_spatial[d]] == w.size and _is_plain(w):
            added.append(d)
        else:
            raise UnsupportedError(f"{conv.name} is no plain product")
    if any(int(conv.attrs.get(f"{kind}_group_count", 1)) != 1 for kind in ("feature", "batch")):
        raise UnsupportedError(f"{conv.name} has groups")
    by_output = sorted([*points, None], key=lambda d: labels.out_batch if d is None else labels.out_spatial[d])
    by_image = sorted([*added, None], key=lambda d: labels.lhs_feature if d is None else labels.lhs_spatial[d])
    rows = [labels.out_batch if d is None else labels.out_spatial[d] for d in by_output]
    if [d for d in (*rows, labels.out_feature) if out[d] != 1] != [d for d in range(len(out)) if out[d] != 1]:
        raise UnsupportedError(f"the result of {conv.name} does not lie by rows and columns")
    free = [labels.lhs_batch if d is None else labels.lhs_spatial[d] for d in by_output]
    depth = [labels.lhs_feature if d is None else labels.lhs_spatial[d] for d in by_image]
    taps = [labels.rhs_input if d is None else labels.rhs_spatial[d] for d in by_image]
    image = ((), _axes(left, free), _axes(left, depth))
    return image, ((), _axes(right, [labels.rhs_output]), _axes(right, taps))


def _is_plain(w: WindowDim) -> bool:
    """Nothing lies between or beside the points; of several taps the first meets the first."""
    return not (w.pad_low or w.pad_high or (w.reversal and w.size != 1)) and w.base_dilation == w.window_dilation == 1
