"""The spatial dims of a convolution, cut by output phase: points that meet the same taps of the window."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.node import WindowDim


@dataclass(frozen=True, slots=True)
class Spatial:
    """One spatial dim of one phase: input index = o * stride + w * dilation + offset, for o < `extent`
    and w < `taps`; window index = w * tap_step + tap_start; output index = o * out_step + out_start.
    `checked`: the input index may lie outside [0, size)."""

    extent: Dim
    taps: int
    stride: int
    dilation: int
    offset: int
    tap_step: int
    tap_start: int
    out_step: int
    out_start: int
    size: Dim
    checked: bool


def phases_of(w: WindowDim, size: Dim, extent: Dim) -> list[Spatial]:
    """The phases of one spatial dim: output points o = phase + period * q share their taps."""
    period = w.base_dilation // gcd(w.stride, w.base_dilation)
    step = w.base_dilation // gcd(w.window_dilation, w.base_dilation)
    found = []
    for phase in range(period):
        if isinstance(extent, int) and phase >= max(extent, 1):
            break
        start = phase * w.stride - w.pad_low
        first = next((t for t in range(step) if (start + t * w.window_dilation) % w.base_dilation == 0), None)
        taps = 0 if first is None else max(0, -(-(w.size - first) // step))
        first = first or 0
        rest = dims_.make("add", extent, period - 1 - phase)
        found.append(
            Spatial(
                extent=dims_.make("floordiv", rest, period),
                taps=taps,
                stride=period * w.stride // w.base_dilation,
                dilation=step * w.window_dilation // w.base_dilation,
                offset=(start + first * w.window_dilation) // w.base_dilation,
                tap_step=-step if w.reversal else step,
                tap_start=w.size - 1 - first if w.reversal else first,
                out_step=period,
                out_start=phase,
                size=size,
                checked=w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1,
            )
        )
    return found
