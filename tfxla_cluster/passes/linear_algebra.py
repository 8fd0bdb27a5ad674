"""linear-algebra-expander: custom calls that XLA itself expands --> LAPACK's routines, as jaxlib names them.

Qr(a) --> geqrf; ProductOfElementaryHouseholderReflectors(a, tau) --> orgqr; Eigh(a) --> syevd, NaN where it found
nothing (what each means say xla/hlo/transforms/expanders/qr_expander.h, householder_expander.h, eigh_expander.h).
Floats narrower than f32 are computed in f32.
"""

from __future__ import annotations

from ..ir import dim as dims_
from ..ir.dtype import F32, PRED, S32, DType
from ..ir.lapack_calls import letters_text, target_of
from ..ir.node import Instr
from ..ir.shape import Shape, array, tuple_of
from .base import Rule, of_rules
from .match import broadcast, dtype_of, make, splat


def _wide(dtype: DType) -> DType:
    return F32 if dtype.bits < 32 else dtype


def _convert(i: Instr, x: Instr, dtype: DType) -> Instr:
    return x if dtype_of(x) == dtype else make(i, "convert", array(dtype, x.shape.dims), (x,))


def _part(i: Instr, whole: Instr, index: int) -> Instr:
    return make(i, "get-tuple-element", whole.shape.elements[index], (whole,), index=index)


def _call(i: Instr, routine: str, operands: tuple[Instr, ...], shape: Shape, **codes: str) -> Instr:
    return make(
        i,
        "custom-call",
        shape,
        operands,
        custom_call_target=target_of(routine, dtype_of(operands[0])),
        api_version="API_VERSION_TYPED_FFI",
        backend_config=letters_text(**codes),
    )


def qr(i: Instr) -> Instr | None:
    """Qr(a) --> (r above, reflectors below the diagonal, their factors)"""
    (a,) = i.operands
    dtype, out = _wide(dtype_of(a)), i.shape.elements
    wide = [array(dtype, shape.dims) for shape in out]
    call = _call(i, "geqrf", (_convert(i, a, dtype),), tuple_of(*wide))
    parts = [_convert(i, _part(i, call, n), shape.element_type) for n, shape in enumerate(out)]
    return call if dtype == dtype_of(a) else make(i, "tuple", i.shape, parts)


def reflectors(i: Instr) -> Instr | None:
    """The product of reflections, of which there are as many columns as rows: those beyond are 0."""
    a, tau = i.operands
    dtype, (*batch, m, n) = _wide(dtype_of(a)), a.shape.dims
    least = dims_.make("min", m, n)
    first = a
    if least != n:
        rows = tuple((0, d, 1) for d in (*batch, m, least))
        first = make(i, "slice", array(dtype_of(a), (*batch, m, least)), (a,), slice=rows)
    operands = (_convert(i, first, dtype), _convert(i, tau, dtype))
    found = _convert(i, _call(i, "orgqr", operands, operands[0].shape), dtype_of(a))
    if least == n:
        return found
    padding = (*((0, 0, 0) for _ in batch), (0, 0, 0), (0, dims_.make("add", n, dims_.make("mul", least, -1)), 0))
    return make(i, "pad", a.shape, (found, splat(i, 0, array(dtype_of(a)))), padding=padding)


def eigh(i: Instr) -> Instr | None:
    """Eigh(a) --> (eigenvectors as columns, eigenvalues from the least on)"""
    (a,) = i.operands
    dtype, (vectors, values) = _wide(dtype_of(a)), i.shape.elements
    lower = not i.attrs.get("backend_config", "1").startswith("0")
    real = _wide(values.element_type)
    batch = a.shape.dims[:-2]
    shape = tuple_of(array(dtype, a.shape.dims), array(real, values.dims), array(S32, batch))
    call = _call(i, "syevd", (_convert(i, a, dtype),), shape, mode="V", uplo="L" if lower else "U")
    info = _part(i, call, 2)
    found = make(i, "compare", array(PRED, batch), (info, splat(i, 0, info.shape)), direction="EQ")
    parts = []
    for number, into in enumerate((vectors, values)):
        part = _part(i, call, number)
        chosen = broadcast(i, found, part.shape.dims, tuple(range(len(batch))))
        nan = splat(i, float("nan"), part.shape)
        parts.append(_convert(i, make(i, "select", part.shape, (chosen, part, nan)), into.element_type))
    return make(i, "tuple", i.shape, parts)


def expand(i: Instr) -> Instr | None:
    """What the custom call's target says; None of others."""
    rule = _RULES.get(i.attrs["custom_call_target"])
    return rule(i) if rule else None


_RULES: dict[str, Rule] = {"Qr": qr, "ProductOfElementaryHouseholderReflectors": reflectors, "Eigh": eigh}


PASS = of_rules("linear-algebra-expander", {"custom-call": [expand]})
