"""cholesky of real matrices of a fixed size on a GPU, a panel of columns after the other.

The block on a panel's diagonal is factored in registers, by each program anew above the rows that are its own, which
are solved with it at once. A second kernel takes the panel's product from what is right of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....ir.dim import Dim, make, product
from .....ir.dtype import DType
from .....ir.node import Instr
from ...builder import KernelBuilder
from ...ir import Buffer, Var
from ...unit import Unit, UnitKernel, UnitRef
from ..grid import Blocks, minimum
from ..linear_solve import Matrix, has_failed, pivot_of, wide_type
from ..space import delinearize, linearize
from .shapes import power

PANEL = 32  # columns
BLOCK = 64  # rows and columns of a program that subtracts
PANEL_WARPS, BLOCK_WARPS = 2, 4
_OPERAND, _RESULT, _HELD = UnitRef("operand", 0), UnitRef("result", 0), UnitRef("temp", 0)


def cholesky_in_panels(instr: Instr, n: int) -> Unit:
    """Only the named triangle is read; the other is zero. All of it NaN where a pivot is not positive."""
    factor = _Factor(instr, n)
    if n <= PANEL:
        return Unit((factor.panel(0),) if n else ())
    steps = [step(begin) for begin in range(0, n - PANEL, PANEL) for step in (factor.panel, factor.update)]
    last = (n - 1) // PANEL * PANEL
    held = make("mul", factor.matrices, PANEL * PANEL * instr.shape.element_type.itemsize)
    return Unit((*steps, factor.panel(last), factor.spoilt()), (held,))


@dataclass(frozen=True, slots=True)
class _Factor:
    """Kernels of a factorisation. Those at 0 read the operand, all others what is left of it in the result."""

    instr: Instr
    n: int

    @property
    def matrices(self) -> Dim:
        return product(self.instr.shape.dims[:-2])

    def _matrix(self, b: KernelBuilder, number: Var, buffer: Buffer) -> Matrix:
        upper = not self.instr.attrs["lower"]
        base = b.mul(number, b.size(self.n * self.n))
        return Matrix(b, buffer, base, b.size(self.n), wide_type(self.instr), upper, upper)

    def _matrices(self, b: KernelBuilder, number: Var, begin: int) -> tuple[Matrix, Matrix]:
        """What is read, and what is written."""
        dtype = self.instr.shape.element_type
        result = self._matrix(b, number, b.output(dtype))
        return (self._matrix(b, number, b.input(dtype)) if begin == 0 else result), result

    def panel(self, begin: int) -> UnitKernel:
        """Columns from `begin` on. A program has the block on the diagonal and a block of rows below it, if there are
        any: the factored block goes into a temporary then, since other programs read it."""
        b, stop = KernelBuilder("cholesky.panel"), min(begin + PANEL, self.n)
        below = -(-(self.n - stop) // PANEL)
        number, block = delinearize(b, b.task, (self.matrices, max(below, 1)))
        read, result = self._matrices(b, number, begin)
        held = b.output(result.buffer.dtype) if below else None
        rows = power(stop - begin)
        with b.tile(b.index(0), b.index(2 * rows if below else stop - begin), 2 * rows if below else rows) as lane:
            lower = b.compare(lane, b.index(rows), "GE")
            shift = b.op("select", lower, b.mul(block, b.index(PANEL)), b.index(0), dtype=lane.dtype)
            p = b.add(b.add(b.size(begin), lane), shift)
            there = b.compare(p, b.size(self.n), "LT")
            with b.tile(b.size(begin), b.size(stop), rows) as q:
                x = read.load(b.op("maximum", p, q), b.op("minimum", p, q), there)
                x, root = _eliminated(b, (lane, q), p, x, (b.size(begin), b.size(stop)))
                if self.n <= PANEL:
                    x = b.op("select", b.compare(root, root, "NE"), b.const(float("nan"), x.dtype), x, dtype=x.dtype)
                zero = b.const(0, x.dtype)
                triangle = b.op("select", b.compare(q, p, "LE"), x, zero, dtype=x.dtype)
                if held is None:
                    result.store(p, q, triangle)
                else:
                    first = b.op("and", b.op("not", lower), b.compare(block, b.index(0), "EQ"))
                    at = self._held_place(b, number, (lane, b.op("subtract", q, b.size(begin))))
                    b.store(held, at, _as(b, triangle, held.dtype), first)
                    own = b.op("and", lower, there)
                    result.store(p, q, x, own)
                    result.store(q, p, zero, own)
        kernel = b.finish(
            make("mul", self.matrices, max(below, 1)), rows * rows * 2 * rows, PANEL_WARPS if below else 1
        )
        outputs = (_RESULT, _HELD) if below else (_RESULT,)
        return UnitKernel(kernel, () if begin else (_OPERAND,), outputs)

    def _held_place(self, b: KernelBuilder, number: Var, index: tuple[Var, Var]) -> Var:
        return linearize(b, (number, *index), (self.matrices, PANEL, PANEL))

    def update(self, begin: int) -> UnitKernel:
        """What is left of the lower triangle after the panel at `begin`, whose block comes out of the temporary."""
        b, after = KernelBuilder("cholesky.update"), begin + PANEL
        blocks = -(-(self.n - after) // BLOCK)
        number, i, j = delinearize(b, b.task, (self.matrices, blocks, blocks))
        read, result = self._matrices(b, number, begin)
        held = b.input(result.buffer.dtype)

        def subtract() -> tuple[()]:
            spans = ((b.add(b.size(after), b.mul(n, b.index(BLOCK)))) for n in (i, j))
            (rows, cols) = ((start, minimum(b, b.add(start, b.index(BLOCK)), b.size(self.n))) for start in spans)
            with b.tile(*rows, BLOCK) as p, b.tile(*cols, BLOCK) as q:
                left, right = (b.region([p.dtype], lambda k, row=row: (result.load(row, k),)) for row in (p, q))
                span = b.size(begin), b.size(after)
                known = b.dot(result.dtype, *span, left, right, depth=PANEL, full=True)
                below = b.compare(q, p, "LE")
                result.store(p, q, b.op("subtract", read.load(p, q, below), known), below)
            return ()

        def take() -> tuple[()]:
            whole = b.index(0), b.index(PANEL), PANEL, True
            with b.tile(*whole) as r, b.tile(*whole) as c:
                value = _as(b, b.load(held, self._held_place(b, number, (r, c))), result.dtype)
                result.store(b.add(b.size(begin), r), b.add(b.size(begin), c), value)
            return ()

        b.cond(b.compare(i, j, "GE"), subtract, lambda: ())
        b.cond(b.compare(b.add(i, j), b.index(0), "EQ"), take, lambda: ())
        tasks = make("mul", self.matrices, blocks * blocks)
        kernel = b.finish(tasks, BLOCK * BLOCK * PANEL, BLOCK_WARPS)
        return UnitKernel(kernel, (_HELD,) if begin else (_OPERAND, _HELD), (_RESULT,))

    def spoilt(self) -> UnitKernel:
        """NaN throughout the triangle where the last pivot is: each pivot depends on those before it."""
        b = KernelBuilder("cholesky.spoilt")
        blocks = Blocks(self.n, BLOCK)
        number, block = delinearize(b, b.task, (self.matrices, blocks.count))
        factor = self._matrix(b, number, b.output(self.instr.shape.element_type))

        def fill() -> tuple[()]:
            end = b.size(self.n - 1)
            with b.loop(b.index(0), b.add(block, b.index(1))) as other:
                rows, cols = (blocks.bounds(b, n) for n in (block, other))
                with b.tile(*rows, BLOCK) as p, b.tile(*cols, BLOCK) as q:
                    inside = b.op("and", b.compare(q, p, "LE"), b.compare(q, end, "LT"))  # the last one is NaN
                    factor.store(p, q, b.const(float("nan"), factor.dtype), inside)
            return ()

        b.cond(has_failed(b, factor, self.n), fill, lambda: ())
        return UnitKernel(b.finish(make("mul", self.matrices, blocks.count), self.n), (), (_RESULT,))


def _eliminated(b: KernelBuilder, lanes: tuple[Var, Var], p: Var, x: Var, span: tuple[Var, Var]) -> tuple[Var, Var]:
    """Columns in `span` of a lower triangular factor, and the last element of its diagonal.

    `lanes`: of rows and of columns, the latter by their numbers; `p`: the numbers of the rows. `x`: the matrix there,
    whose part on the diagonal is symmetric."""
    row_lane, q = lanes
    nothing = b.const(-0.0, x.dtype)  # adds nothing

    def picked(lane: Var, test: Var, value: Var) -> Var:
        """The value of the lane where the test holds, for all of its axis."""
        chosen = b.op("select", test, value, nothing, dtype=x.dtype)
        return b.across(lane, (chosen,), (nothing,), (-0.0,), lambda a, c: (b.op("add", a, c),))[0]

    def step(j: Var, x: Var, _: Var) -> tuple[Var, Var]:
        in_column, in_row = b.compare(q, j, "EQ"), b.compare(p, j, "EQ")
        column, row = picked(q, in_column, x), picked(row_lane, in_row, x)
        root = pivot_of(b, picked(q, in_column, row))
        scaled = b.op("divide", column, root)
        rest = b.op("subtract", x, b.op("multiply", b.op("divide", scaled, root), row))
        right = b.op("and", b.compare(q, j, "GT"), b.compare(p, j, "GT"))
        x = b.op("select", right, rest, x, dtype=x.dtype)
        own = b.op("and", in_column, b.compare(p, j, "GE"))
        return b.op("select", own, b.op("select", in_row, root, scaled, dtype=x.dtype), x, dtype=x.dtype), root

    found = b.fold(*span, (x, nothing), step)
    return found[0], found[1]


def _as(b: KernelBuilder, value: Var, dtype: DType) -> Var:
    return value if value.dtype == dtype else b.op("convert", value, dtype=dtype)
