"""Custom calls: LAPACK's routines through SciPy's wrappers, and those that XLA expands itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import data_checks
from ...errors import UnsupportedError
from ..custom_calls import equivalent
from ..dtype import from_numpy
from ..lapack_calls import LapackCall, lapack_call, named_call
from ..node import Instr
from .core import Array, Evaluator, Meaning


def _wrapped(name: str) -> Any:
    from scipy.linalg import lapack  # takes a moment, and few modules need it

    return getattr(lapack, name)


def _order(array: Array) -> Array:
    return np.array(array, order="F")


def _getrf(call: LapackCall, a: Array) -> tuple[Any, ...]:
    if 0 in a.shape:
        return a, np.zeros(0, np.int32), 0
    lu, pivots, info = _wrapped(call.name)(_order(a))
    return lu, pivots + 1, info


def _geqrf(call: LapackCall, a: Array) -> tuple[Any, ...]:
    if 0 in a.shape:
        return a, np.zeros(0, a.dtype)
    packed, tau, _, _ = _wrapped(call.name)(_order(a))
    return packed, tau


def _orgqr(call: LapackCall, a: Array, tau: Array) -> tuple[Any, ...]:
    if 0 in a.shape:
        return (a,)
    tau = np.concatenate([tau, np.zeros(a.shape[1] - len(tau), a.dtype)])  # what is missing reflects nothing
    return (_wrapped(call.name)(_order(a), tau)[0],)


def _geqp3(call: LapackCall, a: Array, pivots: Array) -> tuple[Any, ...]:
    if pivots.any():
        raise UnsupportedError("the evaluator has no meaning for geqp3 with columns that come first")
    if 0 in a.shape:
        return a, np.arange(1, a.shape[1] + 1), np.zeros(0, a.dtype)
    packed, order, tau, _, _ = _wrapped(call.name)(_order(a))
    return packed, order, tau


def _syevd(call: LapackCall, a: Array) -> tuple[Any, ...]:
    vectors, lower = call.letter("mode", "V") == "V", call.letter("uplo", "L") == "L"
    if 0 in a.shape:
        return a, np.zeros(0), 0
    values, found, info = _wrapped(call.name)(_order(a), compute_v=vectors, lower=lower)
    return (found if vectors else a), values, info


def _svd(call: LapackCall, a: Array) -> tuple[Any, ...]:
    """Vectors that nobody asks for, or that no element tells, are 0."""
    mode, empty = call.letter("mode", "A"), 0 in a.shape
    if empty or mode == "N":
        values = np.zeros(0) if empty else _wrapped(call.name)(_order(a), compute_uv=0)[1]
        return a, values, 0, 0, 0
    u, values, vt, info = _wrapped(call.name)(_order(a), full_matrices=mode == "A")
    return a, values, u, vt, info


def _geev(call: LapackCall, a: Array) -> tuple[Any, ...]:
    sides = [call.letter(key, "V") == "V" for key in ("compute_left", "compute_right")]
    is_real = a.dtype.kind == "f"
    if 0 in a.shape:
        return *([np.zeros(0)] * (2 if is_real else 1)), a, a, 0
    *values, left, right, info = _wrapped(call.name)(_order(a), *map(int, sides))
    vectors = [(v if found else np.zeros(a.shape)) for v, found in zip((left, right), sides)]
    return *values, *(_paired(v, values[1]) if is_real else v for v in vectors), info


def _paired(vectors: Array, imaginary: Array) -> Array:
    """Complex vectors: of a conjugate pair there is a column of real and one of imaginary parts."""
    joined = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    for j in np.flatnonzero(imaginary > 0):
        joined[:, j] = vectors[:, j] + 1j * vectors[:, j + 1]
        joined[:, j + 1] = joined[:, j].conj()
    return joined


def _gees(call: LapackCall, a: Array) -> tuple[Any, ...]:
    vectors = call.letter("mode", "V") == "V"
    count = 2 if a.dtype.kind == "f" else 1
    if 0 in a.shape:
        return a, a, *([np.zeros(0)] * count), 0, 0
    form, first, *values, basis, _, info = _wrapped(call.name)(lambda *_: None, _order(a), compute_v=vectors, sort_t=0)
    return form, (basis if vectors else np.zeros(a.shape)), *values, first, info


def _gehrd(call: LapackCall, a: Array) -> tuple[Any, ...]:
    low, high = call.number("low", 1), call.number("high", len(a))
    if len(a) < 2:
        return a, np.zeros(max(0, len(a) - 1)), 0
    return tuple(_wrapped(call.name)(_order(a), lo=low - 1, hi=high - 1))


def _sytrd(call: LapackCall, a: Array) -> tuple[Any, ...]:
    if 0 in a.shape:
        return a, np.zeros(0), np.zeros(0), np.zeros(0), 0
    return tuple(_wrapped(call.name)(_order(a), lower=call.letter("uplo", "L") == "L"))


def _potrf(call: LapackCall, a: Array) -> tuple[Any, ...]:
    if 0 in a.shape:
        return a, 0
    return tuple(_wrapped(call.name)(_order(a), lower=call.letter("uplo", "L") == "L", clean=0))


def _gtsv(call: LapackCall, lower: Array, diagonal: Array, upper: Array, b: Array) -> tuple[Any, ...]:
    """The first element of the lower diagonal and the last of the upper one are not looked at."""
    if 0 in b.shape:
        return lower, diagonal, upper, b, 0
    if len(diagonal) == 1:
        return lower, diagonal, upper, b / diagonal, 0
    below, on, above, x, info = _wrapped(call.name)(lower[1:], diagonal, upper[:-1], _order(b))
    return np.append(lower[:1], below), on, np.append(above, upper[-1:]), x, info


_ROUTINES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "geqp3": _geqp3,
    "syevd": _syevd,
    "gesdd": _svd,
    "gesvd": _svd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "potrf": _potrf,
    "gtsv": _gtsv,
}


def _lapack(ev: Evaluator, instr: Instr, call: LapackCall, args: Sequence[Array]) -> Any:
    """Each of the batch by itself."""
    shapes = instr.shape.elements if instr.shape.is_tuple else (instr.shape,)
    rank = call.batch_rank(args[0].ndim)
    outs = [np.zeros(ev.dims(shape), shape.element_type.numpy) for shape in shapes]
    for where in np.ndindex(args[0].shape[:rank]):
        for out, value in zip(outs, _ROUTINES[call.routine](call, *(a[where] for a in args))):
            out[where] = value
    return tuple(outs) if instr.shape.is_tuple else outs[0]


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _qr(ev: Evaluator, instr: Instr, args: Sequence[Array]) -> Any:
    """Packed reflectors and their factors, as LAPACK has them."""
    return _each(instr, args, lambda a: _geqrf(_named("geqrf", a), a))


def _reflectors(ev: Evaluator, instr: Instr, args: Sequence[Array]) -> Any:
    def product(a: Array, tau: Array) -> tuple[Any, ...]:
        full = np.zeros_like(a)
        least = min(a.shape)
        full[:, :least] = _orgqr(_named("orgqr", a), a[:, :least], tau)[0]
        return (full,)

    return _each(instr, args, product)


def _eigh(ev: Evaluator, instr: Instr, args: Sequence[Array]) -> Any:
    lower = not instr.attrs.get("backend_config", "1").startswith("0")

    def decomposed(a: Array) -> tuple[Any, ...]:
        vectors, values, info = _syevd(_named("syevd", a, uplo=ord("L" if lower else "U")), a)
        return (vectors, values) if info == 0 else (np.full_like(vectors, np.nan), np.full_like(values, np.nan))

    return _each(instr, args, decomposed)


def _named(routine: str, a: Array, **attributes: int) -> LapackCall:
    """The call for matrices like `a`."""
    return named_call(routine, from_numpy(a.dtype), attributes)


def _each(instr: Instr, args: Sequence[Array], fn: Callable[..., tuple[Any, ...]]) -> Any:
    shapes = instr.shape.elements if instr.shape.is_tuple else (instr.shape,)
    batch = args[0].shape[:-2]
    rows = [fn(*(_wide(a)[where] for a in args)) for where in np.ndindex(batch)]
    outs = []
    for number, shape in enumerate(shapes):
        made = [row[number] for row in rows]
        kind = shape.element_type.numpy
        dims = made[0].shape if made else tuple(int(d) for d in shape.sample_dims[len(batch) :])
        outs.append(np.array(made, kind).reshape(*batch, *dims))
    return tuple(outs) if instr.shape.is_tuple else outs[0]


_XLA: dict[str, Meaning] = {"Qr": _qr, "ProductOfElementaryHouseholderReflectors": _reflectors, "Eigh": _eigh}


def _custom_call(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """By its target."""
    target = instr.attrs["custom_call_target"]
    same = equivalent(instr)
    if same is not None:
        return args[0] if same in instr.operands else ev.step(same, args)
    call = lapack_call(instr.attrs)
    if call is not None:
        return _lapack(ev, instr, call, args)
    if target == data_checks.TARGET:
        return ()  # values are what it evaluates, whatever the data
    if target not in _XLA:
        raise UnsupportedError(f"the evaluator has no meaning for the custom call {target} (%{instr.name})")
    return _XLA[target](ev, instr, args)


MEANINGS: dict[str, Meaning] = {"custom-call": _custom_call}
