"""Index arithmetic shared by lowerings: a flat number to an index of a space, and back."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dim import Dim
from ..builder import KernelBuilder
from ..ir import Var


def delinearize(b: KernelBuilder, flat: Var, dims: Sequence[Dim]) -> list[Var]:
    """The index (outermost first) at position `flat` of a row-major space of `dims`."""
    index: list[Var] = []
    for position, dim in enumerate(reversed(dims)):
        last = position == len(dims) - 1
        if dim == 1:
            index.append(b.index(0))
            continue
        index.append(flat if last else b.remainder(flat, b.size(dim)))
        if not last:
            flat = b.quotient(flat, b.size(dim))
    return index[::-1]


def digits(b: KernelBuilder, flat: Var, dims: Sequence[Dim]) -> tuple[Var, ...]:
    """As `delinearize`, by constants where dims are fixed: a GPU divides by one far cheaper, and code is its own then
    for each. In the type of `flat`, which must be s64 where dims are not fixed."""
    if not all(isinstance(d, int) for d in dims[1:]):
        return tuple(delinearize(b, flat, dims))
    found: list[Var] = []
    for d in reversed(dims[1:]):
        extent = b.const(d, flat.dtype)
        found.append(b.const(0, flat.dtype) if d == 1 else b.remainder(flat, extent))
        flat = flat if d == 1 else b.quotient(flat, extent)
    return (flat, *reversed(found)) if dims else ()


def linearize(b: KernelBuilder, index: Sequence[Var], dims: Sequence[Dim]) -> Var:
    """The row-major offset of `index` in an array of `dims`."""
    offset = b.index(0)
    for value, dim in zip(index, dims):
        offset = b.add(b.mul(offset, b.size(dim)), value)
    return offset


def all_of(b: KernelBuilder, tests: Sequence[Var | None]) -> Var | None:
    """The conjunction of the tests that are there; None when there is none."""
    result: Var | None = None
    for test in tests:
        if test is not None:
            result = test if result is None else b.op("and", result, test)
    return result


def inside(b: KernelBuilder, value: Var, dim: Dim) -> Var:
    """0 <= value < dim."""
    low = b.compare(value, b.index(0), "GE")
    return b.op("and", low, b.compare(value, b.size(dim), "LT"))
