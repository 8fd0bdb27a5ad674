"""cholesky and triangular-solve: a task a matrix (triangular-solve: and a block of right-hand sides).

Types narrower than f32 are computed in f32.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import DTYPES, F32, S64, DType
from ....ir.node import Instr
from ....target import Target
from ..builder import KernelBuilder
from ..ir import Buffer, Kernel, Var
from ..unit import Unit, UnitKernel, UnitRef
from .grid import Blocks
from .space import delinearize

COLUMNS_A_TASK = 64


def lower_cholesky(instr: Instr, target: Target) -> Unit:
    """Only the named triangle is read; the other is zero. All of it NaN where a pivot is not positive."""
    b = KernelBuilder("cholesky")
    n = instr.shape.dims[-1]
    read, factor = cholesky_matrices(b, instr)
    with b.loop(b.index(0), b.size(n)) as j:
        pivot = _pivot(b, read, factor, j)
        with b.loop(b.add(j, b.index(1)), b.size(n)) as i:
            rest = b.op("subtract", read.load(i, j), _row_product(b, factor, i, j))
            factor.store(i, j, b.op("divide", rest, pivot))
            factor.store(j, i, b.const(0, factor.dtype))
    _spoil(b, factor, n)
    return cholesky_unit(b, instr)


def cholesky_matrices(b: KernelBuilder, instr: Instr) -> tuple[Matrix, Matrix]:
    """The task's matrix and its factor, as if the lower one were asked for."""
    dtype, n, upper = instr.shape.element_type, instr.shape.dims[-1], not instr.attrs["lower"]
    source, result = b.input(dtype), b.output(dtype)
    base = b.mul(b.task, b.size(dims_.make("mul", n, n)))
    return (
        Matrix(b, source, base, b.size(n), wide_type(instr), upper, upper),
        Matrix(b, result, base, b.size(n), wide_type(instr), upper, upper),
    )


def cholesky_unit(b: KernelBuilder, instr: Instr, warps: int = 0) -> Unit:
    """A task a matrix."""
    n = instr.shape.dims[-1]
    cost = dims_.make("max", dims_.make("mul", dims_.make("mul", n, n), n), 1)
    kernel = b.finish(dims_.product(instr.shape.dims[:-2]), cost, warps)
    return Unit((UnitKernel(kernel, (UnitRef("operand", 0),), (UnitRef("result", 0),)),))


@dataclass(frozen=True)
class Matrix:
    """Elements of a row-major n by n matrix, in `dtype`; transposed and conjugated where asked for."""

    b: KernelBuilder
    buffer: Buffer
    base: Var
    n: Var
    dtype: DType
    transposed: bool
    conjugated: bool

    def load(self, i: Var, j: Var, mask: Var | None = None) -> Var:
        value = self.b.load(self.buffer, self.at(i, j), mask)
        value = value if value.dtype == self.dtype else self.b.op("convert", value, dtype=self.dtype)
        return conjugate(self.b, value) if self.conjugated else value

    def store(self, i: Var, j: Var, value: Var, mask: Var | None = None) -> None:
        value = conjugate(self.b, value) if self.conjugated else value
        narrow = value if value.dtype == self.buffer.dtype else self.b.op("convert", value, dtype=self.buffer.dtype)
        self.b.store(self.buffer, self.at(i, j), narrow, mask)

    def at(self, i: Var, j: Var) -> Var:
        row, column = (j, i) if self.transposed else (i, j)
        return self.b.add(self.b.add(self.base, self.b.mul(row, self.n)), column)


def conjugate(b: KernelBuilder, value: Var) -> Var:
    """The complex conjugate; a real value as it is."""
    if value.dtype.kind != "complex":
        return value
    real, imag = parts_of(b, value)
    return b.op("complex", real, b.op("negate", imag), dtype=value.dtype)


def parts_of(b: KernelBuilder, value: Var) -> tuple[Var, Var]:
    part = DTYPES[f"f{value.dtype.bits // 2}"]
    return b.op("real", value, dtype=part), b.op("imag", value, dtype=part)


def wide_type(instr: Instr) -> DType:
    dtype = instr.shape.element_type
    if dtype.kind not in ("float", "complex"):
        raise UnsupportedError(f"{instr.opcode} of {instr.shape} has no kernel ({instr.name})")
    return F32 if dtype.bits < 32 else dtype


def _row_product(b: KernelBuilder, factor: Matrix, i: Var, j: Var) -> Var:
    """Sum over k < j of L[i, k] * conj(L[j, k])."""
    zero = b.const(0, factor.dtype)

    def value(k: Var) -> tuple[Var]:
        return (b.op("multiply", factor.load(i, k), conjugate(b, factor.load(j, k))),)

    kind = "serial" if factor.dtype.kind == "complex" or factor.transposed else "vector"
    return b.reduce(b.index(0), j, [zero], [0], value, lambda a, x: (b.op("add", a, x),), kind)[0]


def _pivot(b: KernelBuilder, read: Matrix, factor: Matrix, j: Var) -> Var:
    rest = b.op("subtract", read.load(j, j), _row_product(b, factor, j, j))
    pivot = pivot_of(b, rest)
    factor.store(j, j, pivot)
    return pivot


