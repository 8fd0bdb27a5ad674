"""Convolutions of images with few features, as the first of a network is: the image is copied first.

The copy has zeros beside each line of the image and behind the features of each point, so that all that a line of the
window meets is one run of memory that begins at whole units. The depth then is lines of taps and, last, such a run;
the window is copied in the same order. Descriptors read the runs where they overlap, and zeros behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .....ir.dim import Dim, make, product
from .....ir.dtype import DType
from ...builder import KernelBuilder
from ...contraction import Contraction, Image, ImageAxis, Index, Plain, Side
from ...contraction_ports import Ports
from ...ir import Var
from ...unit import Unit, UnitKernel
from ..contraction_operand import convert, number, strides, weighted
from ..grid import Blocks
from ..space import all_of, digits, inside
from .capability import DESCRIPTOR_UNIT
from .shapes import MULTIPLE, power

BITS = 16  # of elements
_MOST_FEATURES = 8
_LEAST_RUN = 16  # elements: less is no block of the depth
_BLOCK, _WARPS = 1024, 4  # elements of a program that copies
_IMAGE, _WINDOW = 0, 1  # numbers of the temporaries


@dataclass(frozen=True, slots=True)
class _Runs:
    """Of an image: `lead` are its dims but for those along a line and the features, `line` the former. A point has
    `features`, in the copy `room` for them, a line of the copy `points`; `taps` stand in a line of the window."""

    dtype: DType
    lead: tuple[ImageAxis, ...]
    line: ImageAxis
    features: int
    room: int
    points: int
    taps: int

    @property
    def used(self) -> int:
        """Elements of a run that meet taps."""
        return self.taps * self.room

    @property
    def length(self) -> int:
        return power(self.used)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Of the copy of the image."""
        return (*(axis.extent for axis in self.lead), self.points, self.room)


def with_runs(c: Contraction) -> tuple[Contraction, Unit] | None:
    """The contraction of the copies, and the kernels that make them; None where it is of another kind."""
    runs = _runs(c)
    if runs is None:
        return None
    depth = (*c.depth[:-2], runs.length)
    lhs, rhs = _image_side(c, runs, depth), _window_side(c, runs, depth)
    steps = (_copy_image(c, runs), _copy_window(c, runs, depth))
    sizes = (product(runs.dims), product((*depth, *c.cols)))
    temps = tuple(make("mul", size, runs.dtype.itemsize) for size in sizes)
    return replace(c, depth=depth, lhs=lhs, rhs=rhs, place=None), Unit(steps, temps)


def _runs(c: Contraction) -> _Runs | None:
    image, window, last = c.lhs.image, c.rhs.image, len(c.depth) - 1
    if image is None or window is None or image.dtype.bits != BITS or window.dtype != image.dtype:
        return None
    *lead, line, features = image.axes
    if features.depth != last or line.depth != last - 1 or line.free is None or line.depth_scale != 1 or not lead:
        return None
    count, taps, places = features.extent, c.depth[line.depth], c.rows[line.free]
    if not (isinstance(count, int) and isinstance(taps, int) and isinstance(places, int)):
        return None
    if not 0 < count <= _MOST_FEATURES or places <= 0:
        return None
    size, room = image.dtype.itemsize, power(count)
    while line.free_scale * room * size % DESCRIPTOR_UNIT:
        room *= 2
    points = (places - 1) * line.free_scale + taps
    while points * room * size % DESCRIPTOR_UNIT:
        points += 1
    runs = _Runs(image.dtype, tuple(lead), line, count, room, points, taps)
    return runs if runs.length >= _LEAST_RUN and taps > 1 else None


