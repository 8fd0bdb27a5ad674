"""Kernels in versions, each for some of the sizes that an instruction may have.

    x * 2 of [k, n]:              n is a multiple of 4 | other n, each below and above half of the largest seen
    softmax of k rows of n:       the largest n seen | n up to 1024 | 2048 | 4096 | 8192 | more, each so too
    attention of n rows:          n is a multiple of 128 | of 64 | other n
    x @ w of [n, k] and [k, m]:   n far below the largest seen | near it | far above it

What is known of sizes makes accesses wider, keeps rows in registers and fits blocks to the work. All versions stand in
the plan, one behind the other; those that a launch's sizes are not of have no tasks. Where two turn out to be the same
kernels they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from .....errors import UnsupportedError
from .....fusion.attention import KIND as ATTENTION
from .....fusion.hero import hero_of
from .....ir import dim as dims_
from .....ir.dim import Dim, DimExpr, is_produced, leaves, make, product, sample, sym
from .....ir.node import Instr
from .....ir.polynomial import polynomial
from .....ir.shape import Shape
from .....ir.size_proofs import divides
from .....ir.size_values import with_sizes
from ...key import key
from ...unit import Unit, UnitKernel, UnitRef
from .. import fused
from .attention import form_of_fusion
from .shapes import MULTIPLE, RESIDENT, SMALL, power

# Parts of the largest seen, or times as many, of work from or below which other blocks may be wanted. On an H200
# kernels whose blocks were chosen for an eighth or four times of the work took 1.05-1.4 times as long.
FAR, BELOW, FAR_BELOW = 4, 2, 16  # more, less, and of products, which have more blocks to compile
LEAST_ROW = 128  # lanes of a row that is held, of the narrowest version
BOX = 8  # what the extents of an image are multiples of for boxes of it to be read at once
SPANS = (128, 64)  # rows of blocks of attention, which need no mask where they are whole: 0.84-0.89 of the time
_HEROES = ("dot", "convolution")
_PLAIN = ("fusion", *fused.OPCODES, *_HEROES, "reduce-window")

Lowering = Callable[[Instr], Unit]


@dataclass(frozen=True, slots=True)
class Version:
    """`sizes`: what the sizes of inputs are taken for, by their names. `active`: 1 for the sizes that it is for, 0 for
    others."""

    sizes: Mapping[str, Dim]
    active: Dim


@dataclass(frozen=True, slots=True)
class _Span:
    """Values of a size from `low` to `high`, about `sample`."""

    size: DimExpr
    low: int
    high: int | None
    sample: int

    @property
    def narrowed(self) -> Dim:
        """The size as one of these."""
        size = self.size
        if self.low == self.high:
            return self.low
        return sym(size.name, self.sample, self.low, self.high, size.every, size.rest)

    @property
    def active(self) -> Dim:
        """1 for these, 0 for others."""
        above = make("min", make("floordiv", self.size, self.low), 1) if self.low > self.size.low else 1
        if self.high is None or self.high == self.size.high:
            return above
        return make("add", above, make("mul", make("min", make("floordiv", self.size, self.high + 1), 1), -1))


def lower(instr: Instr, lowering: Lowering) -> Unit:
    """What `lowering` makes of the instruction, in versions where that is something else for some sizes."""
    found: dict[object, tuple[Dim, Unit]] = {}
    rest: Dim = 0  # of versions that there is no kernel for
    for version in versions_of(instr):
        try:
            unit = _lowered(instr, version, lowering)
        except UnsupportedError:
            rest = make("add", rest, version.active)
            continue
        _put(found, unit, version.active)
    unit = lowering(instr)  # last: what it asks is what a tuner is offered
    if not found:
        return unit
    _put(found, unit, rest)
    return next(iter(found.values()))[1] if len(found) == 1 else _joined(list(found.values())) or unit


def _put(found: dict[object, tuple[Dim, Unit]], unit: Unit, active: Dim) -> None:
    same = _signature(unit)
    before, first = found.get(same, (0, unit))
    found[same] = make("add", before, active), first


def _signature(unit: Unit) -> object:
    """Equal for units that do the same."""
    steps = tuple(_of_kernel(step) if isinstance(step, UnitKernel) else step for step in unit.steps)
    return steps, unit.temps, unit.inplace, unit.guards


def _of_kernel(step: UnitKernel) -> object:
    kernel = step.kernel
    return key(kernel), kernel.sizes, kernel.tasks, kernel.warps, step.inputs, step.outputs


def _joined(versions: Sequence[tuple[Dim, Unit]]) -> Unit | None:
    """One unit of all that have an active size; None where they are no kernels alone, or hold for some sizes only."""
    units = [unit for _, unit in versions]
    kernels_only = all(isinstance(step, UnitKernel) for unit in units for step in unit.steps)
    if not kernels_only or any(unit.guards for unit in units) or len({unit.inplace for unit in units}) > 1:
        return None
    steps: list[UnitKernel] = []
    temps: list[Dim] = []
    for active, unit in versions:
        if active == 0:
            continue
        steps += [_step(step, active, len(temps)) for step in unit.steps if isinstance(step, UnitKernel)]
        temps += unit.temps
    return Unit(tuple(steps), tuple(temps), units[0].inplace)


def _step(step: UnitKernel, active: Dim, first: int) -> UnitKernel:
    """With tasks for the active sizes alone; its unit's temporaries are those from number `first` on."""

    def moved(refs: tuple[UnitRef, ...]) -> tuple[UnitRef, ...]:
        return tuple(UnitRef(r.kind, r.index + first) if r.kind == "temp" else r for r in refs)

    kernel = replace(step.kernel, tasks=make("mul", step.kernel.tasks, active))
    return UnitKernel(kernel, moved(step.inputs), moved(step.outputs))


