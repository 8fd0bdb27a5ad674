"""Forms of literals that follow a size, as TensorFlow folds them from a shape that it knows: `x / n` holds the number
of `n`.

A form says the literal at any size, in NumPy, and writes the instructions that compute it at run time: integers in s64,
the rest in f64, rounded once to f32 and then to a narrower type, so that both come to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from ..ir import attributes
from ..ir.dim import Dim, DimExpr, evaluate
from ..ir.dtype import DTYPES, PRED, DType
from ..ir.literal import equal_bits, freeze
from ..ir.node import Instr
from ..ir.polynomial import is_free, polynomial
from ..ir.shape import Shape, array

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
    """factor * numerator / denominator of `dtype`, or of their square roots; of an integer the numerator alone.

    A numerator that is a scalar itself was folded before, and rounded to `dtype` by that: 3 * (1 / n) is no 3 / n."""

    dtype: DType
    numerator: Dim | Scalar
    denominator: Dim = 1
    factor: float = 1.0
    root: bool = False

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """Of rank 0."""
        if isinstance(self.numerator, Scalar):
            value = self.factor * float(self.numerator.at(env))
        else:
            top = evaluate(self.numerator, env)
            if self.dtype.is_integer:
                return np.array(top).astype(self.dtype.numpy)
            value = self.factor if top == 1 else self.factor * self._side_at(top)
        bottom = evaluate(self.denominator, env)
        return rounded(value if bottom == 1 else _divided(value, self._side_at(bottom)), self.dtype)

    def _side_at(self, value: int) -> float:
        if not self.root:
            return float(value)
        return math.sqrt(value) if value >= 0 else math.nan

    def write(self, write: Write) -> Instr:
        """At f64 what `at` does in Python."""
        if self.dtype.is_integer:
            assert not isinstance(self.numerator, Scalar)
            return _converted(write, integer(write, self.numerator), self.dtype)
        value = write("constant", array(_F64), literal=freeze(self.factor, _F64))
        if self.numerator != 1:
            value = write("multiply", array(_F64), (value, self._side(write, self.numerator)))
        if self.denominator != 1:
            value = write("divide", array(_F64), (value, self._side(write, self.denominator)))
        if self.dtype.itemsize < _F32.itemsize:
            value = _converted(write, value, _F32)
        return _converted(write, value, self.dtype)

    def _side(self, write: Write, dim: Dim | Scalar) -> Instr:
        if isinstance(dim, Scalar):
            return _converted(write, dim.write(write), _F64)
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
        return _filled(write, self.value, array(self.shape.element_type, self.shape.dims))


@dataclass(frozen=True)
class Spread:
    """A literal that says the same all along the dimensions that vary: `part` stands in dimensions `axes`."""

    shape: Shape
    part: np.ndarray
    axes: tuple[int, ...]

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """The part everywhere."""
        dims = tuple(evaluate(d, env) for d in self.shape.dims)
        kept = self.part.reshape([d if axis in self.axes else 1 for axis, d in enumerate(dims)])
        return np.broadcast_to(kept, dims)

    def write(self, write: Write) -> Instr:
        """A broadcast."""
        dtype = self.shape.element_type
        part = write("constant", array(dtype, self.part.shape), literal=freeze(self.part))
        return write("broadcast", array(dtype, self.shape.dims), (part,), dimensions=self.axes)


@dataclass(frozen=True)
class Corner:
    """A literal whose elements follow from their places alone, a table of positions for instance: the first ones of the
    largest that was seen. Beyond that it has zeros, and is none that the program has."""

    shape: Shape
    whole: np.ndarray

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """Cut, and filled up with zeros."""
        dims = tuple(evaluate(d, env) for d in self.shape.dims)
        made = np.zeros(dims, self.whole.dtype)
        kept = tuple(slice(0, min(pair)) for pair in zip(dims, self.whole.shape))
        made[kept] = self.whole[kept]
        return made

    def write(self, write: Write) -> Instr:
        """A pad by what may be less than nothing."""
        dtype = self.shape.element_type
        whole = write("constant", array(dtype, self.whole.shape), literal=freeze(self.whole))
        zero = write("constant", array(dtype), literal=freeze(np.zeros((), self.whole.dtype)))
        padding = tuple((0, dim - size, 0) for dim, size in zip(self.shape.dims, self.whole.shape))
        return write("pad", array(dtype, self.shape.dims), (whole, zero), padding=padding)


@dataclass(frozen=True)
class Handed:
    """A literal that each module has in its own way: a parameter of the generic one, which takes `part` of it. Along
    the dimensions that are not `axes` it is the same everywhere."""

    shape: Shape
    axes: tuple[int, ...]
    parameter: int

    def part(self, literal: np.ndarray) -> np.ndarray | None:
        """What is handed over where a module has this literal; None where it differs along other dimensions."""
        kept = literal[tuple(slice(None) if axis in self.axes else slice(0, 1) for axis in range(literal.ndim))]
        if literal.size and not equal_bits(np.broadcast_to(kept, literal.shape), literal):
            return None
        return kept.reshape([literal.shape[axis] for axis in self.axes])

    def write(self, write: Write) -> Instr:
        """The parameter, broadcast."""
        dtype, dims = self.shape.element_type, self.shape.dims
        given = write(
            "parameter", array(dtype, tuple(dims[axis] for axis in self.axes)), parameter_number=self.parameter
        )
        whole = array(dtype, dims)
        return given if len(self.axes) == len(dims) else write("broadcast", whole, (given,), dimensions=self.axes)


@dataclass(frozen=True)
class Banded:
    """A literal of two values in its last two dimensions: `inside` where row + diagonal >= column, or is it where
    `direction` is EQ."""

    shape: Shape
    direction: str
    diagonal: Dim
    inside: Scalar | np.ndarray
    outside: Scalar | np.ndarray

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """As np.tri and np.eye have it."""
        dims = tuple(evaluate(d, env) for d in self.shape.dims)
        distance = np.arange(dims[-2])[:, None] + evaluate(self.diagonal, env) - np.arange(dims[-1])
        chosen = distance >= 0 if self.direction == "GE" else distance == 0
        inside, outside = (v if isinstance(v, np.ndarray) else v.at(env) for v in (self.inside, self.outside))
        return np.broadcast_to(np.where(chosen, inside, outside), dims)

    def write(self, write: Write) -> Instr:
        """A comparison of row and column numbers."""
        wide, shape = array(_S64, self.shape.dims), array(self.shape.element_type, self.shape.dims)
        rows, columns = (write("iota", wide, iota_dimension=self.shape.rank - 2 + n) for n in (0, 1))
        moved = write("broadcast", wide, (integer(write, self.diagonal),), dimensions=())
        below = write("add", wide, (rows, moved))
        chosen = write("compare", array(PRED, wide.dims), (below, columns), direction=self.direction, type="SIGNED")
        return write("select", shape, (chosen, _filled(write, self.inside, shape), _filled(write, self.outside, shape)))


def _filled(write: Write, value: Scalar | np.ndarray, shape: Shape) -> Instr:
    if isinstance(value, np.ndarray):
        made = write("constant", array(shape.element_type), literal=freeze(value))
    else:
        made = value.write(write)
    return write("broadcast", shape, (made,), dimensions=())


@dataclass(frozen=True)
class Counted:
    """Whole numbers that grow by a step along each dimension, from `start`; exact in the type that they have."""

    shape: Shape
    start: Dim
    steps: tuple[Dim, ...]

    def at(self, env: Mapping[str, int]) -> np.ndarray:
        """Counted in s64."""
        dims = tuple(evaluate(d, env) for d in self.shape.dims)
        total = np.full(dims, evaluate(self.start, env), np.int64)
        for axis, step in enumerate(self.steps):
            counted = np.arange(dims[axis]) * evaluate(step, env)
            total += counted.reshape([-1 if n == axis else 1 for n in range(len(dims))])
        return total.astype(self.shape.element_type.numpy)

    def write(self, write: Write) -> Instr:
        """Scaled iotas, moved."""
        wide = array(_S64, self.shape.dims)
        total = write("broadcast", wide, (integer(write, self.start),), dimensions=())
        for axis, step in enumerate(self.steps):
            if step != 0:
                row = write("iota", wide, iota_dimension=axis)
                scale = write("broadcast", wide, (integer(write, step),), dimensions=())
                total = write("add", wide, (total, write("multiply", wide, (row, scale))))
        return _converted(write, total, self.shape.element_type)


def expressions_in(value: Any) -> Iterator[DimExpr]:
    """Those over sizes by which a form tells its numbers; that of its shape is the instruction's."""
    if isinstance(value, DimExpr):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from expressions_in(part)
    elif is_dataclass(value) and not isinstance(value, (type, Shape)):
        for part in fields(value):
            yield from expressions_in(getattr(value, part.name))


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
    """A size, or the quotient of one of a residue class, from a shape that has it; another quotient or a maximum in
    s64, for it may be more than any shape can have."""
    if atom.op == "max" or (atom.op == "floordiv" and isinstance(atom.operands[1], int) and not is_free(atom)):
        opcode = "maximum" if atom.op == "max" else "divide"  # of what is not negative (`literals`)
        return write(opcode, array(_S64), tuple(integer(write, operand) for operand in atom.operands))
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
