"""Indices and sizes that are known, tuples, calls with a known branch."""

from __future__ import annotations

from ...ir.node import Instr
from ...ir.shape import array
from ..base import Rule
from ..match import constant, dtype_of, make, value_of


def tuple_element(i: Instr) -> Instr | None:
    """get-tuple-element(tuple(..., x, ...)) --> x"""
    (whole,) = i.operands
    return whole.operands[i.attrs["index"]] if whole.opcode == "tuple" else None


def same_tuple(i: Instr) -> Instr | None:
    """tuple of all elements of a tuple t, in order --> t"""
    if not i.operands or i.operands[0].opcode != "get-tuple-element":
        return None
    whole = i.operands[0].operands[0]
    same = len(whole.shape.elements) == len(i.operands) and all(
        x.opcode == "get-tuple-element" and x.operands[0] is whole and x.attrs["index"] == n
        for n, x in enumerate(i.operands)
    )
    return whole if same else None


def _starts(i: Instr, first: int, sizes: tuple[object, ...]) -> list[int] | None:
    """The clamped start in each dimension when all are known."""
    found = []
    for index, size, whole in zip(i.operands[first:], sizes, i.operands[0].shape.dims):
        value = value_of(index)
        if not isinstance(size, int) or not isinstance(whole, int):
            return None
        if whole == size:
            value = 0
        if value is None:
            return None
        found.append(min(max(int(value), 0), whole - size))
    return found


def known_slice(i: Instr) -> Instr | None:
    """dynamic-slice at a known place --> slice"""
    sizes = i.attrs["dynamic_slice_sizes"]
    starts = _starts(i, 1, sizes)
    if starts is None:
        return None
    rows = tuple((a, a + n, 1) for a, n in zip(starts, sizes))
    return make(i, "slice", array(dtype_of(i), i.shape.dims), i.operands[:1], slice=rows)


def whole_update(i: Instr) -> Instr | None:
    """dynamic-update-slice of everything --> the update; of nothing --> the operand"""
    x, update = i.operands[:2]
    if x.shape.dims == update.shape.dims:
        return update
    return x if 0 in update.shape.dims else None


def known_size(i: Instr) -> Instr | None:
    """get-dimension-size of a number --> the number"""
    size = i.operands[0].shape.dims[i.attrs["dimensions"][0]]
    return constant(i, size, dtype_of(i)) if isinstance(size, int) else None


def size_kept(i: Instr) -> Instr | None:
    """set-dimension-size to the size the dimension has --> the operand"""
    x, size = i.operands
    axis = i.attrs["dimensions"][0]
    have = x.shape.dims[axis]
    kept = isinstance(have, int) and i.shape.dims == x.shape.dims and value_of(size) == have
    return x if kept else None


def known_branch(i: Instr) -> Instr | None:
    """conditional on a known value --> call of that branch"""
    value = value_of(i.operands[0])
    if value is None:
        return None
    if "true_computation" in i.attrs:
        chosen, branches = (0 if value else 1), (i.attrs["true_computation"], i.attrs["false_computation"])
    else:
        branches = i.attrs["branch_computations"]
        chosen = int(value) if 0 <= int(value) < len(branches) else len(branches) - 1
    return make(i, "call", i.shape, (i.operands[1 + chosen],), to_apply=branches[chosen])


RULES: dict[str, list[Rule]] = {
    "get-tuple-element": [tuple_element],
    "tuple": [same_tuple],
    "dynamic-slice": [known_slice],
    "dynamic-update-slice": [whole_update],
    "get-dimension-size": [known_size],
    "set-dimension-size": [size_kept],
    "conditional": [known_branch],
}