def _lowered(instr: Instr, version: Version, lowering: Lowering) -> Unit:
    """The unit for a version's sizes, over the instruction's own."""
    own = {f"{name}'": name for name in version.sizes}
    taken = {name: _called(size, f"{name}'") for name, size in version.sizes.items()}
    originals = {size.name: size for size in _sizes(instr)}
    unit = lowering(with_sizes(instr, lambda size: _exchanged(size, lambda s: taken.get(s.name, s))))

    def back(dim: Dim) -> Dim:
        return dims_.substituted(dim, lambda s: _exchanged(s, lambda s: originals[own[s.name]] if s.name in own else s))

    steps = tuple(_over(step, back) if isinstance(step, UnitKernel) else step for step in unit.steps)
    return replace(unit, steps=steps, temps=tuple(map(back, unit.temps)))


def _over(step: UnitKernel, back: Callable[[Dim], Dim]) -> UnitKernel:
    kernel = step.kernel
    sizes, tasks, cost = tuple(map(back, kernel.sizes)), back(kernel.tasks), back(kernel.cost)
    return replace(step, kernel=replace(kernel, sizes=sizes, tasks=tasks, cost=cost))


def _exchanged(size: DimExpr, other: Callable[[DimExpr], Dim]) -> Dim:
    """Another size of an input, or a produced one whose bound is over others."""
    if is_produced(size):
        return dims_.with_bound(size, dims_.substituted(size.bound, lambda s: _exchanged(s, other)))
    return other(size)


def _called(size: Dim, name: str) -> Dim:
    """The same size called otherwise."""
    return size if isinstance(size, int) else sym(name, size.number, size.low, size.high, size.every, size.rest)


def versions_of(instr: Instr) -> list[Version]:
    """All versions of an instruction, of which each launch's sizes are of one; none where it has no sizes, or they make
    no difference."""
    sizes = _sizes(instr) if instr.opcode in _PLAIN else []
    if not sizes:
        return []
    spans: list[_Span | None] = [*_spans(instr, sizes[0])] if len(sizes) == 1 else []
    aligned = [size for size in sizes if size.rest == 0]
    multiples = _wanted_multiples(instr, aligned)
    versions: list[Version] = []
    for span in spans or [None]:
        taken: dict[str, Dim] = {} if span is None else {span.size.name: span.narrowed}
        whole: Dim = 1 if span is None else span.active
        larger: Dim = 0  # 1 where the sizes are of a version before
        for of in multiples if all(isinstance(taken.get(size.name, size), DimExpr) for size in aligned) else ():
            found = _multiples([taken.get(size.name, size) for size in aligned], of)
            if found:
                is_one = product(_is_multiple(size, of) for size in aligned)
                versions.append(Version({**taken, **found}, make("mul", whole, _less(is_one, larger))))
                larger = is_one
        versions.append(Version(taken, make("mul", whole, _less(1, larger))))
    return versions if len(versions) > 1 else []


def _less(a: Dim, b: Dim) -> Dim:
    return make("add", a, make("mul", b, -1))


def _arrays(instr: Instr) -> Iterator[Shape]:
    """What it reads and writes."""
    for node in (instr, *instr.operands):
        yield from _leaves(node.shape)


def _leaves(shape: Shape) -> Iterator[Shape]:
    if not shape.is_tuple:
        yield shape
    for element in shape.elements:
        yield from _leaves(element)


def _sizes(instr: Instr) -> list[DimExpr]:
    """The sizes of inputs in what it reads and writes."""
    found = (size for shape in _arrays(instr) for dim in shape.dims for size in leaves(dim))
    return list({size.name: size for size in found if not is_produced(size)}.values())


