"""Custom calls of LAPACK as jaxlib's CPU backend names them: `lapack_sgetrf_ffi`, attributes in the backend_config.

jaxlib's own layer (jaxlib/cpu/lapack_kernels.h) says which operands and results each has; the matrices are the
innermost two dims, all others batches. Which elements of a result mean something is as LAPACK's documentation has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import dim as dims_
from .dim import Dim
from .dtype import DTYPES, S32, DType
from .shape import Shape, array, tuple_of

_TARGET = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(-?\d+)\s*:\s*u?i\d+")
TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
LETTERS = {name: letter for letter, name in TYPES.items()}
_SAME = {"ungqr": "orgqr", "heevd": "syevd", "hetrd": "sytrd"}  # complex name -> real one
_COMPLEX_NAMES = {real: name for name, real in _SAME.items()}


@dataclass(frozen=True, slots=True)
class LapackCall:
    """`name`: LAPACK's (`cheevd`). `routine`: without its type, as of real numbers (`syevd`). `dtype`: of the
    matrices."""

    name: str
    routine: str
    dtype: DType
    attributes: Mapping[str, int]

    def letter(self, key: str, default: str) -> str:
        """An attribute that is a character."""
        return chr(self.attributes.get(key, ord(default)))

    def number(self, key: str, default: int) -> int:
        return self.attributes.get(key, default)

    @property
    def real(self) -> DType:
        """Of norms, eigenvalues of symmetric matrices and the like."""
        return DTYPES[f"f{self.dtype.bits // 2}"] if self.dtype.kind == "complex" else self.dtype

    @property
    def complex(self) -> DType:
        return self.dtype if self.dtype.kind == "complex" else DTYPES[f"c{self.dtype.bits * 2}"]

    def batch_rank(self, rank: int) -> int:
        """How many dims of the first operand, which has `rank`, are batches."""
        return rank - (1 if self.routine == "gtsv" else 2)


def target_of(routine: str, dtype: DType) -> str:
    """The custom call's target of a routine as `LapackCall` names it, for matrices of `dtype`."""
    return f"lapack_{_name(routine, dtype)}_ffi"


def letters_text(**codes: str) -> str:
    """The backend_config that says these characters."""
    return "{" + ", ".join(f"{key} = {ord(code)} : ui8" for key, code in sorted(codes.items())) + "}"


def lapack_call(attrs: Mapping[str, Any]) -> LapackCall | None:
    """What a custom call with these attributes calls, None where that is no routine known here."""
    found = _TARGET.fullmatch(attrs.get("custom_call_target", ""))
    if found is None:
        return None
    kind, name = found.groups()
    routine = _SAME.get(name, name)
    if routine not in RESULTS or (name in _SAME) != (kind in "cz" and routine in _COMPLEX_NAMES):
        return None
    return LapackCall(kind + name, routine, DTYPES[TYPES[kind]], attributes_of(attrs))


def is_triangular_solve(target: str) -> bool:
    """BLAS's trsm, of which HLO has an opcode."""
    found = _TARGET.fullmatch(target)
    return found is not None and found[2] == "trsm"


def named_call(routine: str, dtype: DType, attributes: Mapping[str, int]) -> LapackCall:
    """The call of a routine as `LapackCall` names it, for matrices of `dtype`."""
    return LapackCall(_name(routine, dtype), routine, dtype, attributes)


def _name(routine: str, dtype: DType) -> str:
    name = _COMPLEX_NAMES.get(routine, routine) if dtype.kind == "complex" else routine
    return LETTERS[dtype.name] + name


def attributes_of(attrs: Mapping[str, Any]) -> dict[str, int]:
    """The integers that the backend_config of a typed call says by name."""
    return {key: int(value) for key, value in _ATTRIBUTE.findall(attrs.get("backend_config", ""))}


@dataclass(frozen=True, slots=True)
class _Case:
    """The operands of a call, and the result it says it has. `k` is min(m, n)."""

    call: LapackCall
    operands: Sequence[Shape]
    claimed: Shape

    @property
    def batch(self) -> tuple[Dim, ...]:
        first = self.operands[0]
        return first.dims[: self.call.batch_rank(first.rank)]

    @property
    def m(self) -> Dim:
        return self.operands[0].dims[len(self.batch)]

    @property
    def n(self) -> Dim:
        return self.operands[0].dims[-1]

    @property
    def k(self) -> Dim:
        return dims_.make("min", self.m, self.n)

    def of(self, dtype: DType, *dims: Dim) -> Shape:
        return array(dtype, (*self.batch, *dims))

    @property
    def a(self) -> Shape:
        return self.of(self.call.dtype, self.m, self.n)

    @property
    def info(self) -> Shape:
        return self.of(S32)