def _copy_image(c: Contraction, runs: _Runs) -> UnitKernel:
    image = c.lhs.image
    assert image is not None

    def value(p: Ports, index: Index) -> Var:
        b = p.b
        *lead, point, feature = index
        at = b.add(point, number(b, runs.line.start))
        tests = [inside(b, at, runs.line.extent), b.compare(feature, b.index(runs.features), "LT")]
        steps = [axis.step for axis in image.axes]
        place = weighted(b, (*lead, at, feature), steps)
        return b.load(p.read(image.kind, image.number, image.dtype), place, all_of(b, tests))

    return _copy(f"{c.name}.image", runs.dims, _IMAGE, runs.dtype, value)


def _copy_window(c: Contraction, runs: _Runs, depth: tuple[Dim, ...]) -> UnitKernel:
    def value(p: Ports, index: Index) -> Var:
        b = p.b
        *lines, at, column = index
        tap, feature = digits(b, at, (runs.taps, runs.room))
        tests = [b.compare(tap, b.index(runs.taps), "LT"), b.compare(feature, b.index(runs.features), "LT")]
        test = all_of(b, tests)
        assert test is not None
        with b.only_where(test):
            found = c.rhs.value(p, (b.index(0),), (column,), (*lines, tap, feature))
        return convert(b, found, runs.dtype)

    return _copy(f"{c.name}.window", (*depth, *c.cols), _WINDOW, runs.dtype, value)


def _copy(
    name: str, dims: tuple[Dim, ...], temp: int, dtype: DType, value: Callable[[Ports, Index], Var]
) -> UnitKernel:
    """Writes the temporary of `dims`, element by element."""
    p = Ports(name, MULTIPLE)
    b, blocks = p.b, Blocks(product(dims), _BLOCK)
    with b.tile(*blocks.bounds(b, b.task), _BLOCK) as at:
        b.store(p.write("temp", temp, dtype), at, value(p, digits(b, at, dims)))
    return p.kernel(blocks.count, 8 * _BLOCK, _WARPS)


def _image_side(c: Contraction, runs: _Runs, depth: tuple[Dim, ...]) -> Side:
    steps = strides(runs.dims)
    last, line = len(depth) - 1, runs.line
    assert line.free is not None
    free = line.free

    def places(b: KernelBuilder, f: Index, k: Index) -> list[Var]:
        """The index of the lead dims."""
        return [axis.at(b, f, k) for axis in runs.lead]

    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        b = p.b
        point = b.mul(f[free], b.index(line.free_scale))
        place = weighted(b, (*places(b, f, k), point, k[last]), steps)
        mask = b.compare(k[last], b.index(runs.used), "LT")
        return convert(b, b.load(p.read("temp", _IMAGE, runs.dtype), place, mask), c.dtype)

    def tests(p: Ports, f: Index, k: Index) -> list[Var]:
        b = p.b
        return [inside(b, at, axis.extent) for axis, at in zip(runs.lead, places(b, f, k)) if axis.depth is not None]

    axes = [replace(axis, step=step) for axis, step in zip(runs.lead, steps)]
    axes.append(ImageAxis(c.rows[free], line.free_scale * runs.room, free=free))
    axes.append(ImageAxis(runs.used, 1, depth=last))
    copied = Image(_IMAGE, runs.dtype, tuple(axes), "temp")
    return Side(
        c.lhs.free,
        depth,
        "depth",
        value,
        loaded=True,
        inside=tests if any(a.depth is not None for a in runs.lead) else None,
        image=copied,
    )


def _window_side(c: Contraction, runs: _Runs, depth: tuple[Dim, ...]) -> Side:
    steps, columns = strides((*depth, *c.cols)), product(c.cols)

    def value(p: Ports, g: Index, f: Index, k: Index) -> Var:
        place = weighted(p.b, (*k, *f), steps)
        return convert(p.b, p.b.load(p.read("temp", _WINDOW, runs.dtype), place), c.dtype)

    def matrix(p: Ports, g: Index) -> Plain:
        unit = columns if isinstance(columns, int) else 1
        return Plain(p.read("temp", _WINDOW, runs.dtype), p.b.index(0), p.b.size(columns), unit)

    return Side(c.cols, depth, "free", value, matrix=matrix)
