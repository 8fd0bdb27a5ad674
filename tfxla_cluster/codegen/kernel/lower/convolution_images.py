"""The operands of a convolution as arrays in memory: which digits of the free and depth indices move along each dim.

For targets that read blocks of arrays. The depth is taken apart by taps: a digit for each spatial dim, then the
features. Free digits of the left operand are those of the rows, the one of the right operand is the column.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import dim as dims_
from ....ir.node import ConvDims
from ..contraction import Image, ImageAxis
from .contraction_operand import Operand, strides
from .spatial import Spatial


def image(o: Operand, labels: ConvDims, spatial: Sequence[Spatial], row_order: Sequence[int | None]) -> Image | None:
    """The left operand; None where it is computed. `row_order`: spatial dims, and None for the batch."""
    step = strides(o.dims)
    batch, features = labels.lhs_batch, labels.lhs_feature
    axes = {
        batch: ImageAxis(o.dims[batch], step[batch], free=row_order.index(None)),
        features: ImageAxis(o.dims[features], step[features], depth=len(spatial)),
    }
    for d, (s, axis) in enumerate(zip(spatial, labels.lhs_spatial)):
        every = s.stride if s.taps == 1 and s.offset % s.stride == 0 else 1  # the others of its points are left out
        axes[axis] = ImageAxis(
            dims_.ceil_div(o.dims[axis], every),
            dims_.make("mul", step[axis], every),
            free=row_order.index(d),
            depth=d,
            free_scale=s.stride // every,
            depth_scale=s.dilation,
            start=s.offset // every,
        )
    return _image(o, axes)


def window(o: Operand, labels: ConvDims, spatial: Sequence[Spatial]) -> Image | None:
    """The right operand; None where it is computed."""
    step = strides(o.dims)
    output, features = labels.rhs_output, labels.rhs_input
    axes = {
        output: ImageAxis(o.dims[output], step[output], free=0),
        features: ImageAxis(o.dims[features], step[features], depth=len(spatial)),
    }
    for d, (s, axis) in enumerate(zip(spatial, labels.rhs_spatial)):
        axes[axis] = ImageAxis(o.dims[axis], step[axis], depth=d, depth_scale=s.tap_step, start=s.tap_start)
    return _image(o, axes)


def _image(o: Operand, axes: dict[int, ImageAxis]) -> Image | None:
    return None if o.element is not None else Image(o.number, o.dtype, tuple(axes[axis] for axis in sorted(axes)))