def _less(n: Dim) -> Dim:
    """n - 1, 0 of 0."""
    return dims_.make("max", dims_.make("add", n, -1), 0)


def _gesdd(c: _Case) -> Shape:
    mode, kind = c.call.letter("mode", "A"), c.call.dtype
    left, right = (c.m, c.n) if mode == "A" else (c.k, c.k)
    vectors: tuple[Shape, ...] = (c.of(kind, c.m, left), c.of(kind, right, c.n))
    claimed = c.claimed.elements[2:4]
    if mode == "N" and all(s.dtype == kind and s.rank == len(c.batch) + 2 for s in claimed):
        vectors = claimed  # nobody reads them: of any size
    return tuple_of(c.a, c.of(c.call.real, c.k), *vectors, c.info)


def _geev(c: _Case) -> Shape:
    is_real = c.call.dtype.kind != "complex"
    values = [c.of(c.call.dtype, c.n)] * (2 if is_real else 1)
    return tuple_of(*values, *[c.of(c.call.complex, c.n, c.n)] * 2, c.info)


def _gees(c: _Case) -> Shape:
    values = [c.of(c.call.dtype, c.n)] * (2 if c.call.dtype.kind != "complex" else 1)
    return tuple_of(c.a, c.a, *values, c.info, c.info)


def _sytrd(c: _Case) -> Shape:
    real, less = c.call.real, _less(c.n)
    return tuple_of(c.a, c.of(real, c.n), c.of(real, less), c.of(c.call.dtype, less), c.info)


RESULTS: dict[str, Callable[[_Case], Shape]] = {
    "getrf": lambda c: tuple_of(c.a, c.of(S32, c.k), c.info),
    "geqrf": lambda c: tuple_of(c.a, c.of(c.call.dtype, c.k)),
    "orgqr": lambda c: c.a,
    "geqp3": lambda c: tuple_of(c.a, c.of(S32, c.n), c.of(c.call.dtype, c.k)),
    "syevd": lambda c: tuple_of(c.a, c.of(c.call.real, c.n), c.info),
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": lambda c: tuple_of(c.a, c.of(c.call.dtype, _less(c.n)), c.info),
    "sytrd": _sytrd,
    "potrf": lambda c: tuple_of(c.a, c.info),
    "gtsv": lambda c: tuple_of(*[c.of(c.call.dtype, c.n)] * 3, c.operands[3], c.info),
}
"""Routine -> the results of a call with these operands."""

SQUARE = frozenset(("syevd", "geev", "gees", "gehrd", "sytrd", "potrf"))
OPERANDS: dict[str, int] = {**dict.fromkeys(RESULTS, 1), "orgqr": 2, "geqp3": 2, "gtsv": 4}


def expected_result(call: LapackCall, operands: Sequence[Shape], claimed: Shape) -> Shape | None:
    """The shape that a call with these operands gives; None where they do not fit. `claimed`: what it says, for where
    there is a choice."""
    rank = 1 if call.routine == "gtsv" else 2
    if len(operands) != OPERANDS[call.routine] or not all(o.is_array for o in operands) or operands[0].rank < rank:
        return None
    case = _Case(call, operands, claimed)
    if operands[0].element_type != call.dtype or (call.routine in SQUARE and case.m != case.n):
        return None
    more = _MORE.get(call.routine)
    if more is not None and not more(case):
        return None
    return RESULTS[call.routine](case)


def _fits_orgqr(c: _Case) -> bool:
    tau = c.operands[1]
    if tau.element_type != c.call.dtype or tau.rank != len(c.batch) + 1 or tau.dims[:-1] != c.batch:
        return False
    return dims_.make("min", c.n, c.m) == c.n and dims_.make("min", tau.dims[-1], c.n) == tau.dims[-1]


def _fits_gtsv(c: _Case) -> bool:
    b = c.operands[3]
    alike = all(o.element_type == c.call.dtype for o in c.operands)
    return alike and all(o.dims == c.operands[0].dims for o in c.operands[:3]) and b.dims[:-1] == c.operands[0].dims


_MORE: dict[str, Callable[[_Case], bool]] = {
    "orgqr": _fits_orgqr,
    "geqp3": lambda c: c.operands[1].same_as(c.of(S32, c.n)),
    "gtsv": _fits_gtsv,
}
