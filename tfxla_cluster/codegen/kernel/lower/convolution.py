"""`convolution`: any dimension labels, strides, padding, dilation, reversal and groups, without im2col.

A convolution is a contraction: rows are the output's batch and spatial indices, columns its features,
the depth is the window and the input's features. Blocks of rows of the padded image are copied to
scratch as they are needed. A dilated base (the gradient of a strided convolution) is cut by output
phase: output points that are congruent modulo the dilation meet the same taps, and only those are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import DType
from ....ir.node import ConvDims, Instr, WindowDim
from ....ir.polynomial import common_factor
from ....target import Target
from ..builder import KernelBuilder
from ..choice import Knobs
from ..contraction import Contraction, Index, Plain, Side
from ..contraction_ports import Ports
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .contraction_channels import build_channels, fits
from .contraction_operand import (
    Axis,
    Operand,
    Store,
    buffer_operands,
    convert,
    lies_in_order,
    merged,
    number,
    store_result,
    strides,
    sum_dtype,
    weighted,
)
from .contraction_walk import maximum
from .convolution_images import image, window
from .dot import lower_contraction, precision
from .space import inside
from .spatial import Spatial, phases_of


def lower_convolution(instr: Instr, target: Target, knobs: Knobs) -> Unit:
    """Kernels of a `convolution` whose operands and result are buffers: some for each phase."""
    return lower_phases(describe(instr), target, knobs)


def lower_phases(phases: Sequence[Contraction], target: Target, knobs: Knobs) -> Unit:
    """Some kernels for each phase. Knobs are asked where there is one: several have sizes of their own each."""
    asked = knobs if len(phases) == 1 else Knobs()
    return join([build_channels(c) if fits(c) else lower_contraction(c, target, asked) for c in phases])


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


def describe(
    instr: Instr, operands: Sequence[Operand] | None = None, store: Store | None = None, by_taps: bool = False
) -> list[Contraction]:
    """One contraction a phase of the output; `operands` and `store` stand for buffers where it is fused. `by_taps`:
    both operands take the depth apart into the taps of the window and, innermost, the features."""
    labels: ConvDims = instr.attrs["dim_labels"]
    window: Sequence[WindowDim] = instr.attrs.get("window", ())
    sources = operands or buffer_operands(instr)
    phases = [
        phases_of(w, sources[0].dims[axis], instr.shape.dims[out])
        for w, axis, out in zip(window, labels.lhs_spatial, labels.out_spatial)
    ]
    return [_Conv(instr, chosen, sources, store, by_taps).contraction() for chosen in itertools.product(*phases)]


class _Conv:
    """One phase of a convolution as a contraction."""

    def __init__(
        self, instr: Instr, spatial: Sequence[Spatial], operands: Sequence[Operand], store: Store | None, by_taps: bool
    ) -> None:
        self.instr, self.spatial, self.store = instr, spatial, store
        self.left, self.right = operands
        self.labels: ConvDims = instr.attrs["dim_labels"]
        self.feature_groups = int(instr.attrs.get("feature_group_count", 1))
        self.batch_groups = int(instr.attrs.get("batch_group_count", 1))
        self.groups = self.feature_groups * self.batch_groups
        self.cols = dims_.make("floordiv", self.right.dims[self.labels.rhs_output], self.groups)
        self.batch = instr.shape.dims[self.labels.out_batch]
        self.features = self.right.dims[self.labels.rhs_input]
        # Rows in the order of the output, depths in that of the left operand; None is batch or feature.
        self.row_order = _order(self.labels.out_batch, self.labels.out_spatial)
        # Not by taps where that leaves a plain product.
        self.by_taps = by_taps and not all(map(_is_one_point, spatial)) and not all(map(_is_whole, spatial))
        self.depth_order = (
            [*range(len(spatial)), None] if self.by_taps else _order(self.labels.lhs_feature, self.labels.lhs_spatial)
        )

    def contraction(self) -> Contraction:
        rows = tuple(self.batch if d is None else self.spatial[d].extent for d in self.row_order)
        depth = tuple(self.features if d is None else self.spatial[d].taps for d in self.depth_order)
        dtype = sum_dtype(self.instr)

        def place(p: Ports, g: Index) -> tuple[Buffer, Var]:
            return p.write("result", 0, dtype), p.b.index(0)

        return Contraction(
            self.instr.name,
            dtype,
            (self.groups,),
            rows,
            (self.cols,),
            depth,
            _Image(self).side(dtype),
            self._window(dtype),
            self._finish(),
            place if self._dense(dtype) else None,
            precision(self.instr),
        )

    def _finish(self) -> Callable[[Ports, Var, Index, Index, Index], None]:
        """Stores a sum at its index of the output."""
        labels, put = self.labels, self.store or store_result(self.instr)

        def finish(p: Ports, value: Var, g: Index, m: Index, n: Index) -> None:
            b = p.b
            index = [b.index(0)] * self.instr.shape.rank
            index[labels.out_feature] = b.add(b.mul(g[0], b.size(self.cols)), n[0])
            for at, d in zip(m, self.row_order):
                if d is None:
                    index[labels.out_batch] = at
                else:
                    s = self.spatial[d]
                    index[labels.out_spatial[d]] = _affine(b, at, s.out_step, s.out_start)
            put(p, value, tuple(index))

        return finish

    def _dense(self, dtype: DType) -> bool:
        """The result is the matrix of rows and columns as it lies in memory, each its sum."""
        return self.store is None and dtype == self.instr.shape.dtype and lies_in_order(self.instr)

    def _window(self, dtype: DType) -> Side:
        """The right operand."""
        labels, o, stride = self.labels, self.right, strides(self.right.dims)
        depth: list[Axis] = []
        base: Dim = 0
        for d in self.depth_order:
            if d is None:
                depth.append(Axis(self.features, stride[labels.rhs_input]))
                continue
            s, step = self.spatial[d], stride[labels.rhs_spatial[d]]
            depth.append(Axis(s.taps, dims_.make("mul", step, s.tap_step)))
            base = dims_.make("add", base, dims_.make("mul", step, s.tap_start))
        if self.groups == 1 and o.element is None and not self.by_taps:
            depth = merged(depth)
        out = stride[labels.rhs_output]
        group = dims_.make("mul", self.cols, out)

        def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
            b = p.b
            if o.element is not None:
                return convert(b, o.element(p, self._window_index(b, g, f, k)), dtype)
            place = weighted(b, (*g, *f, *k), (group, out, *(a.step for a in depth)))
            loaded = b.load(p.read("operand", o.number, o.dtype), b.add(place, number(b, base)))
            return convert(b, loaded, dtype)

        def plain(p: Ports, g: Index) -> Plain:
            stride = out if by_depth else depth[0].step
            offset, unit = p.b.add(weighted(p.b, g, (group,)), number(p.b, base)), common_factor((stride, group, base))
            return Plain(p.read("operand", o.number, o.dtype), offset, number(p.b, stride), unit)

        extents = tuple(a.extent for a in depth)
        by_depth = o.contiguous == labels.rhs_input and self.depth_order[-1] is None
        linear = len(depth) == 1 and (depth[0].step if by_depth else out) == 1 and o.element is None
        return Side(
            (self.cols,),
            extents,
            "depth" if by_depth else "free",
            value,
            plain=plain if linear and o.dtype == dtype and not by_depth else None,
            matrix=plain if linear else None,
            image=window(o, labels, self.spatial) if self.by_taps and self.groups == 1 else None,
        )

    def _window_index(self, b: KernelBuilder, g: Index, f: Index, k: Index) -> Index:
        labels = self.labels
        index = [b.index(0)] * len(self.right.dims)
        index[labels.rhs_output] = b.add(b.mul(g[0], b.size(self.cols)), f[0])
        for at, d in zip(k, self.depth_order):
            if d is None:
                index[labels.rhs_input] = at
            else:
                s = self.spatial[d]
                index[labels.rhs_spatial[d]] = _affine(b, at, s.tap_step, s.tap_start)
        return tuple(index)


class _Image:
    """The left operand: an affine address of free and depth axes, and what of it lies inside the image."""

    def __init__(self, conv: _Conv) -> None:
        self.conv = conv
        labels, self.stride = conv.labels, strides(conv.left.dims)
        self.by_free = (conv.left.contiguous == labels.lhs_batch and conv.row_order[-1] is None) or (
            conv.row_order[-1] is not None and conv.left.contiguous == labels.lhs_spatial[conv.row_order[-1]]
        )
        self.free, self.depth = self._axes()
        if conv.groups == 1 and conv.left.element is None and not conv.by_taps:
            self.free, self.depth = merged(self.free, self.by_free), merged(self.depth, not self.by_free)

    def _axes(self) -> tuple[list[Axis], list[Axis]]:
        conv, labels, stride = self.conv, self.conv.labels, self.stride
        free: list[Axis] = []
        depth: list[Axis] = []
        for axes, order, single, factor in (
            (free, conv.row_order, Axis(conv.batch, stride[labels.lhs_batch]), "stride"),
            (depth, conv.depth_order, Axis(conv.features, stride[labels.lhs_feature]), "dilation"),
        ):
            for d in order:
                if d is None:
                    axes.append(single)
                    continue
                s = conv.spatial[d]
                step = dims_.make("mul", stride[labels.lhs_spatial[d]], getattr(s, factor))
                axes.append(Axis(s.extent if axes is free else s.taps, step, d if s.checked else None))
        return free, depth

    def side(self, dtype: DType) -> Side:
        conv, o = self.conv, self.conv.left
        base: Dim = 0
        for s, axis in zip(conv.spatial, conv.labels.lhs_spatial):
            base = dims_.make("add", base, dims_.make("mul", self.stride[axis], s.offset))
        # A group takes its own features, or (batch groups) its own part of the batch.
        if conv.batch_groups > 1:
            group = dims_.make("mul", conv.batch, self.stride[conv.labels.lhs_batch])
        else:
            group = dims_.make("mul", conv.features, self.stride[conv.labels.lhs_feature])
        steps = (group, *(a.step for a in self.free), *(a.step for a in self.depth))

        def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
            b = p.b
            if o.element is not None:
                return convert(b, o.element(p, self._index(b, g, f, k)), dtype)
            place = b.add(weighted(b, (*g, *f, *k), steps), number(b, base))
            return convert(b, b.load(p.read("operand", o.number, o.dtype), place), dtype)

        def plain(p: Ports, g: Index) -> Plain:
            stride = (self.depth if self.by_free else self.free)[0].step
            offset, unit = p.b.add(weighted(p.b, g, (group,)), number(p.b, base)), common_factor((stride, group, base))
            return Plain(p.read("operand", o.number, o.dtype), offset, p.b.size(stride), unit)

        checked = any(a.spatial is not None for a in (*self.free, *self.depth))
        linear = len(self.free) == 1 and len(self.depth) == 1 and self._inner.step == 1 and not checked
        return Side(
            tuple(a.extent for a in self.free),
            tuple(a.extent for a in self.depth),
            "free" if self.by_free else "depth",
            value,
            self._valid if checked else None,
            plain if linear and o.dtype == dtype and o.element is None else None,
            plain if linear and o.element is None else None,
            loaded=o.element is None,
            inside=self._inside if checked else None,
            image=image(o, conv.labels, conv.spatial, conv.row_order) if conv.by_taps and conv.groups == 1 else None,
        )

    @property
    def _inner(self) -> Axis:
        return (self.free if self.by_free else self.depth)[-1]

    def _index(self, b: KernelBuilder, g: Index, f: Index, k: Index) -> Index:
        """The index of the image, from axes that nothing merged."""
        conv, labels, zero = self.conv, self.conv.labels, b.index(0)
        rows, depth = dict(zip(conv.row_order, f)), dict(zip(conv.depth_order, k))
        index = [zero] * len(conv.left.dims)
        first, second = (g[0], zero) if conv.batch_groups > 1 else (zero, g[0])
        index[labels.lhs_batch] = b.add(b.mul(first, b.size(conv.batch)), rows[None])
        index[labels.lhs_feature] = b.add(b.mul(second, b.size(conv.features)), depth[None])
        for d, s in enumerate(conv.spatial):
            position = b.add(b.mul(rows[d], b.index(s.stride)), b.mul(depth[d], b.index(s.dilation)))
            position = b.add(position, b.number(s.offset))
            if s.checked:  # what does not vary in the loop is loaded ahead of it, even where that is empty
                last = b.op("subtract", b.size(s.size), b.index(1))
                position = position if self._inner.spatial == d else b.op("clamp", b.index(0), position, last)
            index[labels.lhs_spatial[d]] = position
        return tuple(index)

    def _inside(self, p: Ports, f: Index, k: Index) -> list[Var]:
        """For each spatial dim that may leave the image, whether it does not."""
        b, tests = p.b, []
        for d, s in enumerate(self.conv.spatial):
            position = b.number(s.offset)
            for axes, index, coefficient in ((self.free, f, s.stride), (self.depth, k, s.dilation)):
                for axis, at in zip(axes, index):
                    if axis.spatial == d:
                        point = at if axis.run == 1 else b.quotient(at, b.size(axis.run))
                        position = b.add(position, b.mul(point, b.index(coefficient)))
            if s.checked:
                tests.append(inside(b, position, s.size))
        return tests

    def _valid(self, p: Ports, g: Index, f: Index, k: Index) -> tuple[Var, Var]:
        """The range of the innermost major index that meets the image; empty where another dim misses it."""
        b, inner = p.b, self._inner
        low, high = b.index(0), b.size(inner.extent)
        tests = []
        for d, s in enumerate(self.conv.spatial):
            if not s.checked:
                continue
            position = b.number(s.offset)
            for axes, index, coefficient in ((self.free, f, s.stride), (self.depth, k, s.dilation)):
                for axis, at in zip(axes, index):
                    if axis.spatial == d and axis is not inner:
                        position = b.add(position, b.mul(at, b.index(coefficient)))
            if inner.spatial != d:
                tests.append(inside(b, position, s.size))
                continue
            coefficient = s.stride if self.by_free else s.dilation
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
        return b.mul(b.quotient(up, b.index(coefficient)), b.size(run))

    return bound(b.op("subtract", b.index(0), position)), bound(b.op("subtract", b.size(size), position))


def _is_one_point(s: Spatial) -> bool:
    """The window has one tap, which meets all of the image in turn."""
    return s.taps == 1 and s.stride == 1


def _is_whole(s: Spatial) -> bool:
    """The window lies over the image as that lies in memory, in one place."""
    return s.extent == 1 and s.taps == s.size and (s.dilation, s.tap_step, s.checked) == (1, 1, False)


def _affine(b: KernelBuilder, at: Var, step: int, start: Dim) -> Var:
    return b.add(b.mul(at, b.index(step)), b.number(start))


def _order(single: int, spatial: Sequence[int]) -> list[int | None]:
    """Spatial dims (by number) and one other (None) in the order of their axes."""
    axes: list[tuple[int, int | None]] = [(axis, d) for d, axis in enumerate(spatial)]
    return [d for _, d in sorted([*axes, (single, None)], key=lambda pair: pair[0])]
