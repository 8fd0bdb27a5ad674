"""cholesky and triangular-solve: a task a matrix (triangular-solve: and a block of right-hand sides).

Types narrower than f32 are computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import DTYPES, F32, S64, DType
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Var
from ..unit import Unit, UnitKernel, UnitRef
from .grid import Blocks
from .space import delinearize

COLUMNS_A_TASK = 64


def lower_cholesky(instr: Instr, target: Target) -> Unit:
    """Only the named triangle is read; the other is zero. All of it NaN where a pivot is not positive."""
    shape = instr.shape
    n, lower = shape.dims[-1], bool(instr.attrs["lower"])
    b = KernelBuilder("cholesky")
    source, result = b.input(shape.element_type), b.output(shape.element_type)
    base = b.mul(b.task, b.size(dims_.make("mul", n, n)))
    read, factor = (_Matrix(b, x, base, b.size(n), _wide(instr), not lower, not lower) for x in (source, result))
    with b.loop(b.index(0), b.size(n)) as j:
        pivot = _pivot(b, read, factor, j)
        with b.loop(b.add(j, b.index(1)), b.size(n)) as i:
            rest = b.op("subtract", read.load(i, j), _row_product(b, factor, i, j))
            factor.store(i, j, b.op("divide", rest, pivot))
            factor.store(j, i, b.const(0, factor.dtype))
    _spoil(b, factor, n)
    cost = dims_.make("max", dims_.make("mul", dims_.make("mul", n, n), n), 1)
    kernel = b.finish(dims_.product(shape.dims[:-2]), cost)
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("result", 0),)),))


@dataclass(frozen=True)
class _Matrix:
    """Elements of a row-major n by n matrix, in `dtype`; transposed and conjugated where asked for."""

    b: KernelBuilder
    buffer: Buffer
    base: Var
    n: Var
    dtype: DType
    transposed: bool
    conjugated: bool

    def load(self, i: Var, j: Var) -> Var:
        value = self.b.load(self.buffer, self.at(i, j))
        value = value if value.dtype == self.dtype else self.b.op("convert", value, dtype=self.dtype)
        return conjugate(self.b, value) if self.conjugated else value

    def store(self, i: Var, j: Var, value: Var) -> None:
        value = conjugate(self.b, value) if self.conjugated else value
        narrow = value if value.dtype == self.buffer.dtype else self.b.op("convert", value, dtype=self.buffer.dtype)
        self.b.store(self.buffer, self.at(i, j), narrow)

    def at(self, i: Var, j: Var) -> Var:
        row, column = (j, i) if self.transposed else (i, j)
        return self.b.add(self.b.add(self.base, self.b.mul(row, self.n)), column)


def conjugate(b: KernelBuilder, value: Var) -> Var:
    """The complex conjugate; a real value as it is."""
    if value.dtype.kind != "complex":
        return value
    real, imag = _parts(b, value)
    return b.op("complex", real, b.op("negate", imag), dtype=value.dtype)


def _parts(b: KernelBuilder, value: Var) -> tuple[Var, Var]:
    part = DTYPES[f"f{value.dtype.bits // 2}"]
    return b.op("real", value, dtype=part), b.op("imag", value, dtype=part)


def _wide(instr: Instr) -> DType:
    dtype = instr.shape.element_type
    if dtype.kind not in ("float", "complex"):
        raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
    return F32 if dtype.bits < 32 else dtype


def _row_product(b: KernelBuilder, factor: _Matrix, i: Var, j: Var) -> Var:
    """Sum over k < j of L[i, k] * conj(L[j, k])."""
    zero = b.const(0, factor.dtype)

    def value(k: Var) -> tuple[Var]:
        return (b.op("multiply", factor.load(i, k), conjugate(b, factor.load(j, k))),)

    kind = "serial" if factor.dtype.kind == "complex" or factor.transposed else "vector"
    return b.reduce(b.index(0), j, [zero], [0], value, lambda a, x: (b.op("add", a, x),), kind)[0]


def _pivot(b: KernelBuilder, read: _Matrix, factor: _Matrix, j: Var) -> Var:
    """L[j, j], a real number: NaN where the matrix is not positive definite."""
    rest = b.op("subtract", read.load(j, j), _row_product(b, factor, j, j))
    real = _parts(b, rest)[0] if rest.dtype.kind == "complex" else rest
    positive = b.compare(real, b.const(0, real.dtype), "GT")
    root = b.op("select", positive, b.op("sqrt", real), b.const(float("nan"), real.dtype), dtype=real.dtype)
    pivot = b.op("complex", root, b.const(0, real.dtype), dtype=rest.dtype) if rest.dtype != real.dtype else root
    factor.store(j, j, pivot)
    return pivot


def _spoil(b: KernelBuilder, factor: _Matrix, n: Dim) -> None:
    """NaN throughout the triangle where the last pivot is: each pivot depends on those before it."""
    last = b.op("maximum", b.op("subtract", b.size(n), b.index(1)), b.index(0))
    room = b.compare(b.size(n), b.index(0), "GT")
    value = b.load(factor.buffer, factor.at(last, last), room)
    real = _parts(b, value)[0] if value.dtype.kind == "complex" else value

    def fill() -> tuple[()]:
        with b.loop(b.index(0), b.size(n)) as i, b.loop(b.index(0), b.add(i, b.index(1))) as j:
            factor.store(i, j, b.const(float("nan"), factor.dtype))
        return ()

    b.cond(b.op("and", room, b.compare(real, real, "NE")), fill, lambda: ())


def lower_triangular_solve(instr: Instr, target: Target) -> Unit:
    """Substitution; every right-hand side is solved in a lane of its own.

    X a = b is a^T X^T = b^T, so all forms are T y = c with T one of a, a^T and their conjugates.
    """
    left, transpose = bool(instr.attrs["left_side"]), instr.attrs["transpose_a"]
    transposed = (transpose != "NO_TRANSPOSE") == left
    n, count = instr.shape.dims[-2:] if left else instr.shape.dims[:-3:-1]
    b = KernelBuilder("triangular_solve")
    dtype = instr.shape.element_type
    buffers = b.input(dtype), b.input(dtype), b.output(dtype)
    blocks = Blocks(count, COLUMNS_A_TASK)
    batch, block = delinearize(b, b.task, (dims_.product(instr.shape.dims[:-2]), blocks.count))
    table = _Matrix(
        b,
        buffers[0],
        b.mul(batch, b.size(dims_.make("mul", n, n))),
        b.size(n),
        _wide(instr),
        transposed,
        transpose == "ADJOINT",
    )
    base = b.mul(batch, b.size(dims_.make("mul", n, count)))
    right, solved = (
        _Matrix(b, x, base, b.size(count if left else n), table.dtype, not left, False) for x in buffers[1:]
    )
    forward = bool(instr.attrs["lower"]) != transposed
    _substitute(
        b, (table, right, solved), blocks.bounds(b, block), _order(b, n, forward), bool(instr.attrs["unit_diagonal"])
    )
    tasks = dims_.make("mul", dims_.product(instr.shape.dims[:-2]), blocks.count)
    cost = dims_.make("mul", dims_.make("mul", n, n), COLUMNS_A_TASK)
    kernel = b.finish(tasks, dims_.make("max", cost, 1))
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0), UnitRef("operand", 1)), (UnitRef("result", 0),)),))


def _order(b: KernelBuilder, n: Dim, forward: bool) -> tuple[Dim, Callable[[Var], Var]]:
    """How many rows there are, and the row solved at each step."""
    if forward:
        return n, lambda step: step
    last = b.op("subtract", b.size(n), b.index(1))
    return n, lambda step: b.op("subtract", last, step, dtype=S64)


def _substitute(
    b: KernelBuilder,
    matrices: tuple[_Matrix, _Matrix, _Matrix],
    columns: tuple[Var, Var],
    order: tuple[Dim, Callable[[Var], Var]],
    unit: bool,
) -> None:
    table, right, solved = matrices
    n, row_of = order
    with b.loop(b.index(0), b.size(n)) as step:
        i = row_of(step)
        with b.loop(*columns, "vector") as c:

            def subtract(k: Var, rest: Var, i: Var = i, c: Var = c) -> tuple[Var]:
                row = row_of(k)
                return (b.op("subtract", rest, b.op("multiply", table.load(i, row), solved.load(row, c))),)

            (rest,) = b.fold(b.index(0), step, [right.load(i, c)], subtract)
            solved.store(i, c, rest if unit else b.op("divide", rest, table.load(i, i)))
