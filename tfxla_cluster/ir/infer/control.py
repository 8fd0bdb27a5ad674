"""Control flow and tuples."""

from __future__ import annotations

from ..dtype import PRED
from ..node import Computation
from ..rules import check
from ..shape import Shape, array, tuple_of
from .common import Case, Rule, check_signature, same_dims


def _while(case: Case) -> Shape:
    (state,) = case.operands
    check_signature(case, case.attrs["body"], [state], state, "F1")
    check_signature(case, case.attrs["condition"], [state], array(PRED), "F1")
    return state


def _branches(case: Case) -> tuple[Computation, ...]:
    pair = case.attrs.get("true_computation"), case.attrs.get("false_computation")
    if pair[0] is not None and pair[1] is not None:
        check(case.dtype(0) == PRED and case.array(0).rank == 0, "F2", f"conditional on {case.array(0)}")
        return pair[0], pair[1]
    branches = case.attrs.get("branch_computations") or ()
    check(
        bool(branches) and case.array(0).rank == 0 and case.dtype(0).name in ("s32", "pred"),
        "F2",
        f"conditional on {case.array(0)} with {len(branches)} branches",
    )
    return tuple(branches)


def _conditional(case: Case) -> Shape:
    branches = _branches(case)
    check(
        len(case.operands) == 1 + len(branches),
        "F2",
        f"conditional has {len(case.operands) - 1} arguments for {len(branches)} branches",
    )
    for branch, argument in zip(branches, case.operands[1:]):
        check_signature(case, branch, [argument], branches[0].root.shape, "F2")
    return branches[0].root.shape


def _call(case: Case) -> Shape:
    comp: Computation = case.attrs["to_apply"]
    check_signature(case, comp, case.operands, None, "F3")
    return comp.root.shape


def _fusion(case: Case) -> Shape:
    comp: Computation = case.attrs["calls"]
    check_signature(case, comp, case.operands, None, "F3")
    return comp.root.shape


def _map(case: Case) -> Shape:
    comp, x = case.attrs["to_apply"], case.array(0)
    for i in range(len(case.operands)):
        check(same_dims(case.array(i).dims, x.dims), "E1", f"map of {x} and {case.array(i)}")
    check_signature(case, comp, [array(case.dtype(i)) for i in range(len(case.operands))], None, "F3")
    return array(comp.root.shape.dtype, x.dims)


def _tuple(case: Case) -> Shape:
    return tuple_of(*case.operands)


def _get_tuple_element(case: Case) -> Shape:
    (whole,) = case.operands
    check(whole.is_tuple, "A4", f"get-tuple-element of {whole}")
    index: int = case.attrs["index"]
    check(0 <= index < len(whole.elements), "F4", f"element {index} of {whole}")
    return whole.elements[index]


def _same(case: Case) -> Shape:
    return case.operands[0]


RULES: dict[str, Rule] = {
    "while": _while,
    "conditional": _conditional,
    "call": _call,
    "fusion": _fusion,
    "map": _map,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "opt-barrier": _same,
    "add-dependency": _same,
}
