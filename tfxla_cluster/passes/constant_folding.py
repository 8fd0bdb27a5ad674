"""constant-folding: small instructions on literals --> their value.

Only opcodes whose result is exact or correctly rounded (so that no target computes another one), and
no subnormal numbers (kernels flush them, NumPy does not).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..ir.evaluator import MEANINGS, Evaluator
from ..ir.literal import freeze
from ..ir.node import Computation, Instr
from ..ir.opcode import OPCODES
from ..ir.rewrite import rebuild
from .base import of_computations
from .match import make

LIMIT = 1024
_INEXACT = frozenset(
    (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cosine",
        "cosh",
        "erf",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "power",
        "rsqrt",
        "sine",
        "sinh",
        "tan",
        "tanh",
        "stochastic-convert",
        "map",
        "copy",
    )
)
_FOLDED = frozenset(op.name for op in OPCODES.values() if op.category == "elementwise" and op.name not in _INEXACT) | {
    "reshape",
    "transpose",
    "slice",
    "reverse",
    "concatenate",
    "pad",
    "dynamic-slice",
    "dynamic-update-slice",
}


def run(comp: Computation) -> Computation:
    """Constants for instructions whose operands are all constant, where the result is small."""
    folded: dict[Instr, Instr] = {}
    for instr in comp.instrs:
        if instr.opcode in _FOLDED and instr.operands:
            operands = [folded.get(o, o) for o in instr.operands]
            if all(o.opcode == "constant" for o in operands) and _is_small(instr):
                value = _value(instr, [o.attrs["literal"] for o in operands])
                if value is not None:
                    folded[instr] = value
    return rebuild(comp, folded, drop_dead=True) if folded else comp


def _is_small(instr: Instr) -> bool:
    shapes = [i.shape for i in (instr, *instr.operands)]
    return all(s.is_array and s.is_static and np.prod(s.sample_dims, dtype=float) <= LIMIT for s in shapes)


def _value(instr: Instr, operands: list[Any]) -> Instr | None:
    with np.errstate(all="ignore"):
        result = Evaluator(MEANINGS).step(instr, operands)
    if any(map(_has_subnormal, (result, *operands))):
        return None
    return make(instr, "constant", instr.shape, (), literal=freeze(result))


def _has_subnormal(value: Any) -> bool:
    x = np.asarray(value)
    if x.dtype.kind == "c":
        return _has_subnormal(x.real) or _has_subnormal(x.imag)
    try:
        tiny = float(ml_dtypes.finfo(x.dtype).smallest_normal)
    except ValueError:
        return False
    size = np.abs(x.astype(np.float64))
    return bool(((size > 0) & (size < tiny)).any())


PASS = of_computations("constant-folding", run)
