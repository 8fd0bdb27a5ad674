"""Literals that follow a size, as TensorFlow folds them from a shape that it knows: `x / n` holds the number of `n`.

A form says the literal at any size, in NumPy, and writes the instructions that compute it at run time: integers in s64,
the rest in f64, rounded once to f32 and then to a narrower type, so that both come to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..ir import attributes
from ..ir.dim import Dim, DimExpr, evaluate
from ..ir.dtype import DTYPES, PRED, DType
from ..ir.literal import equal_bits, freeze, is_uniform
from ..ir.node import Instr
from ..ir.polynomial import as_dim, polynomial
from ..ir.shape import Shape, array
from ..ir.size_proofs import at_most
from ..passes import band_literals
from .fit import Sizes, Vector

MOST_ELEMENTS = 64  # of a literal whose elements are fitted one by one
_F64, _F32, _S64, _S32 = (DTYPES[name] for name in ("f64", "f32", "s64", "s32"))


class Write(Protocol):
    """Adds an instruction to the computation."""

    def __call__(self, opcode: str, shape: Shape, operands: tuple[Instr, ...] = (), **attrs: Any) -> Instr: ...


class Form(Protocol):
    """How a literal follows the sizes."""

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """The literal at these sizes."""
        ...

    def write(self, write: Write) -> Instr:
        """The instruction that gives it."""
        ...


@dataclass(frozen=True)
class Scalar:
    """factor * numerator / denominator of `dtype`, or of their square roots; of an integer the numerator alone."""

    dtype: DType
    numerator: Dim
    denominator: Dim = 1
    factor: float = 1.0
    root: bool = False

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """Of rank 0."""
        top, bottom = evaluate(self.numerator, env), evaluate(self.denominator, env)
        if self.dtype.is_integer:
            return np.array(top).astype(self.dtype.numpy)
        value = self.factor if top == 1 else self.factor * self._side_at(top)
        return rounded(value if bottom == 1 else _divided(value, self._side_at(bottom)), self.dtype)

    def _side_at(self, value: int) -> float:
        if not self.root:
            return float(value)
        return math.sqrt(value) if value >= 0 else math.nan

    def write(self, write: Write) -> Instr:
        """At f64 what `at` does in Python."""
        if self.dtype.is_integer:
            return _converted(write, integer(write, self.numerator), self.dtype)
        value = write("constant", array(_F64), literal=freeze(self.factor, _F64))
        if self.numerator != 1:
            value = write("multiply", array(_F64), (value, self._side(write, self.numerator)))
        if self.denominator != 1:
            value = write("divide", array(_F64), (value, self._side(write, self.denominator)))
        if self.dtype.itemsize < _F32.itemsize:
            value = _converted(write, value, _F32)
        return _converted(write, value, self.dtype)

    def _side(self, write: Write, dim: Dim) -> Instr:
        value = _converted(write, integer(write, dim), _F64)
        return write("sqrt", array(_F64), (value,)) if self.root else value


def _divided(top: float, bottom: float) -> float:
    return top / bottom if bottom else math.nan


@dataclass(frozen=True)
class Elements:
    """A literal of few elements, of a shape that does not vary: the form of each, None for the number it has."""

    like: np.ndarray
    forms: tuple[Scalar | None, ...]

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """The elements that vary put in their places."""
        made = np.array(self.like)
        flat = made.reshape(-1)
        for k, form in enumerate(self.forms):
            if form is not None:
                flat[k] = form.at(env)
        return flat.reshape(made.shape)

    def write(self, write: Write) -> Instr:
        """The elements side by side, reshaped."""
        first = next(form for form in self.forms if form is not None)
        one, parts = array(first.dtype, (1,)), []
        for k, form in enumerate(self.forms):
            value = self.like.reshape(-1)[k]
            made = write("constant", array(first.dtype), literal=freeze(value)) if form is None else form.write(write)
            parts.append(write("reshape", one, (made,)))
        row = parts[0]
        if len(parts) > 1:
            row = write("concatenate", array(first.dtype, (len(parts),)), tuple(parts), dimensions=(0,))
        return write("reshape", array(first.dtype, self.like.shape), (row,))


@dataclass(frozen=True)
class Filled:
    """A literal of a shape that varies, all elements alike."""

    shape: Shape
    value: Scalar | np.ndarray

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """The value everywhere."""
        value = self.value if isinstance(self.value, np.ndarray) else self.value.at(env)
        return np.broadcast_to(value, tuple(evaluate(d, env) for d in self.shape.dims))

    def write(self, write: Write) -> Instr:
        """A broadcast."""
        if isinstance(self.value, np.ndarray):
            value = write("constant", array(self.shape.element_type), literal=freeze(self.value))
        else:
            value = self.value.write(write)
        return write("broadcast", array(self.shape.element_type, self.shape.dims), (value,), dimensions=())


@dataclass(frozen=True)
class Banded:
    """A literal of two values that a diagonal divides, in its last two dimensions: `lower` where row + n >= column."""

    shape: Shape
    diagonal: Dim
    lower: np.ndarray
    upper: np.ndarray

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """As np.tri has it."""
        dims = tuple(evaluate(d, env) for d in self.shape.dims)
        inside = np.tri(dims[-2], dims[-1], evaluate(self.diagonal, env), bool)
        return np.broadcast_to(np.where(inside, self.lower, self.upper), dims)

    def write(self, write: Write) -> Instr:
        """A comparison of row and column numbers."""
        wide, dtype = array(_S64, self.shape.dims), self.shape.element_type
        rows, columns = (write("iota", wide, iota_dimension=self.shape.rank - 2 + n) for n in (0, 1))
        moved = write("broadcast", wide, (integer(write, self.diagonal),), dimensions=())
        below = write("add", wide, (rows, moved))
        inside = write("compare", array(PRED, wide.dims), (below, columns), direction="GE", type="SIGNED")
        sides = (write("constant", array(dtype), literal=freeze(v)) for v in (self.lower, self.upper))
        shape = array(dtype, wide.dims)
        filled = (write("broadcast", shape, (side,), dimensions=()) for side in sides)
        return write("select", shape, (inside, *filled))


@dataclass(frozen=True)
class Counted:
    """A vector of integers whose length varies: start, start + step, ..."""

    shape: Shape
    start: Dim
    step: int

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """Counted in s64."""
        count = evaluate(self.shape.dims[0], env)
        return (np.arange(count) * self.step + evaluate(self.start, env)).astype(self.shape.element_type.numpy)

    def write(self, write: Write) -> Instr:
        """An iota, scaled and moved."""
        wide = array(_S64, self.shape.dims)
        row = write("iota", wide, iota_dimension=0)
        for opcode, value in (("multiply", self.step), ("add", self.start)):
            other = write("broadcast", wide, (integer(write, value),), dimensions=())
            row = write(opcode, wide, (row, other))
        return _converted(write, row, self.shape.element_type)


def integer(write: Write, dim: Dim) -> Instr:
    """The value of an expression as s64[]: of each size from a shape that has it, which costs no memory."""
    total: Instr | None = None
    for monomial, coefficient in sorted(polynomial(dim).items(), key=str):
        part = write("constant", array(_S64), literal=freeze(coefficient, _S64))
        for atom in monomial:
            part = write("multiply", array(_S64), (part, _atom(write, atom)))
        total = part if total is None else write("add", array(_S64), (total, part))
    return write("constant", array(_S64), literal=freeze(0, _S64)) if total is None else total


def _atom(write: Write, atom: DimExpr) -> Instr:
    none = write("constant", array(PRED), literal=freeze(False, PRED))
    shaped = write("broadcast", array(PRED, (atom,)), (none,), dimensions=())
    return _converted(write, write("get-dimension-size", array(_S32), (shaped,), dimensions=(0,)), _S64)


def _converted(write: Write, value: Instr, dtype: DType) -> Instr:
    return value if value.shape.dtype == dtype else write("convert", array(dtype, value.shape.dims), (value,))


def writer(add: Callable[[str, Shape, tuple[Instr, ...], dict[str, Any]], Instr]) -> Write:
    """`add` with the attributes completed."""

    def write(opcode: str, shape: Shape, operands: tuple[Instr, ...] = (), **attrs: Any) -> Instr:
        return add(opcode, shape, operands, attributes.complete(opcode, attrs))

    return write


def rounded(value: float, dtype: DType) -> np.ndarray:
    """An f64 rounded to f32 and from there to a narrower type, as the instructions do it."""
    with np.errstate(all="ignore"):
        wide = np.array(value, np.float64)
        return (wide.astype(np.float32) if dtype.itemsize < _F32.itemsize else wide).astype(dtype.numpy)


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
    return _counted(literals, shape, sizes) if shape.rank == 1 else _banded(literals, shape, sizes)


def _banded(literals: Sequence[np.ndarray], shape: Shape, sizes: Sizes) -> Form | None:
    if any(literal.size != math.prod(literal.shape[-2:]) for literal in literals):
        return None
    numbers = (band_literals.diagonal(literal.reshape(literal.shape[-2:])) for literal in literals)
    found = tuple(number for number in numbers if number is not None)
    if len(found) < len(literals):
        return None
    corners = [
        (literal.reshape(-1)[-literal.shape[-1]], literal.reshape(-1)[literal.shape[-1] - 1]) for literal in literals
    ]
    if not all(equal_bits(a, b) for pair in corners for a, b in zip(pair, corners[0])):
        return None
    diagonal = next((dim for dim in sizes.candidates(found) if _writable(dim)), None)
    return None if diagonal is None else Banded(shape, diagonal, *map(np.asarray, corners[0]))


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
    if dtype.kind != "float" or not all(np.isfinite(a.astype(np.float64)) and a != 0 for a in arrays):
        return None
    environments = sizes.environments()
    for form in _float_forms(dtype, arrays[0], sizes):
        if all(equal_bits(form.at(env), a) for env, a in zip(environments, arrays)):
            return form
    return None


def _writable(dim: Dim) -> bool:
    """What is no sum or product in it can be a dimension, which `integer` makes of it."""
    return all(at_most(0, atom) for monomial in polynomial(dim) for atom in monomial)


def _float_forms(dtype: DType, first: np.ndarray, sizes: Sizes) -> Iterator[Scalar]:
    """x / c, c * x, c / x, x / (x - 1) and their like, and those of square roots; `first` gives c."""
    env, value = sizes.environments()[0], float(first)
    bases = list(filter(_writable, sizes.counts()))
    for root in (False, True):
        for dim in bases:
            x = math.sqrt(evaluate(dim, env)) if root else float(evaluate(dim, env))
            if x > 0:
                parts = round(x / value) if abs(value) < x else 0
                yield from [Scalar(dtype, dim, parts)] if parts > 1 and not root else []
                yield from (Scalar(dtype, dim, 1, c, root) for c in _factors(value / x, dtype))
                yield from (Scalar(dtype, 1, dim, c, root) for c in _factors(value * x, dtype))
    for dim in bases:
        for shift in (-1, 1):
            other = as_dim(polynomial(dim + shift))
            yield from (Scalar(dtype, dim, other), Scalar(dtype, other, dim))


def _factors(estimate: float, dtype: DType) -> Iterator[float]:
    """What a factor may be that is known up to rounding: a whole number, a short decimal, a number of the type."""
    found = dict.fromkeys([float(round(estimate)), *(float(f"{estimate:.{n}g}") for n in range(1, 8))])
    found |= dict.fromkeys([float(np.float64(estimate).astype(dtype.numpy)), estimate])
    return (c for c in found if c and math.isfinite(c))


def _counted(literals: Sequence[np.ndarray], shape: Shape, sizes: Sizes) -> Form | None:
    if not shape.element_type.is_integer or any(literal.size < 2 for literal in literals):
        return None
    steps = {int(literal[1]) - int(literal[0]) for literal in literals}
    starts: Vector = tuple(int(literal[0]) for literal in literals)
    start = next((dim for dim in sizes.candidates(starts) if _writable(dim)), None)
    if len(steps) > 1 or start is None:
        return None
    form = Counted(shape, start, steps.pop())
    same = (equal_bits(form.at(env), literal) for env, literal in zip(sizes.environments(), literals))
    return form if all(same) else None
