"""What windows of reduce-window are: cumulative ops are windows over all earlier, or all later, elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dim import Dim, make
from .node import WindowDim
from .polynomial import same


def is_trivial(dim: WindowDim) -> bool:
    """The window leaves this dimension alone."""
    return (dim.size, dim.stride, dim.pad_low, dim.pad_high, dim.base_dilation) == (1, 1, 0, 0, 1)


@dataclass(frozen=True, slots=True)
class Scan:
    """Along `axis` each result combines the elements before it; `from_end`: those behind it. inclusive: its own too;
    otherwise there is one result more than elements, which combines all."""

    axis: int
    from_end: bool
    inclusive: bool


def scan_of(window: Sequence[WindowDim], dims: Sequence[Dim]) -> Scan | None:
    """The cumulative op that a window over an array of `dims` is, None for another."""
    axes = [axis for axis, dim in enumerate(window) if not is_trivial(dim)]
    if len(axes) != 1:
        return None
    (axis,) = axes
    dim = window[axis]
    if (dim.stride, dim.base_dilation, dim.window_dilation) != (1, 1, 1) or not same(dim.size, dims[axis]):
        return None
    for inclusive, pad in ((True, make("add", dim.size, -1)), (False, dim.size)):
        for from_end, ends in ((False, (pad, 0)), (True, (0, pad))):
            if same(dim.pad_low, ends[0]) and same(dim.pad_high, ends[1]):
                return Scan(axis, from_end, inclusive)
    return None
