"""custom-call of a LAPACK routine, as jaxlib names them (`lapack_sgetrf_ffi`): a library call a matrix of the batch.

Arguments stand in the order of LAPACK's documentation, which says what work memory a routine asks for; here it has room
for blocks of BLOCK columns.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import UnsupportedError
from ....ir import dim as dims_
from ....ir.dim import Dim
from ....ir.dtype import S32
from ....ir.lapack_calls import lapack_call
from ....ir.node import Instr
from ....target import Target
from ..foreign_call import Number
from ..unit import Unit
from .lapack_unit import Call

BLOCK = 32  # columns that LAPACK's blocked routines take at once


def lower(instr: Instr, target: Target) -> Unit:
    """UnsupportedError for another custom call, and for matrices too large for LAPACK's integers."""
    call = lapack_call(instr.attrs)
    if call is None or call.routine not in ROUTINES:
        what = instr.attrs.get("custom_call_target", "")
        raise UnsupportedError(f"custom-call {what} of {instr.shape} has no kernel ({instr.name})")
    made = Call(instr, call, target)
    ROUTINES[call.routine](made)
    return made.unit()


def _blocks(n: Dim) -> Dim:
    return dims_.make("mul", n, BLOCK)


def _getrf(c: Call) -> None:
    c.integers(c.m, c.n)
    c.matrix(0, operand=0)
    c.vector(1)
    c.info(2)


def _geqrf(c: Call) -> None:
    c.integers(c.m, c.n)
    c.matrix(0, operand=0)
    c.vector(1)
    c.work(_blocks(c.n), c.dtype, length=True)
    c.info()


def _orgqr(c: Call) -> None:
    c.integers(c.m, c.n, c.instr.operands[1].shape.dims[-1])
    c.matrix(0, operand=0)
    c.input(1)
    c.work(_blocks(c.n), c.dtype, length=True)
    c.info()


def _geqp3(c: Call) -> None:
    c.integers(c.m, c.n)
    c.matrix(0, operand=0)
    c.vector(1, operand=1)
    c.vector(2)
    c.work(2 * c.n + _blocks(c.n + 1), c.dtype, length=True)
    if c.is_complex:
        c.work(2 * c.n, c.real)
    c.info()


def _syevd(c: Call) -> None:
    vectors, n = c.call.letter("mode", "V") == "V", c.n
    c.letters(c.call.letter("mode", "V"), c.call.letter("uplo", "L"))
    c.integers(n)
    c.matrix(0, operand=0)
    c.vector(1)
    square = n * n if vectors else 0
    c.work(1 + 6 * n + _blocks(n) + (square if c.is_complex else 2 * square), c.dtype, length=True)
    if c.is_complex:
        c.work(1 + 5 * n + 2 * square, c.real, length=True)
    c.work(3 + 5 * n if vectors else 1, S32, length=True)
    c.info(2)


def _gesdd(c: Call) -> None:
    least, most = c.least, c.most
    c.letters(_mode(c))
    _singular(c)
    square = least * least
    c.work(4 * square + 8 * least + most + _blocks(c.m + c.n), c.dtype, length=True)
    if c.is_complex:
        c.work(5 * square + 2 * most * least + 7 * least, c.real)
    c.work(8 * least, S32)
    c.info(4)


def _gesvd(c: Call) -> None:
    least, most = c.least, c.most
    c.letters(_mode(c), _mode(c))
    _singular(c)
    c.work(least * least + 5 * least + most + _blocks(c.m + c.n), c.dtype, length=True)
    if c.is_complex:
        c.work(5 * least, c.real)
    c.info(4)


def _mode(c: Call) -> str:
    return c.call.letter("mode", "A")


def _singular(c: Call) -> None:
    """A, which is lost, its singular values and vectors."""
    c.integers(c.m, c.n)
    c.matrix(0, operand=0)
    c.vector(1)
    c.matrix(2)
    c.matrix(3)


def _geev(c: Call) -> None:
    sides = (c.call.letter("compute_left", "V"), c.call.letter("compute_right", "V"))
    c.letters(*sides)
    c.integers(c.n)
    c.lost(0)
    values = 1 if c.is_complex else 2
    for number in range(values):
        c.vector(number)
    for number in range(values, values + 2):
        if c.is_complex:
            c.matrix(number)
        else:
            c.pairs(number, imaginary=1)
    c.work(4 * c.n + _blocks(c.n), c.dtype, length=True)
    if c.is_complex:
        c.work(2 * c.n, c.real)
    c.info(values + 2)


def _gees(c: Call) -> None:
    values = 1 if c.is_complex else 2
    c.letters(c.call.letter("mode", "V"), "N")
    c.add(Number(0))  # which eigenvalues come first: nobody asks
    c.integers(c.n)
    c.matrix(0, operand=0)
    c.info(2 + values)  # how many come first, 0
    for number in range(2, 2 + values):
        c.vector(number)
    c.matrix(1)
    c.work(3 * c.n + _blocks(c.n), c.dtype, length=True)
    if c.is_complex:
        c.work(c.n, c.real)
    c.work(c.n, S32)
    c.info(3 + values)


def _gehrd(c: Call) -> None:
    c.integers(c.n, c.call.number("low", 1), c.call.number("high", dims_.sample(c.n)))
    c.matrix(0, operand=0)
    c.vector(1)
    c.work(_blocks(c.n), c.dtype, length=True)
    c.info(2)


def _sytrd(c: Call) -> None:
    c.letters(c.call.letter("uplo", "L"))
    c.integers(c.n)
    c.matrix(0, operand=0)
    for number in (1, 2, 3):
        c.vector(number)
    c.work(_blocks(c.n), c.dtype, length=True)
    c.info(4)


def _potrf(c: Call) -> None:
    c.letters(c.call.letter("uplo", "L"))
    c.integers(c.n)
    c.matrix(0, operand=0)
    c.info(1)


def _gtsv(c: Call) -> None:
    """The lower diagonal has its first element unused, LAPACK's has none there."""
    c.integers(c.n, c.shapes[3].dims[-1])
    c.vector(0, operand=0, skipped=1)
    c.vector(1, operand=1)
    c.vector(2, operand=2)
    c.matrix(3, operand=3)
    c.info(4)


ROUTINES: dict[str, Callable[[Call], None]] = {
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "geqp3": _geqp3,
    "syevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesvd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "potrf": _potrf,
    "gtsv": _gtsv,
}
