"""Which form a literal has that varies from module to module (`forms`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.dim import Dim, evaluate
from ..ir.dtype import DTYPES, DType
from ..ir.literal import equal_bits, is_uniform
from ..ir.polynomial import as_dim, polynomial
from ..ir.shape import Shape, array
from ..ir.size_proofs import at_most
from ..passes import band_literals
from .fit import Sizes, Vector
from .forms import Banded, Corner, Counted, Elements, Filled, Form, Handed, Scalar, Spread

MOST_ELEMENTS = 64  # of a literal whose elements are fitted one by one
MOST_HANDED = 2**20  # bytes of literals that a module takes as parameters: each of its sizes keeps its own
_MOST_WHOLE = 2**22  # that the inverse of an f32 still tells from its neighbours
_MOST_SCALE = 1e200  # of a float, or of its inverse, that follows sizes: with them it stays within what an f64 can hold


def fit(literals: Sequence[Any], dims: tuple[Dim, ...], sizes: Sizes) -> Form | None:
    """The form of a literal that varies, of shape `dims`, as each module has it; None where none was found."""
    if any(isinstance(literal, tuple) for literal in literals):
        return None
    if all(isinstance(d, int) for d in dims):
        return _elements(literals, sizes)
    shape = array(_dtype(literals[0]), dims)
    if all(map(is_uniform, literals)):
        scalars = [literal.reshape(-1)[0] for literal in literals]
        value = _scalar(scalars, sizes)
        return None if value is None else Filled(shape, value)
    if any(literal.size == 0 for literal in literals):
        return None
    found = _spread(literals, shape) or _counted(literals, shape, sizes)
    return found or (_banded(literals, shape, sizes) if shape.rank > 1 else None)


def handed(literals: Sequence[Any], dims: tuple[Dim, ...], parameter: int) -> tuple[Handed, int] | None:
    """A literal that varies as a parameter of this number, and how many bytes that takes at most; None of a tuple."""
    if any(isinstance(literal, tuple) for literal in literals):
        return None
    axes = tuple(axis for axis in range(len(dims)) if not all(_same_along(axis, literal) for literal in literals))
    form = Handed(array(_dtype(literals[0]), dims), axes, parameter)
    parts = [part for literal in literals if (part := form.part(literal)) is not None]
    return (form, max(part.nbytes for part in parts)) if len(parts) == len(literals) else None


def _same_along(axis: int, literal: np.ndarray) -> bool:
    return literal.size > 0 and equal_bits(np.broadcast_to(literal.take([0], axis), literal.shape), literal)


def _spread(literals: Sequence[np.ndarray], shape: Shape) -> Form | None:
    axes = tuple(axis for axis, dim in enumerate(shape.dims) if isinstance(dim, int))
    parts = [literal[tuple(slice(None) if axis in axes else 0 for axis in range(literal.ndim))] for literal in literals]
    form = Spread(shape, np.array(parts[0], order="C"), axes)
    spread = (
        equal_bits(np.broadcast_to(_kept(form.part, axes, literal.ndim), literal.shape), literal)
        for literal in literals
    )
    return form if all(spread) else None


def cut(literals: Sequence[Any], dims: tuple[Dim, ...]) -> Form | None:
    """A literal of which smaller modules have a corner."""
    if any(isinstance(literal, tuple) or literal.size == 0 for literal in literals):
        return None
    shape, whole = array(_dtype(literals[0]), dims), max(literals, key=lambda literal: literal.size)
    corners = [whole[tuple(slice(0, size) for size in literal.shape)] for literal in literals]
    return Corner(shape, whole) if all(equal_bits(one, other) for one, other in zip(corners, literals)) else None


def _kept(part: np.ndarray, axes: tuple[int, ...], rank: int) -> np.ndarray:
    """The part with a dimension of 1 for each of those that vary."""
    return np.expand_dims(part, tuple(axis for axis in range(rank) if axis not in axes))


def _banded(literals: Sequence[np.ndarray], shape: Shape, sizes: Sizes) -> Form | None:
    if any(min(literal.shape[-2:]) < 2 for literal in literals):
        return None
    firsts = [literal[(0,) * (literal.ndim - 2)] for literal in literals]
    if not all(equal_bits(np.broadcast_to(one, literal.shape), literal) for one, literal in zip(firsts, literals)):
        return None
    bands = [_band(one) for one in firsts]
    known = [band for band in bands if band is not None]
    if len(known) < len(bands) or len({band.direction for band in known}) > 1:
        return None
    diagonal = next(filter(_writable, sizes.candidates(tuple(band.diagonal for band in known))), None)
    inside, outside = (_scalar(values, sizes) for values in zip(*((b.inside, b.outside) for b in known)))
    if diagonal is None or inside is None or outside is None:
        return None
    return Banded(shape, known[0].direction, diagonal, inside, outside)


@dataclass(frozen=True)
class _Band:
    direction: str
    diagonal: int
    inside: np.ndarray
    outside: np.ndarray


def _band(matrix: np.ndarray) -> _Band | None:
    """What a matrix of two values is, if one side of a diagonal, or a diagonal, has one of them."""
    number = band_literals.diagonal(matrix)
    if number is not None:
        return _Band("GE", number, np.asarray(matrix[-1, 0]), np.asarray(matrix[0, -1]))
    other = matrix[0, -1] if matrix.shape[1] > 2 else matrix[0, 1]
    rows, columns = np.nonzero(matrix != other)
    if not len(rows):
        return None
    band = _Band("EQ", int(columns[0] - rows[0]), np.asarray(matrix[rows[0], columns[0]]), np.asarray(other))
    on = np.eye(matrix.shape[0], matrix.shape[1], band.diagonal, dtype=bool)
    made = np.where(on, band.inside, band.outside).astype(matrix.dtype)
    return band if equal_bits(made, matrix) else None


def _dtype(literal: np.ndarray) -> DType:
    return next(d for d in DTYPES.values() if d.numpy == literal.dtype)


def _elements(literals: Sequence[np.ndarray], sizes: Sizes) -> Form | None:
    if literals[0].size > MOST_ELEMENTS:
        return None
    forms: list[Scalar | None] = []
    for values in zip(*(literal.reshape(-1) for literal in literals)):
        form = _scalar(values, sizes)
        if form is None:
            return None
        forms.append(None if isinstance(form, np.ndarray) else form)
    if not literals[0].shape:
        return forms[0]
    return Elements(literals[0], tuple(forms))


def _scalar(values: Sequence[Any], sizes: Sizes) -> Scalar | np.ndarray | None:
    """A number that may vary: its form, or itself where it does not."""
    arrays = [np.asarray(v) for v in values]
    if all(equal_bits(arrays[0], a) for a in arrays):
        return arrays[0]
    dtype = _dtype(arrays[0])
    if dtype.is_integer:
        candidates = sizes.candidates(tuple(int(a) for a in arrays))
        return next((Scalar(dtype, dim) for dim in candidates if _writable(dim)), None)
    if dtype.kind != "float":
        return None
    numbers = np.array([float(a) for a in arrays])
    if not all(1 / _MOST_SCALE < abs(number) < _MOST_SCALE for number in numbers):  # nor is it 0, inf or NaN
        return None
    environments = sizes.environments()
    forms = itertools.chain(
        _float_forms(dtype, arrays[0], sizes), _inverted(dtype, numbers, sizes), _folded_twice(dtype, numbers, sizes)
    )
    return next((f for f in forms if all(equal_bits(f.at(env), a) for env, a in zip(environments, arrays))), None)


def _writable(dim: Dim) -> bool:
    """What is no sum or product in it can be a dimension, which `integer` makes of it."""
    return all(at_most(0, atom) for monomial in polynomial(dim) for atom in monomial)


def _float_forms(dtype: DType, first: np.ndarray, sizes: Sizes) -> Iterator[Scalar]:
    """x / c, c * x, c / x, x / (x - 1) and their like, and those of square roots; `first` gives c. Whole c come first,
    for all x."""
    env, value = sizes.environments()[0], float(first)
    bases = list(filter(_writable, sizes.counts()))
    for scaled in (_by_whole_numbers, _by_factors):
        for root in (False, True):
            for dim in bases:
                x = math.sqrt(evaluate(dim, env)) if root else float(evaluate(dim, env))
                if x > 0:
                    yield from scaled(dtype, value, dim, x, root)
    for dim in bases:
        for shift in (-1, 1):
            other = as_dim(polynomial(dim + shift))
            yield from (Scalar(dtype, dim, other), Scalar(dtype, other, dim))


def _by_whole_numbers(dtype: DType, value: float, dim: Dim, x: float, root: bool) -> Iterator[Scalar]:
    """x / c, c * x, c / x; and 3 * (1 / x), as the gradient of the mean of a cube has it, where that is no 3 / x."""
    times, over, parts = round(value / x), round(value * x), round(x / value) if abs(value) < x else 0
    if not root:
        yield from [Scalar(dtype, dim, parts)] if parts > 1 else []
        yield from [Scalar(dtype, Scalar(dtype, 1, dim), 1, float(over))] if over > 2 and over & (over - 1) else []
    yield from [Scalar(dtype, dim, 1, float(times), root)] if times else []
    yield from [Scalar(dtype, 1, dim, float(over), root)] if over else []


def _by_factors(dtype: DType, value: float, dim: Dim, x: float, root: bool) -> Iterator[Scalar]:
    """c * x, c / x."""
    yield from (Scalar(dtype, dim, 1, c, root) for c in _factors(value / x, dtype))
    yield from (Scalar(dtype, 1, dim, c, root) for c in _factors(value * x, dtype))


def _inverted(dtype: DType, values: np.ndarray, sizes: Sizes) -> Iterator[Scalar]:
    """A whole number that is an expression, its inverse, its root, the inverse of that: 1 / (n + 1), sqrt(n + m)."""
    for root in (False, True):
        for inverse in (False, True):
            whole = (1 / values if inverse else values) ** (2 if root else 1)
            if (values > 0).all() and whole.max() < _MOST_WHOLE:
                for dim in filter(_writable, sizes.candidates(tuple(int(w) for w in np.round(whole)))):
                    yield Scalar(dtype, 1, dim, root=root) if inverse else Scalar(dtype, dim, root=root)


def _folded_twice(dtype: DType, values: np.ndarray, sizes: Sizes) -> Iterator[Scalar]:
    """c * (1 / x), (1 / x) / c and (1 / x) / y: what was folded, and rounded, one after the other."""
    environments = sizes.environments()
    near = 8 * float(ml_dtypes.finfo(dtype.numpy).eps)
    bases = [(dim, np.array([float(evaluate(dim, env)) for env in environments])) for dim in sizes.counts()]
    usable = [(dim, numbers) for dim, numbers in bases if _writable(dim) and (numbers > 0).all()]
    for dim, numbers in usable:
        inner, ratios = Scalar(dtype, 1, dim), values * numbers
        if np.ptp(ratios) <= near * abs(ratios[0]):
            yield from (Scalar(dtype, inner, 1, c) for c in _factors(float(ratios[0]), dtype))
            parts = round(1 / abs(ratios[0]))
            yield from [Scalar(dtype, inner, parts)] if parts > 1 else []
        for other, divisors in usable:
            rest = ratios * divisors
            if np.ptp(rest) <= near * abs(rest[0]):
                yield from (Scalar(dtype, inner, other, c) for c in _factors(float(rest[0]), dtype))


def _factors(estimate: float, dtype: DType) -> Iterator[float]:
    """What a factor may be that is known up to rounding: a whole number, a short decimal, a number of the type."""
    found = dict.fromkeys([float(round(estimate)), *(float(f"{estimate:.{n}g}") for n in range(1, 8))])
    found |= dict.fromkeys([float(np.float64(estimate).astype(dtype.numpy)), estimate])
    return (c for c in found if c and math.isfinite(c))


def _counted(literals: Sequence[np.ndarray], shape: Shape, sizes: Sizes) -> Form | None:
    """Of integers, and of floats that are."""
    if shape.element_type.kind not in ("int", "uint", "float"):
        return None
    found = [steps for steps in map(_steps, literals) if steps is not None]
    if len(found) < len(literals):
        return None
    fitted = [_step([of[axis] for of in found], sizes) for axis in range(shape.rank)]
    steps = tuple(step for step in fitted if step is not None)
    if len(steps) < shape.rank:
        return None
    starts: Vector = tuple(int(literal.flat[0]) for literal in literals)
    for start in filter(_writable, sizes.candidates(starts)):
        form = Counted(shape, start, steps)
        if all(equal_bits(form.at(env), literal) for env, literal in zip(sizes.environments(), literals)):
            return form
    return None


def _step(steps: Sequence[int | None], sizes: Sizes) -> Dim | None:
    """The step along a dimension; None among them: of one element there. None: no expression fits."""
    known = [step for step in steps if step is not None]
    if len(set(known)) <= 1:
        return known[0] if known else 0
    if len(known) < len(steps):
        return None
    return next(filter(_writable, sizes.candidates(tuple(known))), None)


def _steps(literal: np.ndarray) -> tuple[int | None, ...] | None:
    """How much a literal grows along each dimension at its corner, None along one of one element; None where it has
    other numbers than whole ones."""
    wide = literal.astype(np.float64)
    if not np.isfinite(wide).all() or (wide != np.round(wide)).any() or np.abs(wide).max() > 2**53:
        return None
    first = wide.flat[0]
    return tuple(
        int(wide[tuple(int(n == axis) for n in range(wide.ndim))] - first) if size > 1 else None
        for axis, size in enumerate(wide.shape)
    )
