"""custom-call of a check of data: a call of the runtime's routine, which ends the execution where there is bad data."""

from __future__ import annotations

from .... import data_checks
from ....errors import UnsupportedError
from ....ir.dim import Dim, product
from ....ir.node import Instr
from ....target import Target
from ..library_check import MAX_RANK, PROBES
from ..unit import Unit, UnitLibrary, UnitRef


def lower(instr: Instr, target: Target) -> Unit:
    """UnsupportedError where what it says does not fit its operands."""
    check = data_checks.from_json(instr.attrs.get("backend_config", ""))
    shape, *others = (o.shape for o in instr.operands)
    kind = shape.element_type
    probes = data_checks.KINDS[check.kind](kind.bits, kind.name)
    limited = probes[0].limit is None
    columns = shape.dims[-1] if check.op in data_checks.ROW_OPS else 1
    limits = product(others[0].dims) if limited else 0
    if kind.bits not in (8, 16, 32, 64) or not _fits(columns, limits):
        raise UnsupportedError(f"a check of {shape} by {limits} limits ({instr.name})")
    rows = product(shape.dims[:-1] if check.op in data_checks.ROW_OPS else shape.dims)
    sizes: list[Dim] = [
        kind.itemsize.bit_length() - 1,
        rows,
        columns,
        limits,
        (1 << (kind.bits - 1)) - (kind.bits == 64),
    ]
    dims = shape.dims if len(shape.dims) <= MAX_RANK else (product(shape.dims),)
    sizes.append(len(dims))
    for probe in (*probes, *[data_checks.NOTHING] * (PROBES - len(probes))):
        sizes += [_signed(n) for n in (probe.mask, probe.base, probe.limit or 0)]
    sizes += [*dims, *[0] * (MAX_RANK - len(dims))]
    text = f"{kind.name} {check.to_json()}".encode() + b"\0"
    inputs = tuple(UnitRef("operand", n) for n in range(1 + limited))
    return Unit((UnitLibrary(data_checks.ROUTINE, inputs, (), (), tuple(sizes), data=text),))


def _fits(columns: Dim, limits: Dim) -> bool:
    """As many limits as columns at least; a check without limits has one column."""
    if not isinstance(columns, int) or not isinstance(limits, int):
        return False
    return columns <= min(limits or 1, data_checks.MAX_COLUMNS)


def _signed(number: int) -> int:
    """As a word of 64 bits."""
    return (number + 2**63) % 2**64 - 2**63