def pivot_of(b: KernelBuilder, rest: Var) -> Var:
    """L[j, j], a real number, of what is left of the diagonal: NaN where the matrix is not positive definite."""
    real = parts_of(b, rest)[0] if rest.dtype.kind == "complex" else rest
    positive = b.compare(real, b.const(0, real.dtype), "GT")
    root = b.op("select", positive, b.op("sqrt", real), b.const(float("nan"), real.dtype), dtype=real.dtype)
    return b.op("complex", root, b.const(0, real.dtype), dtype=rest.dtype) if rest.dtype != real.dtype else root


def _spoil(b: KernelBuilder, factor: Matrix, n: Dim) -> None:
    """NaN throughout the triangle where the last pivot is: each pivot depends on those before it."""

    def fill() -> tuple[()]:
        with b.loop(b.index(0), b.size(n)) as i, b.loop(b.index(0), b.add(i, b.index(1))) as j:
            factor.store(i, j, b.const(float("nan"), factor.dtype))
        return ()

    b.cond(has_failed(b, factor, n), fill, lambda: ())


def has_failed(b: KernelBuilder, factor: Matrix, n: Dim) -> Var:
    """Whether the last pivot is NaN."""
    last = b.op("maximum", b.op("subtract", b.size(n), b.index(1)), b.index(0))
    room = b.compare(b.size(n), b.index(0), "GT")
    value = b.load(factor.buffer, factor.at(last, last), room)
    real = parts_of(b, value)[0] if value.dtype.kind == "complex" else value
    return b.op("and", room, b.compare(real, real, "NE"))


def lower_triangular_solve(instr: Instr, target: Target) -> Unit:
    """Substitution; every right-hand side is solved in a lane of its own."""
    b = KernelBuilder("triangular_solve")
    system = System(b, instr, COLUMNS_A_TASK)
    _substitute(b, system)
    return system.unit(b.finish(system.tasks, system.cost))


class System:
    """All forms of triangular-solve as T y = c, a block of `width` right-hand sides a task.

    X a = b is a^T X^T = b^T: T is one of a, a^T and their conjugates. `row(step)` is the row that is solved at a step.
    """

    def __init__(self, b: KernelBuilder, instr: Instr, width: int) -> None:
        self.b = b
        left, transpose = bool(instr.attrs["left_side"]), instr.attrs["transpose_a"]
        transposed = (transpose != "NO_TRANSPOSE") == left
        self.n, count = instr.shape.dims[-2:] if left else instr.shape.dims[:-3:-1]
        dtype, wide = instr.shape.element_type, wide_type(instr)
        a, right, solved = b.input(dtype), b.input(dtype), b.output(dtype)
        blocks = Blocks(count, width)
        matrices = dims_.product(instr.shape.dims[:-2])
        batch, block = delinearize(b, b.task, (matrices, blocks.count))
        self.columns = blocks.bounds(b, block)
        start, n = b.mul(batch, b.size(dims_.make("mul", self.n, self.n))), b.size(self.n)
        self.table = Matrix(b, a, start, n, wide, transposed, transpose == "ADJOINT")
        base, pitch = b.mul(batch, b.size(dims_.make("mul", self.n, count))), b.size(count if left else self.n)
        self.right, self.solved = (Matrix(b, x, base, pitch, wide, not left, False) for x in (right, solved))
        self.forward = bool(instr.attrs["lower"]) != transposed
        self.unit_diagonal = bool(instr.attrs["unit_diagonal"])
        self.tasks = dims_.make("mul", matrices, blocks.count)
        self.cost = dims_.make("max", dims_.make("mul", dims_.make("mul", self.n, self.n), width), 1)

    def row(self, step: Var) -> Var:
        if self.forward:
            return step
        last = self.b.op("subtract", self.b.size(self.n), self.b.index(1))
        return self.b.op("subtract", last, step, dtype=S64)

    def solve(self, i: Var, c: Var, rest: Var) -> None:
        """Stores y[i, c], whose equation leaves `rest`."""
        value = rest if self.unit_diagonal else self.b.op("divide", rest, self.table.load(i, i))
        self.solved.store(i, c, value)

    def unit(self, kernel: Kernel) -> Unit:
        return Unit((UnitKernel(kernel, (UnitRef("operand", 0), UnitRef("operand", 1)), (UnitRef("result", 0),)),))


def _substitute(b: KernelBuilder, system: System) -> None:
    with b.loop(b.index(0), b.size(system.n)) as step:
        i = system.row(step)
        with b.loop(*system.columns, "vector") as c:

            def subtract(k: Var, rest: Var, i: Var = i, c: Var = c) -> tuple[Var]:
                row = system.row(k)
                product = b.op("multiply", system.table.load(i, row), system.solved.load(row, c))
                return (b.op("subtract", rest, product),)

            (rest,) = b.fold(b.index(0), step, [system.right.load(i, c)], subtract)
            system.solve(i, c, rest)
