"""`convolution`: any dimension labels, strides, padding, dilation, reversal and groups, without im2col.

A convolution is a contraction: rows are the output's batch and spatial indices, columns its features,
the depth is the window and the input's features. Blocks of rows of the padded image are copied to
scratch as they are needed. A dilated base (the gradient of a strided convolution) is cut by output
phase: output points that are congruent modulo the dilation meet the same taps, and only those are read.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import DType
from ....ir.node import ConvDims, Instr, WindowDim
from ....target import Target
from ..contraction import Contraction, Index, Plain, Side
from ..contraction_ports import Ports
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .contraction_channels import build_channels, fits
from .contraction_walk import maximum
from .dot import convert, lower_contraction, number, strides, sum_dtype, weighted


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


@dataclass(frozen=True, slots=True)
class Axis:
    """A dim of a side's free or depth index: `step` elements of the operand a unit. `spatial`: the
    spatial dim whose input index it moves and which is checked; `run`: units to one step of that index."""

    extent: Dim
    step: Dim
    spatial: int | None = None
    run: Dim = 1


def lower_convolution(instr: Instr, target: Target) -> Unit:
    """Kernels of a `convolution` whose operands and result are buffers: some for each phase."""
    units = [_lower_phase(c, target) for c in describe(instr)]
    return join(units)


def _lower_phase(c: Contraction, target: Target) -> Unit:
    return build_channels(c) if fits(c) else lower_contraction(c, target)


def join(units: Sequence[Unit]) -> Unit:
    """One after the other; each keeps its temporaries."""
    steps: list[UnitKernel] = []
    temps: list[Dim] = []
    for unit in units:
        def moved(refs: tuple[UnitRef, ...], first: int = len(temps)) -> tuple[UnitRef, ...]:
            return tuple(replace(r, index=r.index + first) if r.kind == "temp" else r for r in refs)

        for step in unit.steps:
            assert isinstance(step, UnitKernel)
            steps.append(replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs)))
        temps.extend(unit.temps)
    return Unit(tuple(steps), tuple(temps))


def describe(instr: Instr) -> list[Contraction]:
    """One contraction a phase of the output."""
    labels: ConvDims = instr.attrs["dim_labels"]
    window: Sequence[WindowDim] = instr.attrs.get("window", ())
    lhs, _ = (o.shape.dims for o in instr.operands)
    phases = [
        _phases(w, lhs[axis], instr.shape.dims[out])
        for w, axis, out in zip(window, labels.lhs_spatial, labels.out_spatial)]
    return [_Conv(instr, chosen).contraction() for chosen in itertools.product(*phases)]


def _phases(w: WindowDim, size: Dim, extent: Dim) -> list[Spatial]:
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
        found.append(Spatial(
            extent=dims_.make("floordiv", rest, period), taps=taps,
            stride=period * w.stride // w.base_dilation, dilation=step * w.window_dilation // w.base_dilation,
            offset=(start + first * w.window_dilation) // w.base_dilation,
            tap_step=-step if w.reversal else step, tap_start=w.size - 1 - first if w.reversal else first,
            out_step=period, out_start=phase, size=size,
            checked=w.pad_low > 0 or w.pad_high > 0 or w.base_dilation > 1))
    return found


class _Conv:
    """One phase of a convolution as a contraction."""

    def __init__(self, instr: Instr, spatial: Sequence[Spatial]) -> None:
        self.instr, self.spatial = instr, spatial
        self.labels: ConvDims = instr.attrs["dim_labels"]
        lhs, rhs, out = (s.dims for s in (*(o.shape for o in instr.operands), instr.shape))
        self.lhs_strides, self.rhs_strides, self.out_strides = strides(lhs), strides(rhs), strides(out)
        self.feature_groups = int(instr.attrs.get("feature_group_count", 1))
        self.batch_groups = int(instr.attrs.get("batch_group_count", 1))
        self.groups = self.feature_groups * self.batch_groups
        labels = self.labels
        self.cols = dims_.make("floordiv", rhs[labels.rhs_output], self.groups)
        self.batch = out[labels.out_batch]
        self.features = rhs[labels.rhs_input]
        # Rows in the order of the output, depths in the order of the left operand; None is batch or feature.
        self.row_order = _order(labels.out_batch, labels.out_spatial)
        self.depth_order = _order(labels.lhs_feature, labels.lhs_spatial)

    def contraction(self) -> Contraction:
        rows = tuple(self.batch if d is None else self.spatial[d].extent for d in self.row_order)
        depth = tuple(self.features if d is None else self.spatial[d].taps for d in self.depth_order)
        dtype = sum_dtype(self.instr)
        place = self._place if self._dense(dtype) else None
        return Contraction(
            self.instr.name, dtype, (self.groups,), rows, (self.cols,), depth, self._lhs(dtype),
            self._rhs(dtype), self._finish, place)

    # --- result ---
    def _finish(self, p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
        b, labels, out = p.b, self.labels, self.out_strides
        place = b.index(0)
        for index, d in zip(m, self.row_order):
            if d is None:
                place = b.add(place, b.mul(index, b.size(out[labels.out_batch])))
                continue
            s = self.spatial[d]
            at = b.add(b.mul(index, b.index(s.out_step)), b.index(s.out_start))
            place = b.add(place, b.mul(at, b.size(out[labels.out_spatial[d]])))
        channel = b.add(b.mul(g[0], b.size(self.cols)), n[0])
        place = b.add(place, b.mul(channel, b.size(out[labels.out_feature])))
        dtype = self.instr.shape.dtype
        assert dtype is not None
        b.store(p.write("result", 0, dtype), place, convert(b, value, dtype))

    def _dense(self, dtype: DType) -> bool:
        """The result is the matrix of rows and columns as it lies in memory."""
        one_phase = all(s.out_step == 1 for s in self.spatial)
        return (one_phase and self.groups == 1 and dtype == self.instr.shape.dtype
                and self.labels.out_feature == self.instr.shape.rank - 1)

    def _place(self, p: Ports, g: Index) -> tuple[Buffer, Var]:
        dtype = self.instr.shape.dtype
        assert dtype is not None
        return p.write("result", 0, dtype), p.b.index(0)

    # --- left operand ---
    def _lhs(self, dtype: DType) -> Side:
        labels, stride = self.labels, self.lhs_strides
        free: list[Axis] = []
        depth: list[Axis] = []
        for d in self.row_order:
            if d is None:
                free.append(Axis(self.batch, stride[labels.lhs_batch]))
                continue
            s = self.spatial[d]
            step = dims_.make("mul", stride[labels.lhs_spatial[d]], s.stride)
            free.append(Axis(s.extent, step, d if s.checked else None))
        for d in self.depth_order:
            if d is None:
                depth.append(Axis(self.features, stride[labels.lhs_feature]))
                continue
            s = self.spatial[d]
            step = dims_.make("mul", stride[labels.lhs_spatial[d]], s.dilation)
            depth.append(Axis(s.taps, step, d if s.checked else None))
        by_free = free[-1].step == 1 and depth[-1].step != 1
        if self.groups == 1:
            free, depth = _merged(free, by_free), _merged(depth, not by_free)
        return _Image(self, free, depth, "free" if by_free else "depth").side(dtype)

    # --- right operand ---
    def _rhs(self, dtype: DType) -> Side:
        labels, stride = self.labels, self.rhs_strides
        depth: list[Axis] = []
        base: Dim = 0
        for d in self.depth_order:
            if d is None:
                depth.append(Axis(self.features, stride[labels.rhs_input]))
                continue
            s = self.spatial[d]
            step = stride[labels.rhs_spatial[d]]
            depth.append(Axis(s.taps, dims_.make("mul", step, s.tap_step)))
            base = dims_.make("add", base, dims_.make("mul", step, s.tap_start))
        if self.groups == 1:
            depth = _merged(depth, True)
        out = stride[labels.rhs_output]
        major = "depth" if depth[-1].step == 1 and out != 1 else "free"
        source = self.instr.operands[1].shape.dtype
        assert source is not None
        group = dims_.make("mul", self.cols, out)

        def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
            b = p.b
            place = weighted(b, (*g, *f, *k), (group, out, *(a.step for a in depth)))
            return convert(b, b.load(p.read("operand", 1, source), b.add(place, number(b, base))), dtype)

        def plain(p: Ports, g: Index) -> Plain:
            b = p.b
            offset = b.add(weighted(b, g, (group,)), number(b, base))
            return Plain(p.read("operand", 1, source), offset, b.size(depth[0].step))

        linear = len(depth) == 1 and out == 1 and source == dtype
        extents = tuple(a.extent for a in depth)
        return Side((self.cols,), extents, major, value, plain=plain if linear else None)


class _Image:
    """The left operand: an affine address of free and depth axes, and what of it lies inside the image."""

    def __init__(self, conv: _Conv, free: Sequence[Axis], depth: Sequence[Axis], major: str) -> None:
        self.conv, self.free, self.depth, self.major = conv, free, depth, major
        labels, stride = conv.labels, conv.lhs_strides
        self.base: Dim = 0
        for s, axis in zip(conv.spatial, labels.lhs_spatial):
            self.base = dims_.make("add", self.base, dims_.make("mul", stride[axis], s.offset))
        # A group takes its own features, or (batch groups) its own part of the batch.
        if conv.batch_groups > 1:
            self.group = dims_.make("mul", conv.batch, stride[labels.lhs_batch])
        else:
            self.group = dims_.make("mul", conv.features, stride[labels.lhs_feature])

    def side(self, dtype: DType) -> Side:
        source = self.conv.instr.operands[0].shape.dtype
        assert source is not None
        steps = (self.group, *(a.step for a in self.free), *(a.step for a in self.depth))
        checked = any(a.spatial is not None for a in (*self.free, *self.depth))

        def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
            b = p.b
            place = b.add(weighted(b, (*g, *f, *k), steps), number(b, self.base))
            return convert(b, b.load(p.read("operand", 0, source), place), dtype)

        def plain(p: Ports, g: Index) -> Plain:
            b = p.b
            stride = (self.free if self.major == "depth" else self.depth)[0].step
            offset = b.add(weighted(b, g, (self.group,)), number(b, self.base))
            return Plain(p.read("operand", 0, source), offset, b.size(stride))

        inner = (self.depth if self.major == "depth" else self.free)[-1]
        linear = len(self.free) == 1 and len(self.depth) == 1 and inner.step == 1 and not checked
        return Side(
            tuple(a.extent for a in self.free), tuple(a.extent for a in self.depth), self.major, value,
            self._valid if checked else None, plain if linear and source == dtype else None)

    def _valid(self, p: Ports, g: Index, f: Index, k: Index) -> tuple[Var, Var]:
        """The range of the innermost major index that meets the image; empty where another dim misses it."""
        b = p.b
        inner = (self.depth if self.major == "depth" else self.free)[-1]
        low, high = b.index(0), b.size(inner.extent)
        tests = []
        for d, s in enumerate(self.conv.spatial):
            if not s.checked:
                continue
            position = number(b, s.offset)
            for axes, index, coefficient in ((self.free, f, s.stride), (self.depth, k, s.dilation)):
                for axis, at in zip(axes, index):
                    if axis.spatial == d and axis is not inner:
                        position = b.add(position, b.mul(at, b.index(coefficient)))
            if inner.spatial != d:
                tests.append(b.op("and", b.compare(position, b.index(0), "GE"),
                                  b.compare(position, b.size(s.size), "LT")))
                continue
            coefficient = s.dilation if self.major == "depth" else s.stride
            low, high = _range(p, position, s.size, coefficient, inner.run)
        for test in tests:
            high = b.op("select", test, high, low, dtype=high.dtype)
        return low, high


def _range(p: Ports, position: Var, size: Dim, coefficient: int, run: Dim) -> tuple[Var, Var]:
    """The t (in `run` parts of a unit) for which position + coefficient * t / run lies in [0, size)."""
    b = p.b

    def bound(distance: Var) -> Var:
        if coefficient == 1:
            return b.mul(distance, b.size(run))
        up = maximum(b, b.add(distance, b.index(coefficient - 1)), b.index(0))
        return b.mul(b.op("divide", up, b.index(coefficient)), b.size(run))

    return bound(b.op("subtract", b.index(0), position)), bound(b.op("subtract", b.size(size), position))


def _order(single: int, spatial: Sequence[int]) -> list[int | None]:
    """Spatial dims (by number) and one other (None) in the order of their axes."""
    axes = [(axis, d) for d, axis in enumerate(spatial)]
    return [d for _, d in sorted([*axes, (single, None)], key=lambda pair: pair[0])]


def _merged(axes: Sequence[Axis], may_check: bool) -> list[Axis]:
    """Neighbours that are one run of memory become one axis.

    A checked axis joins only the innermost, contiguous one (`may_check`): the image's borders then are
    a range of the joint index. Axes of extent 1 that nothing checks go.
    """
    kept = [a for a in axes if a.extent != 1 or a.spatial is not None] or [Axis(1, 1)]
    found = [kept[-1]]
    for axis in reversed(kept[:-1]):
        inner = found[0]
        linear = axis.step == dims_.make("mul", inner.extent, inner.step)
        if linear and inner.spatial is None and axis.spatial is None:
            found[0] = Axis(dims_.make("mul", axis.extent, inner.extent), inner.step)
        elif linear and inner.spatial is None and may_check and len(found) == 1 and inner.step == 1:
            found[0] = Axis(dims_.make("mul", axis.extent, inner.extent), 1, axis.spatial, inner.extent)
        else:
            found.insert(0, axis)
    return found
