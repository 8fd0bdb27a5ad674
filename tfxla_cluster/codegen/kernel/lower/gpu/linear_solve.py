"""cholesky and triangular-solve on a GPU.

Real numbers go by blocks (`block_solve`; `panel_cholesky` where the size is fixed). Of others a program has a matrix,
or a block of right-hand sides, row by row or column by column: what is solved before is multiplied and summed in blocks
of lanes, so that a step is one pass over a row of it.
"""

from __future__ import annotations

from collections.abc import Callable

from .....ir.dim import Dim
from .....ir.node import Instr
from .....target import Target
from ...builder import KernelBuilder
from ...ir import Var
from ...unit import Unit
from ..linear_solve import Matrix, System, cholesky_matrices, cholesky_unit, conjugate, has_failed, pivot_of, wide_type
from .block_solve import solve_in_blocks
from .panel_cholesky import cholesky_in_panels
from .shapes import lanes

COLUMNS = 32  # right-hand sides of a program
ROWS = 64  # of a matrix that are factored at once
BLOCK = 4096  # elements of a block that is multiplied and summed


def lower_triangular_solve(instr: Instr, target: Target) -> Unit:
    """T y = c by substitution: y[i] = (c[i] - T[i, :i] y[:i]) / T[i, i]."""
    if wide_type(instr).is_float:
        return solve_in_blocks(instr)
    b = KernelBuilder("triangular_solve")
    count = instr.shape.dims[-1 if instr.attrs["left_side"] else -2]
    width = lanes(count, COLUMNS)
    system = System(b, instr, width)
    terms = lanes(system.n, BLOCK // width)
    zero = b.const(0, system.table.dtype)
    with b.tile(*system.columns, width) as c, b.loop(b.index(0), b.size(system.n)) as step:
        i = system.row(step)

        def term(k: Var, i: Var = i) -> tuple[Var]:
            row = system.row(k)
            return (b.op("multiply", system.table.load(i, row), system.solved.load(row, c)),)

        (known,) = b.reduce(b.index(0), step, [zero], [0], term, _add(b), "vector", terms)
        system.solve(i, c, b.op("subtract", system.right.load(i, c), known))
    return system.unit(b.finish(system.tasks, system.cost, _warps(terms * width)))


def lower_cholesky(instr: Instr, target: Target) -> Unit:
    """Only the named triangle is read; the other is zero. All of it NaN where a pivot is not positive."""
    n = instr.shape.dims[-1]
    if wide_type(instr).is_float and isinstance(n, int):
        return cholesky_in_panels(instr, n)
    b = KernelBuilder("cholesky")
    read, factor = cholesky_matrices(b, instr)
    rows = lanes(n, ROWS)
    terms = lanes(n, BLOCK // rows)
    with b.loop(b.index(0), b.size(n)) as j:
        after = b.add(j, b.index(1))
        with b.tile(j, after, 1) as diagonal:
            factor.store(j, diagonal, pivot_of(b, _rest(b, (read, factor), diagonal, j, terms)))
        pivot = factor.load(j, j)
        with b.loop(after, b.size(n), "vector", rows) as i:
            factor.store(i, j, b.op("divide", _rest(b, (read, factor), i, j, terms), pivot))
            factor.store(j, i, b.const(0, factor.dtype))
    _spoil(b, factor, n, rows)
    return cholesky_unit(b, instr, _warps(rows * terms))


def _warps(elements: int) -> int:
    return max(1, min(8, elements // 256))


def _add(b: KernelBuilder) -> Callable[..., tuple[Var]]:
    return lambda total, value: (b.op("add", total, value),)


def _rest(b: KernelBuilder, matrices: tuple[Matrix, Matrix], i: Var, j: Var, terms: int) -> Var:
    """A[i, j] - sum over k < j of L[i, k] conj(L[j, k]); `i` in lanes."""
    read, factor = matrices

    def term(k: Var) -> tuple[Var]:
        return (b.op("multiply", factor.load(i, k), conjugate(b, factor.load(j, k))),)

    zero = b.const(0, factor.dtype)
    (known,) = b.reduce(b.index(0), j, [zero], [0], term, _add(b), "vector", terms)
    return b.op("subtract", read.load(i, j), known)


def _spoil(b: KernelBuilder, factor: Matrix, n: Dim, rows: int) -> None:
    def fill() -> tuple[()]:
        with b.loop(b.index(0), b.size(n)) as j, b.loop(j, b.size(n), "vector", rows) as i:
            factor.store(i, j, b.const(float("nan"), factor.dtype))
        return ()

    b.cond(has_failed(b, factor, n), fill, lambda: ())
