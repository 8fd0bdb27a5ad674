"""Custom calls that stand for an opcode, or for nothing on one device."""

from __future__ import annotations

from . import attributes
from .lapack_calls import attributes_of, is_triangular_solve
from .node import Instr

SHARDING = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"))
_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def equivalent(instr: Instr) -> Instr | None:
    """What gives the same value as the custom call `instr`, on one device: its operand, or an instruction with its name
    and operands. None where there is none."""
    target, operands = instr.attrs["custom_call_target"], instr.operands
    if target in SHARDING and len(operands) == 1 and operands[0].shape.same_as(instr.shape):
        return operands[0]
    if target == "TopK" and len(operands) == 1 and len(instr.shape.elements) == 2:
        largest = "false" not in instr.attrs.get("backend_config", "")
        return _with(instr, "topk", k=instr.shape.elements[0].dims[-1], largest=largest)
    if is_triangular_solve(target) and len(operands) == 2:
        return _triangular_solve(instr)
    return None


def _with(instr: Instr, opcode: str, **attrs: object) -> Instr:
    return instr.replace(opcode=opcode, attrs=attributes.complete(opcode, dict(attrs)))


def _triangular_solve(instr: Instr) -> Instr:
    said = attributes_of(instr.attrs)

    def letter(key: str, default: str) -> str:
        return chr(said.get(key, ord(default)))

    return _with(
        instr,
        "triangular-solve",
        left_side=letter("side", "L") == "L",
        lower=letter("uplo", "L") == "L",
        unit_diagonal=letter("diag", "N") == "U",
        transpose_a=_TRANSPOSES.get(letter("trans_x", "N"), "NO_TRANSPOSE"),
    )
