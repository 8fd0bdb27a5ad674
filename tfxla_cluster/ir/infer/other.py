"""Constants, batch norm, linear algebra, fft, dynamic sizes, random bits, custom calls."""

from __future__ import annotations

from .. import dim as dims_
from ..dtype import DTYPES, S32, U64
from ..lapack_calls import expected_result, lapack_call
from ..literal import Literal
from ..rules import broken, check
from ..shape import TOKEN, Shape, array, tuple_of
from .common import Case, Rule, distinct, fits_in, same, same_dims

_REAL = {"c64": "f32", "c128": "f64"}
_COMPLEX = {"f32": "c64", "f64": "c128"}


def _fits(value: Literal, shape: Shape) -> bool:
    if isinstance(value, tuple):
        return shape.is_tuple and len(value) == len(shape.elements) and all(map(_fits, value, shape.elements))
    return (
        shape.is_array
        and shape.dtype is not None
        and value.dtype == shape.dtype.numpy
        and value.shape == tuple(map(dims_.from_bounds, shape.dims))
    )


def _constant(case: Case) -> Shape:
    assert case.result is not None
    check(_fits(case.attrs["literal"], case.result), "O6", f"constant of shape {case.result}")
    return case.result


def _check_vectors(case: Case, vectors: range) -> Shape:
    x, feature = case.array(0), case.attrs["feature_index"]
    check(0 <= feature < x.rank, "O1", f"{case.opcode} of {x} with feature {feature}")
    for i in vectors:
        check(
            same_dims(case.array(i).dims, [x.dims[feature]]) and case.dtype(i) == case.dtype(0),
            "O1",
            f"{case.opcode} of {x} with {case.array(i)}",
        )
    return array(case.dtype(0), (x.dims[feature],))


def _batch_norm_inference(case: Case) -> Shape:
    _check_vectors(case, range(1, 5))
    return array(case.dtype(0), case.array(0).dims)


def _batch_norm_training(case: Case) -> Shape:
    vector = _check_vectors(case, range(1, 3))
    return tuple_of(array(case.dtype(0), case.array(0).dims), vector, vector)


def _batch_norm_grad(case: Case) -> Shape:
    vector = _check_vectors(case, range(1, 4))
    check(same_dims(case.array(4).dims, case.array(0).dims), "O1", f"batch-norm-grad of {case.array(4)}")
    return tuple_of(array(case.dtype(0), case.array(0).dims), vector, vector)


def _check_square(case: Case) -> None:
    x = case.array(0)
    check(
        x.rank >= 2 and same(x.dims[-1], x.dims[-2]) and case.dtype(0).kind in ("float", "complex"),
        "O2",
        f"{case.opcode} of {x}",
    )


def _cholesky(case: Case) -> Shape:
    _check_square(case)
    return array(case.dtype(0), case.array(0).dims)


def _triangular_solve(case: Case) -> Shape:
    _check_square(case)
    a, b = case.array(0), case.array(1)
    side = -2 if case.attrs["left_side"] else -1
    fits = a.rank == b.rank and same_dims(a.dims[:-2], b.dims[:-2]) and same(a.dims[-1], b.dims[side])
    check(fits and case.dtype(1) == case.dtype(0), "O2", f"triangular-solve of {a} and {b}")
    return array(case.dtype(0), b.dims)


def _half(length: dims_.Dim) -> dims_.Dim:
    """How many frequencies tell a real signal of this length: none of an empty one."""
    return 0 if length == 0 else dims_.make("add", dims_.make("floordiv", length, 2), 1)


def _fft(case: Case) -> Shape:
    x, kind, lengths = case.array(0), case.attrs["fft_type"], case.attrs["fft_length"]
    name = case.dtype(0).name
    wants = _COMPLEX if kind == "RFFT" else _REAL
    check(1 <= len(lengths) <= 3 and len(lengths) <= x.rank and name in wants, "O3", f"{kind} of {x} by {lengths}")
    sizes = list(lengths)
    halved = [*lengths[:-1], _half(lengths[-1])]
    before = halved if kind == "IRFFT" else sizes
    check(same_dims(x.dims[-len(sizes) :], before), "O3", f"{kind} of {x} by {lengths}")
    if kind == "RFFT":
        sizes = halved
    dtype = DTYPES[_COMPLEX[name]] if kind == "RFFT" else DTYPES[_REAL[name]] if kind == "IRFFT" else case.dtype(0)
    return array(dtype, (*x.dims[: -len(sizes)], *sizes))


def _get_dimension_size(case: Case) -> Shape:
    x = case.array(0)
    check(
        len(case.attrs["dimensions"]) == 1 and distinct(case.attrs["dimensions"], x.rank),
        "O4",
        f"get-dimension-size of {x}",
    )
    return array(S32)


def _set_dimension_size(case: Case) -> Shape:
    """The operand's shape; along the dimension a size that the run makes where the instruction says so, else the bound
    (XLA's InferSetDimensionSizeShape)."""
    x = case.array(0)
    check(
        len(case.attrs["dimensions"]) == 1 and distinct(case.attrs["dimensions"], x.rank),
        "O4",
        f"set-dimension-size of {x}",
    )
    dims, (axis,) = list(x.dims), case.attrs["dimensions"]
    dims[axis] = bound = dims_.capacity(dims[axis])
    claimed = case.claimed().dims if case.result is not None else ()
    if len(claimed) == x.rank and dims_.has_produced(claimed[axis]):
        known = same(dims_.capacity(claimed[axis]), bound)
        dims[axis] = claimed[axis] if known else dims_.bounded_only(bound)
    return array(case.dtype(0), tuple(dims))


def _rng_bit_generator(case: Case) -> Shape:
    state, out = case.array(0), case.result
    size = state.dims[0] if state.rank == 1 else 0
    any_size = case.attrs["algorithm"] == "rng_default"
    check(
        state.rank == 1 and state.dtype in (U64, DTYPES["u32"]) and (any_size or size in (2, 3, 4)),
        "O5",
        f"rng-bit-generator with state {state}",
    )
    check(out is not None and out.is_tuple and len(out.elements) == 2, "A4", "rng-bit-generator gives (state, bits)")
    assert out is not None
    return tuple_of(state, out.elements[1])


def _topk(case: Case) -> Shape:
    x, k = case.array(0), case.attrs["k"]
    check(x.rank > 0 and fits_in(k, x.dims[-1]), "O7", f"topk of {k} of {x}")
    return tuple_of(*(array(dtype, (*x.dims[:-1], k)) for dtype in (case.dtype(0), S32)))


def _custom_call(case: Case) -> Shape:
    """What it says, unless it is a routine whose results are known."""
    assert case.result is not None
    call = lapack_call(case.attrs)
    if call is None:
        return case.result
    found = expected_result(call, case.operands, case.result)
    if found is None:
        broken("O8", f"{call.name} of {', '.join(map(str, case.operands))} as {case.result}")
    return found


def _after_all(case: Case) -> Shape:
    check(all(o.kind == "token" for o in case.operands), "A4", "after-all takes tokens")
    return TOKEN


RULES: dict[str, Rule] = {
    "constant": _constant,
    "batch-norm-inference": _batch_norm_inference,
    "batch-norm-training": _batch_norm_training,
    "batch-norm-grad": _batch_norm_grad,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
    "rng-bit-generator": _rng_bit_generator,
    "topk": _topk,
    "after-all": _after_all,
    "custom-call": _custom_call,
}