def _wanted_multiples(instr: Instr, sizes: Sequence[DimExpr]) -> list[int]:
    """What sizes have to be multiples of for rows of all large arrays to begin at whole accesses, for boxes of an image
    to fill it, or for blocks of attention to be whole: the largest first; none where they are anyway, or never."""
    arrays = [a for a in _arrays(instr) if a.element_type.itemsize]
    least = max((sample(a.byte_size) for a in arrays), default=0) // SMALL
    large = [a for a in arrays if sample(a.byte_size) >= least]
    wanted: tuple[int, ...]
    if _is_attention(instr):
        form = form_of_fusion(instr)
        extents, wanted = [product(d.extent for d in seq) for seq in (form.fixed, form.looped)], SPANS
    elif _is_of(instr, "convolution"):
        extents, wanted = [dim for a in large for dim in a.dims], (BOX,)
    else:
        narrowest = min((a.element_type.itemsize for a in large), default=1)
        extents, wanted = [stride for a in large for stride in _strides(a.dims)], (max(MULTIPLE // narrowest, 2),)
    return [of for of in wanted if _gains(extents, of, _multiples(sizes, of))]


def _gains(extents: Sequence[Dim], of: int, whole: Mapping[str, DimExpr]) -> bool:
    """Is one of the extents a multiple where sizes are, and not known to be one otherwise?"""
    return any(divides(of, _with(extent, whole)) for extent in extents if not divides(of, extent))


def _strides(dims: tuple[Dim, ...]) -> list[Dim]:
    """Elements from one row to the next, or in the one row."""
    return [product(dims[axis:]) for axis in range(1, len(dims))] or [product(dims)]


def _with(dim: Dim, sizes: Mapping[str, DimExpr]) -> Dim:
    return dims_.substituted(dim, lambda size: size if is_produced(size) else sizes.get(size.name, size))


def _multiples(sizes: Sequence[Dim], of: int) -> dict[str, DimExpr]:
    """The sizes as multiples of `of`; {} where one of them has none."""
    found = {}
    for size in sizes:
        assert isinstance(size, DimExpr)
        every = lcm(size.every, of)
        number = max(size.number // every, 1) * every
        number += every * -(-max(size.low - number, 0) // every)
        if size.high is not None and number > size.high:
            return {}
        found[size.name] = sym(size.name, number, size.low, size.high, every)
    return found


def _is_multiple(size: DimExpr, of: int) -> Dim:
    """1 for multiples, 0 for others."""
    return make("add", make("mul", make("min", make("mod", size, of), 1), -1), 1)


def _spans(instr: Instr, size: DimExpr) -> list[_Span]:
    """The values of a size in parts."""
    ends = [] if _is_attention(instr) else _row_ends(instr, size)
    if ends:
        return _parted(size, ends, [min(size.number, end) for end in ends])
    number, degree = size.number, _degree(instr, size)
    below = FAR_BELOW if _is_of(instr, *_HEROES) else BELOW
    few, many = (_root(number**degree // below, degree), _root(number**degree * FAR, degree))
    return _parted(size, [few - 1, many - 1], [few // 2, number])


def _parted(size: DimExpr, ends: Sequence[int], samples: Sequence[int]) -> list[_Span]:
    """Up to each of `ends`, about these samples, and from there on; without parts that no value is in."""
    found, low = [], size.low
    for end, about in zip(ends, samples):
        if low <= end and (size.high is None or end < size.high):
            found.append(_Span(size, low, end, min(max(about, low), end)))
            low = end + 1
    return [*found, _Span(size, low, size.high, max(size.number, low))] if found else []


def _degree(instr: Instr, size: DimExpr) -> int:
    """By which power of a size the largest array grows."""
    elements = max((product(a.dims) for a in _arrays(instr)), key=sample, default=1)
    return max((monomial.count(size) for monomial in polynomial(elements)), default=1) or 1


def _root(number: int, degree: int) -> int:
    """The largest whole number whose power is at most `number`."""
    found = int(number ** (1 / degree))
    return found + 1 if (found + 1) ** degree <= number else found


def _is_attention(instr: Instr) -> bool:
    return instr.opcode == "fusion" and instr.attrs["kind"] == ATTENTION


def _is_of(instr: Instr, *opcodes: str) -> bool:
    """Whether its work is one of these, alone or with what was fused around it."""
    hero = hero_of(instr.attrs["calls"]) if instr.opcode == "fusion" else instr
    return hero is not None and hero.opcode in opcodes


def _row_ends(instr: Instr, size: DimExpr) -> list[int]:
    """The largest sizes at which rows that it reduces fit into blocks of a fourth, half of the lanes of the sample's,
    as many, twice as many, and around the sample, for which kernels are as for it alone; [] where it reduces none
    whose length the size says."""
    reduces = [i for i in (instr, *(i for comp in instr.called for i in comp.instrs)) if i.opcode == "reduce"]
    for reduce in reduces:
        dims, reduced = reduce.operands[0].shape.dims, reduce.attrs["dimensions"]
        terms = polynomial(product(dims[n] for n in reduced)) if len(dims) - 1 in reduced else {}
        if (size,) in terms and set(terms) <= {(size,), ()} and terms[(size,)] > 0:
            factor, shift = terms[(size,)], terms.get((), 0)
            width = power(factor * size.number + shift)
            widths = [w for w in (width // 4, width // 2, width, 2 * width) if LEAST_ROW <= w <= RESIDENT]
            return sorted({*((w - shift) // factor for w in widths), size.number - 1, size.number} if widths else ())
    return []
