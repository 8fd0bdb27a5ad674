"""The spatial dims of a convolution, cut by output phase: points that meet the same taps of the window."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.node import WindowDim
from .window import has_tests


@dataclass(frozen=True, slots=True)
class Spatial:
    """One spatial dim of one phase: input index = o * stride + w * dilation + offset, for o < `extent`
    and w < `taps`; window index = w * tap_step + tap_start; output index = o * out_step + out_start.
    `checked`: the input index may lie outside [0, size)."""

    extent: Dim
    taps: Dim
    stride: int
    dilation: int
    offset: Dim
    tap_step: int
    tap_start: Dim
    out_step: int
    out_start: int
    size: Dim
    checked: bool


def phases_of(w: WindowDim, size: Dim, extent: Dim) -> list[Spatial]:
    """The phases of one spatial dim: output points o = phase + period * q share their taps. UnsupportedError where it
    follows from a size which taps these are."""
    if w.base_dilation > 1 and not isinstance(w.pad_low, int):
        raise UnsupportedError(f"a convolution over a dilated image has padding of a size, {w.pad_low}, in front")
    period = w.base_dilation // gcd(w.stride, w.base_dilation)
    step = w.base_dilation // gcd(w.window_dilation, w.base_dilation)
    found = []
    for phase in range(period):
        if isinstance(extent, int) and phase >= max(extent, 1):
            break
        start = dims_.make("add", dims_.make("mul", w.pad_low, -1), phase * w.stride)
        first = _first_tap(w, start, step)
        taps = 0 if first is None else dims_.make("max", dims_.ceil_div(dims_.make("add", w.size, -first), step), 0)
        first = first or 0
        rest = dims_.make("add", extent, period - 1 - phase)
        found.append(
            Spatial(
                extent=dims_.make("floordiv", rest, period),
                taps=taps,
                stride=period * w.stride // w.base_dilation,
                dilation=step * w.window_dilation // w.base_dilation,
                offset=dims_.make("floordiv", dims_.make("add", start, first * w.window_dilation), w.base_dilation),
                tap_step=-step if w.reversal else step,
                tap_start=dims_.make("add", w.size, -1 - first) if w.reversal else first,
                out_step=period,
                out_start=phase,
                size=size,
                checked=has_tests(w),
            )
        )
    return found


def _first_tap(w: WindowDim, start: Dim, step: int) -> int | None:
    """The first tap that meets an element where tap 0 stands at `start` of the dilated image; None where none does."""
    if w.base_dilation == 1:
        return 0
    assert isinstance(start, int)
    return next((t for t in range(step) if (start + t * w.window_dilation) % w.base_dilation == 0), None)
