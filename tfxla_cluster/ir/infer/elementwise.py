"""Elementwise opcodes."""

from __future__ import annotations

from ..dtype import DTYPES, PRED, DType
from ..opcode import OPCODES
from ..rules import broken, check
from ..shape import Shape, array
from .common import Case, Rule, same_dims

_FLOAT, _COMPLEX, _INT, _PRED = {"float"}, {"complex"}, {"int", "uint"}, {"pred"}
_INEXACT = _FLOAT | _COMPLEX
_NUMBER = _INEXACT | _INT
_ANY = _NUMBER | _PRED
# opcode -> kinds of element type it works on (rule E3); those not listed take any.
_KINDS: dict[str, set[str]] = {
    **dict.fromkeys(
        (
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "cosine",
            "cosh",
            "exponential",
            "exponential-minus-one",
            "log",
            "log-plus-one",
            "logistic",
            "rsqrt",
            "sine",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "cbrt",
        ),
        _INEXACT,
    ),
    **dict.fromkeys(
        ("ceil", "erf", "floor", "is-finite", "round-nearest-afz", "round-nearest-even", "reduce-precision"), _FLOAT
    ),
    **dict.fromkeys(("abs", "negate", "sign", "power", "divide", "subtract"), _NUMBER),
    **dict.fromkeys(("and", "or", "xor", "not"), _INT | _PRED),
    **dict.fromkeys(
        ("popcnt", "count-leading-zeros", "shift-left", "shift-right-arithmetic", "shift-right-logical"), _INT
    ),
    "atan2": _INEXACT,
    "remainder": _FLOAT | _INT,
    "real": _INEXACT,
    "imag": _INEXACT,
    "complex": _FLOAT,
}
_PART = {"c64": "f32", "c128": "f64"}
_WHOLE = {"f32": "c64", "f64": "c128"}


def works_on(opcode: str, dtype: DType) -> bool:
    """Whether HLO has the elementwise opcode on a first operand of `dtype` (rule E3)."""
    return dtype.name in _WHOLE if opcode == "complex" else dtype.kind in _KINDS.get(opcode, _ANY)


def _check_kind(case: Case, i: int = 0) -> None:
    if not works_on(case.opcode, case.dtype(i)):
        broken("E3", f"{case.opcode} does not work on {case.dtype(i)}")


def _check_equal(case: Case, first: int, second: int) -> None:
    a, b = case.array(first), case.array(second)
    if not same_dims(a.dims, b.dims):
        broken("E1", f"{case.opcode} of {a} and {b}")
    if a.dtype != b.dtype:
        broken("E2", f"{case.opcode} of {a} and {b}")


def _unary(case: Case) -> Shape:
    _check_kind(case)
    return case.array(0).with_dims(case.array(0).dims)


def _binary(case: Case) -> Shape:
    _check_kind(case)
    _check_equal(case, 0, 1)
    return array(case.dtype(0), case.array(0).dims)


def _compare(case: Case) -> Shape:
    _check_equal(case, 0, 1)
    check(case.attrs["direction"] in ("EQ", "NE", "LT", "LE", "GT", "GE"), "A2", "compare has no valid direction")
    return array(PRED, case.array(0).dims)


def _is_finite(case: Case) -> Shape:
    _check_kind(case)
    return array(PRED, case.array(0).dims)


def _convert(case: Case) -> Shape:
    target = case.claimed().dtype
    assert target is not None
    return array(target, case.array(0).dims)


def _part(case: Case) -> Shape:
    """real, imag and abs: of complex the float beneath it."""
    _check_kind(case)
    name = case.dtype(0).name
    return array(DTYPES[_PART.get(name, name)], case.array(0).dims)


def _complex(case: Case) -> Shape:
    _check_kind(case)
    _check_equal(case, 0, 1)
    return array(DTYPES[_WHOLE[case.dtype(0).name]], case.array(0).dims)


def _select(case: Case) -> Shape:
    check(case.dtype(0).kind == "pred", "E3", f"select's predicate is {case.dtype(0)}")
    _check_equal(case, 1, 2)
    check(
        same_dims(case.array(0).dims, case.array(1).dims) or case.array(0).rank == 0,
        "E1",
        f"select of {case.array(0)}, {case.array(1)}",
    )
    return array(case.dtype(1), case.array(1).dims)


def _clamp(case: Case) -> Shape:
    """clamp(low, x, high): low and high may be scalars."""
    for bound in (0, 2):
        check(case.dtype(bound) == case.dtype(1), "E2", f"clamp of {case.array(1)} by {case.array(bound)}")
        fits = case.array(bound).rank == 0 or same_dims(case.array(bound).dims, case.array(1).dims)
        check(fits, "E1", f"clamp of {case.array(1)} by {case.array(bound)}")
    return array(case.dtype(1), case.array(1).dims)


def _copy(case: Case) -> Shape:
    return case.operands[0]


RULES: dict[str, Rule] = {
    **{op.name: _unary for op in OPCODES.values() if op.category == "elementwise" and op.arity == 1},
    **{op.name: _binary for op in OPCODES.values() if op.category == "elementwise" and op.arity == 2},
    "compare": _compare,
    "is-finite": _is_finite,
    "convert": _convert,
    "stochastic-convert": _convert,
    "real": _part,
    "imag": _part,
    "abs": _part,
    "complex": _complex,
    "select": _select,
    "clamp": _clamp,
    "copy": _copy,
}
del RULES["bitcast-convert"]
