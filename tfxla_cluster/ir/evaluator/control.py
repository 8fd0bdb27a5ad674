"""Control flow, tuples, tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Instr
from .core import Evaluator, Meaning


def _while(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    state = args[0]
    while ev.run(instr.attrs["condition"], [state]):
        state = ev.run(instr.attrs["body"], [state])
    return state


def _conditional(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    """An index out of range takes the last branch."""
    if "true_computation" in instr.attrs:
        chosen = 0 if args[0] else 1
        branches = instr.attrs["true_computation"], instr.attrs["false_computation"]
    else:
        branches = instr.attrs["branch_computations"]
        chosen = int(args[0]) if 0 <= int(args[0]) < len(branches) else len(branches) - 1
    return ev.run(branches[chosen], [args[1 + chosen]])


def _call(attribute: str) -> Meaning:
    return lambda ev, instr, args: ev.run(instr.attrs[attribute], args)


def _get_tuple_element(ev: Evaluator, instr: Instr, args: list[Any]) -> Any:
    return args[0][instr.attrs["index"]]


MEANINGS: dict[str, Meaning] = {
    "while": _while,
    "conditional": _conditional,
    "call": _call("to_apply"),
    "fusion": _call("calls"),
    "tuple": lambda ev, instr, args: tuple(args),
    "get-tuple-element": _get_tuple_element,
    "after-all": lambda ev, instr, args: (),
    "add-dependency": lambda ev, instr, args: args[0],
    "partition-id": lambda ev, instr, args: np.uint32(0),
    "replica-id": lambda ev, instr, args: np.uint32(0),
}
